"""A cloud beside a real Neutron: after each move the ports are bound and plugged where the server is, as Neutron says.

The unmodified openstack client, simulated hosts by the names of hosts with live agents, and a kill -9 in a migration.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from tests.live.running_cloud import CLOUD, RunningCloud
from tests.openstack_services import real_services
from tests.processes import program, wait_for
from whimbrel.cli.demo.cloud_processes import Program
from whimbrel.settings.datadir import DataDir

pytestmark = [pytest.mark.openstack, pytest.mark.long]

HOST = """
[[cell.host]]
name = "{name}"
zone = "nova"
vcpus = 8
memory_mib = 16384
disk_gib = 200
driver = "simulated"
"""
KEYSTONE = """
[keystone]
auth_url = "{auth_url}"
username = "{username}"
password_file = "keystone-password"
project_name = "{project_name}"
"""


class BesideNeutron(RunningCloud):
    """The cloud, and what its Neutron says of ports."""

    def __init__(self, directory: Path, up: Program) -> None:
        super().__init__(DataDir(directory / "data"), up)
        self._directory = directory
        self._user = real_services().cloud("demo-admin")

    @cached_property
    def neutron(self) -> httpx.Client:
        return real_services().cloud("service").client("network")

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"OS_CLIENT_CONFIG_FILE": str(self._directory / "clouds.yaml")}

    def start(self) -> None:
        """Start the process, and let clients find it wherever the catalog has the compute service."""
        self.program.start()
        self.program.wait_until_it_says("Whimbrel is up")
        [url] = re.findall(r"is up at (http://\S+\d)", (self._directory / "up.log").read_text())
        settings = self._user.settings | {"compute_endpoint_override": f"{url}/compute/v2.1"}
        (self._directory / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"whimbrel": settings}}))

    def has(self, name: str, status: str) -> str:
        """Wait until a server has this status; return its host."""
        shown = wait_for(
            lambda: self.openstack("server", "show", name),
            lambda seen: seen["status"] in (status, "ERROR"),
            f"{name} is {status}",
        )
        assert shown["status"] == status, shown
        host: str = shown["OS-EXT-SRV-ATTR:host"]
        return host

    def port(self, port_id: str) -> tuple[str, str, str]:
        """Return host, VIF type and status of a port."""
        shown: dict[str, Any] = self.neutron.get(f"/v2.0/ports/{port_id}").raise_for_status().json()["port"]
        return shown["binding:host_id"], shown["binding:vif_type"], shown["status"]

    def bindings(self, port_id: str) -> set[tuple[str, str]]:
        shown = self.neutron.get(f"/v2.0/ports/{port_id}/bindings").raise_for_status().json()["bindings"]
        return {(each["host"], each["status"]) for each in shown}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[BesideNeutron]:
    service = real_services().cloud("service")
    auth = service.settings["auth"]
    (tmp_path / "keystone-password").write_text(auth["password"])
    (tmp_path / "keystone-password").chmod(0o600)
    settings = KEYSTONE.format(**auth) + CLOUD + "".join(HOST.format(name=name) for name in real_services().hosts()[:2])
    (tmp_path / "cloud.toml").write_text(settings)
    arguments = ["up", "--data-dir", str(tmp_path / "data"), "--port", "0", "--cloud", str(tmp_path / "cloud.toml")]
    up = program("up", arguments, tmp_path / "up.log")
    try:
        cloud = BesideNeutron(tmp_path, up)
        cloud.start()
        yield cloud
    finally:
        up.end()


@contextmanager
def a_port(cloud: BesideNeutron, name: str, *words: str) -> Iterator[str]:
    port: str = cloud.openstack("port", "create", "--network", "private", *words, name)["id"]
    try:
        yield port
    finally:
        cloud.neutron.delete(f"/v2.0/ports/{port}")


@contextmanager
def a_server(cloud: BesideNeutron, name: str, port: str) -> Iterator[str]:
    """Boot a server with a port; return its host."""
    cloud.say("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--nic", f"port-id={port}", name)
    try:
        yield cloud.has(name, "ACTIVE")
    finally:
        cloud.run("openstack", "--os-cloud", "whimbrel", "server", "delete", "--wait", name)


def test_ports_follow_their_server(cloud: BesideNeutron) -> None:
    name = f"beside-{uuid4().hex[:8]}"
    with a_port(cloud, name) as port:
        with a_server(cloud, name, port) as source:
            assert cloud.port(port) == (source, "ovs", "ACTIVE")

            cloud.say("server", "resize", "--flavor", "m1.small", name)
            target = cloud.has(name, "VERIFY_RESIZE")
            assert target != source
            assert cloud.port(port) == (target, "ovs", "ACTIVE")
            assert cloud.bindings(port) == {(target, "ACTIVE"), (source, "INACTIVE")}
            cloud.say("server", "resize", "revert", name)
            assert cloud.has(name, "ACTIVE") == source
            assert cloud.port(port) == (source, "ovs", "ACTIVE")
            assert cloud.bindings(port) == {(source, "ACTIVE")}

            cloud.say("server", "migrate", name)
            cloud.program.kill()
            cloud.start()
            assert cloud.has(name, "VERIFY_RESIZE") == target
            assert cloud.port(port) == (target, "ovs", "ACTIVE")
            cloud.say("server", "resize", "confirm", name)
            assert cloud.has(name, "ACTIVE") == target
            wait_for(lambda: cloud.bindings(port), lambda seen: seen == {(target, "ACTIVE")}, "the source is unbound")

            cloud.say("server", "migrate", "--live-migration", name)
            wait_for(lambda: cloud.has(name, "ACTIVE"), lambda host: host == source, "it was migrated live")
            wait_for(lambda: cloud.port(port), lambda seen: seen == (source, "ovs", "ACTIVE"), "its port is plugged")
            wait_for(lambda: cloud.bindings(port), lambda seen: seen == {(source, "ACTIVE")}, "the target has it")
        shown = cloud.neutron.get(f"/v2.0/ports/{port}").json()["port"]
        assert (shown["device_id"], shown["binding:host_id"], shown["binding:vif_type"]) == ("", "", "unbound")
