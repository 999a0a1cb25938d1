"""cloud-init reads what guests are told: from the config drives of real guests, the same after every move, and from the
metadata service through an agent such as Neutron's.
"""

import base64
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair  # noqa: F401
from tests.live import cloud_init
from tests.live.running_cloud import running_cloud
from tests.live.test_libvirt_cloud import Cloud, cloud  # noqa: F401
from whimbrel.api.metadata_service import signature_of
from whimbrel.cli.client import Api, Login
from whimbrel.settings.datadir import DEMO_CLOUD

pytestmark = pytest.mark.long

USER_DATA = "#cloud-config\npackages: [nginx]\n"
SECRET = "shared with the agent"


@pytest.fixture(autouse=True)
def installed() -> None:
    cloud_init.check_installed()


def on_drive(pair: LibvirtPair, host: str, server: str) -> dict[str, Any]:
    """Return what cloud-init finds on the drive of the only guest of a host."""
    [image] = (pair.directory(host) / "guests" / server).glob("*/config.iso")
    with tempfile.TemporaryDirectory() as directory:
        return cloud_init.read_drive(image, Path(directory))


def test_the_drive_of_a_real_guest_is_the_same_after_every_move(
    cloud: Cloud,  # noqa: F811
    libvirt_pair: LibvirtPair,  # noqa: F811
) -> None:
    sent = {"config_drive": True, "user_data": base64.b64encode(USER_DATA.encode()).decode(), "adminPass": "secret"}
    server = cloud.boot(imageRef=cloud.tick_image(), metadata={"role": "web"}, **sent)
    [(source, _)] = cloud.guests()
    first = on_drive(libvirt_pair, source, server)
    told = first["metadata"]
    assert (told["uuid"], told["meta"], told["admin_pass"]) == (server, {"role": "web"}, "secret")
    assert (told["local-hostname"], first["userdata"], first["version"]) == ("one.novalocal", USER_DATA, 2)
    assert first["converted"]["config"][0]["subnets"][0]["type"] == "dhcp4"
    cloud.act(server, "VERIFY_RESIZE", {"migrate": None})
    cloud.act(server, "ACTIVE", {"confirmResize": None})
    [(cold, _)] = cloud.guests()
    assert cold != source
    assert on_drive(libvirt_pair, cold, server) == first
    cloud.until(lambda: bool(cloud.ticks(server)))
    memory = cloud.ticks(server)[-1].nonce
    cloud.act(server, "ACTIVE", {"os-migrateLive": {"host": None, "block_migration": "auto"}})
    [(live, _)] = cloud.guests()
    assert live != cold
    assert on_drive(libvirt_pair, live, server) == first
    cloud.until(lambda: bool(cloud.ticks(server)))
    assert cloud.ticks(server)[-1].nonce == memory


def without_secrets(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a guest that is built again is told anew: its password, and what its random numbers begin with."""
    told = {name: value for name, value in found["metadata"].items() if name not in ("admin_pass", "random_seed")}
    return {**found, "metadata": told}


def test_the_drive_of_a_guest_that_is_built_again_is_the_same(
    cloud: Cloud,  # noqa: F811
    libvirt_pair: LibvirtPair,  # noqa: F811
) -> None:
    user_data = base64.b64encode(USER_DATA.encode()).decode()
    server = cloud.boot(imageRef=cloud.tick_image(), metadata={"role": "web"}, config_drive=True, user_data=user_data)

    def drive() -> dict[str, Any]:
        [(host, _)] = cloud.guests()
        return without_secrets(on_drive(libvirt_pair, host, server))

    first = drive()
    larger = {"flavor": {"id": "l", "name": "l", "vcpus": 1, "ram": 96, "disk": 1}}
    cloud.operator.post("compute", "/flavors", larger)
    cloud.act(server, "VERIFY_RESIZE", {"resize": {"flavorRef": "l"}})
    cloud.act(server, "ACTIVE", {"confirmResize": None})
    assert drive() == first
    cloud.act(server, "SHELVED_OFFLOADED", {"shelve": None})
    cloud.act(server, "ACTIVE", {"unshelve": None})
    assert drive() == first
    cloud.act(server, "ACTIVE", {"rebuild": {"imageRef": cloud.tick_image()}})
    assert drive() == first
    cloud.act(server, "RESCUE", {"rescue": None})
    cloud.act(server, "ACTIVE", {"unrescue": None})
    assert drive() == first
    [(source, _)] = cloud.guests()
    cloud.act(server, "SHUTOFF", {"os-stop": None})
    [service] = cloud.operator.get("compute", f"/os-services?host={source}&binary=nova-compute")["services"]
    cloud.operator.put("compute", f"/os-services/{service['id']}", {"forced_down": True})
    cloud.operator.post("compute", f"/servers/{server}/action", {"evacuate": {}})
    cloud.until(lambda: {host for host, _ in cloud.guests()} > {source})
    cloud.operator.put("compute", f"/os-services/{service['id']}", {"forced_down": False})
    cloud.until(lambda: source not in {host for host, _ in cloud.guests()})
    cloud.act(server, "ACTIVE", {"os-start": None})
    assert drive() == first


@contextmanager
def metadata_agent(service: str, server: str, project: str) -> Iterator[str]:
    """Forward the requests of one guest as Neutron's metadata agent does; yield the URL that the guest asks."""
    headers = {
        "X-Instance-ID": server,
        "X-Instance-ID-Signature": signature_of(server, SECRET.encode()),
        "X-Tenant-ID": project,
    }

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                asked = urllib.request.Request(service + self.path, headers=headers)
                with urllib.request.urlopen(asked) as answer:
                    status, body = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                status, body = error.code, error.read()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Agent) as agent:
        serving = threading.Thread(target=agent.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{agent.server_port}"
        finally:
            agent.shutdown()
            serving.join()


def test_the_metadata_service_is_read_through_an_agent(tmp_path: Path) -> None:
    (tmp_path / "metadata.secret").write_text(SECRET)
    (tmp_path / "vendor.json").write_text('{"cloud-init": "#cloud-config"}')
    settings = '[guests]\nvendor_data_file = "vendor.json"\n[metadata]\nport = 0\nsecret_file = "metadata.secret"\n'
    with running_cloud(tmp_path, settings=settings) as running, Api(Login(running.home.clouds, DEMO_CLOUD)) as member:
        service = (tmp_path / "up.log").read_text().split("metadata agents ask at ")[1].split()[0]
        user_data = base64.b64encode(USER_DATA.encode()).decode()
        [image] = member.get("image", "/v2/images?name=tick")["images"]
        [flavor, *_] = member.get("compute", "/flavors")["flavors"]
        wanted = {"name": "one", "flavorRef": flavor["id"], "imageRef": image["id"], "networks": "auto"}
        body = {"server": {**wanted, "user_data": user_data, "metadata": {"role": "web"}}}
        server = member.post("compute", "/servers", body)["server"]["id"]
        shown = member.get("compute", f"/servers/{server}")["server"]
        with metadata_agent(service, server, shown["tenant_id"]) as url:
            found = cloud_init.read_service(url)
        told = found["metadata"]
        assert (told["uuid"], told["meta"], found["userdata"]) == (server, {"role": "web"}, USER_DATA)
        assert told["local-hostname"] == "one.novalocal"
        assert "admin_pass" not in told
        assert found["vendors"][0] == "#cloud-config"
