"""A Linux guest of a whole cloud: it gets its address, reads its metadata, and is logged in to by its floating IP.

Its agent sets a password, and freezes its file systems for a snapshot.
"""

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha512
from pathlib import Path
from typing import Any

import pytest

from tests.live.linux_image import linux_image
from tests.live.openstack_client import OpenstackClient
from tests.live.root_hosts import RootHost, on_network_of, root_hosts  # noqa: F401
from tests.processes import wait_for
from whimbrel.cli.client import Api, Login
from whimbrel.settings.datadir import ADMIN_CLOUD, DataDir

pytestmark = pytest.mark.long

SETTINGS = """
[[cell]]
name = "one"
[[cell.host]]
name = "a"
zone = "nova"
vcpus = 8
memory_mib = 4096
disk_gib = 100
driver = "libvirt"
uri = "{uri}"
guests_dir = "{directory}"
guest_nics = "bridge"
[[cell.host.nic]]
name = "br-ex"
physnet = "outside"
"""
SUBNET = {"ip_version": 4, "cidr": "10.5.0.0/24"}
OUTSIDE = {"ip_version": 4, "cidr": "172.24.4.0/24", "gateway_ip": "172.24.4.1", "enable_dhcp": False}
EXTERNAL = {
    "name": "outside", "router:external": True,
    "provider:network_type": "flat", "provider:physical_network": "outside",
}  # fmt: skip
SSH = {"direction": "ingress", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}
WITH_AGENT = {"hw_qemu_guest_agent": "yes", "os_require_quiesce": "yes"}
READ_S = 3.0
OPTIONS = (
    "BatchMode=yes", "IdentitiesOnly=yes", "LogLevel=ERROR", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"
)  # fmt: skip


class Cloud:
    def __init__(self, host: RootHost, api: Api, home: DataDir) -> None:
        self.host = host
        self.environment = os.environ | {"OS_CLIENT_CONFIG_FILE": str(home.clouds), "OS_CLOUD": ADMIN_CLOUD}
        self._api = api

    def make(self, service: str, path: str, kind: str, /, **fields: Any) -> dict[str, Any]:
        made: dict[str, Any] = self._api.post(service, path, {kind: fields})[kind]
        return made

    def network(self, subnet: dict[str, Any], **fields: Any) -> tuple[str, str]:
        network = self.make("network", "/v2.0/networks", "network", **fields)["id"]
        return network, self.make("network", "/v2.0/subnets", "subnet", network_id=network, **subnet)["id"]

    def upload(self, disk: Path) -> str:
        fields = {"name": "linux", "disk_format": "qcow2", "container_format": "bare", **WITH_AGENT}
        image: str = self._api.post("image", "/v2/images", fields)["id"]
        self._api.put("image", f"/v2/images/{image}/file", content=disk.read_bytes())
        return image

    def boot(self, image: str, network: str) -> str:
        self.make("compute", "/flavors", "flavor", id="s", name="s", vcpus=1, ram=128, disk=1)
        wanted = {"name": "one", "flavorRef": "s", "imageRef": image, "networks": [{"uuid": network}], "key_name": "k"}
        server: str = self.make("compute", "/servers", "server", **wanted)["id"]
        return server

    def console(self, server: str) -> str:
        status = self._api.get("compute", f"/servers/{server}")["server"]
        assert status["status"] != "ERROR", status.get("fault")
        if status["status"] != "ACTIVE":
            return ""
        read: str = self._api.post("compute", f"/servers/{server}/action", {"os-getConsoleOutput": {}})["output"]
        return read

    def port_of(self, server: str) -> dict[str, Any]:
        [port] = self._api.get("network", f"/v2.0/ports?device_id={server}")["ports"]
        found: dict[str, Any] = port
        return found

    def host_state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._api.get("compute", "/whimbrel/hosts/a")["host"]
        return state

    def put(self, path: str, body: Any) -> None:
        self._api.put("network", path, body)

    def import_key(self, key: Path) -> None:
        self.make("compute", "/os-keypairs", "keypair", name="k", public_key=key.with_suffix(".pub").read_text())

    def ssh(self, server: str, key: Path, command: str) -> str:
        """Run a command in a guest by `openstack server ssh`; return what came of it."""
        options = [word for option in OPTIONS for word in ("-o", option)]
        words = ["server", "ssh", server, "--", "-l", "root", "-i", str(key), *options, command]
        client = OpenstackClient()  # one on this network
        try:
            return client.run(words, self.environment).stdout.strip()
        finally:
            client.close()

    def act(self, server: str, action: dict[str, Any]) -> None:
        self._api.post("compute", f"/servers/{server}/action", action)

    def images(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.get("image", f"/v2/images?name={name}&status=active")["images"]
        return found

    def remove(self, server: str) -> None:
        self._api.delete("compute", f"/servers/{server}")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return linux_image(tmp_path)


@pytest.fixture
def cloud(disk: Path, tmp_path: Path, root_hosts: dict[str, RootHost]) -> Iterator[Cloud]:  # noqa: F811
    host, home = root_hosts["a"], DataDir(tmp_path / "data")
    for words in (
        "link set lo up",
        "link add br-ex type bridge",
        "addr add 172.24.4.1/24 dev br-ex",
        "link set br-ex up",
    ):
        host.run("ip", *words.split())
    host.run("mkdir", "-p", "/run/netns")
    settings = tmp_path / "cloud.toml"
    settings.write_text(SETTINGS.format(uri=host.uri, directory=host.guests_dir))
    up = host.program("up", "up", "--data-dir", str(home.path), "--port", "0", "--cloud", str(settings))
    with ExitStack() as opened:
        opened.callback(host.run, "ip", "link", "del", "br-ex")
        up.start()
        opened.callback(up.kill)
        up.wait_until_it_says("Whimbrel is up")
        opened.enter_context(on_network_of(host.pid))
        yield Cloud(host, opened.enter_context(Api(Login(home.clouds, ADMIN_CLOUD))), home)


def hello(address: str) -> str:
    """Return what the SSH server at an address says first; "": it is not reached."""
    try:
        with socket.create_connection((address, 22), timeout=READ_S) as talk:
            return talk.recv(100).decode(errors="replace").strip()
    except OSError:
        return ""


def new_key(file: Path) -> Path:
    """Make a key pair: the private part in a file, the public one beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return file


def until(look: Callable[[], Any], what: str) -> Any:
    return wait_for(look, bool, what)


def test_a_guest_is_reached_and_logged_in_to_and_its_agent_answers(cloud: Cloud, disk: Path, tmp_path: Path) -> None:
    assert cloud.host_state()["guest_nics"] == "bridge"
    image = cloud.upload(disk)
    network, subnet = cloud.network(SUBNET, name="inside", mtu=1400)
    outside, _ = cloud.network(OUTSIDE, **EXTERNAL)
    gateway = {"network_id": outside}
    router = cloud.make("network", "/v2.0/routers", "router", name="r", external_gateway_info=gateway)["id"]
    cloud.put(f"/v2.0/routers/{router}/add_router_interface", {"subnet_id": subnet})
    key, other = new_key(tmp_path / "key"), new_key(tmp_path / "other")
    cloud.import_key(key)
    server = cloud.boot(image, network)
    until(lambda: "METADATA {" in cloud.console(server), "the guest has read its metadata")
    said, port = cloud.console(server), cloud.port_of(server)
    address = port["fixed_ips"][0]["ip_address"]
    assert f"ADDRESS {address}" in said
    told = json.loads(said.partition("METADATA ")[2].splitlines()[0])
    assert (told["uuid"], told["name"]) == (server, "one")
    fields = {"floating_network_id": outside, "port_id": port["id"]}
    floating = cloud.make("network", "/v2.0/floatingips", "floatingip", **fields)["floating_ip_address"]
    assert hello(floating) == ""  # its security group does not let anyone in
    rule = {"security_group_id": port["security_groups"][0], "ethertype": "IPv4", **SSH}
    cloud.make("network", "/v2.0/security-group-rules", "security_group_rule", **rule)
    host_name = f"host-{address.replace('.', '-')}"
    assert until(lambda: hello(floating), "the floating IP is reached").startswith("SSH-2.0")
    assert cloud.ssh(server, key, "hostname") == host_name
    assert cloud.ssh(server, other, "hostname") == "", "the key is what admits"
    cloud.act(server, {"changePassword": {"adminPass": "secret"}})
    assert sha512(b"secret").hexdigest() in cloud.ssh(server, key, "cat /etc/shadow")
    cloud.act(server, {"createImage": {"name": "frozen"}})
    until(lambda: cloud.images("frozen"), "the snapshot is there")
    assert "guest-fsfreeze-freeze" in cloud.ssh(server, key, "cat /agent.log")
    cloud.remove(server)
    until(lambda: not [each for each in cloud.host.devices() if each.startswith(("tap", "wo"))], "its devices are gone")
