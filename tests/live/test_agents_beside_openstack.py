"""Many processes beside real services: two APIs, conductors that are killed, and agents that get images by the relay.

What is left is what the services themselves say. Simulated hosts; the catalog has to name a compute endpoint here.
"""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openstack
import pytest

from tests.contracts.databases import own_postgres, postgres
from tests.live.test_roles import AGENT, Roles, roles, until
from tests.nats_servers import NatsServer, free_ports
from tests.openstack_services import CLOUDS, RealServices, real_services
from tests.processes import HANG_S, http, wait_for

pytestmark = [pytest.mark.long, pytest.mark.openstack]

__all__ = ["own_postgres", "postgres", "roles"]  # fixtures

SETTINGS = """
[database]
url_file = "url"
[keystone]
auth_url = "{auth_url}"
username = "{username}"
password_file = "keystone-password"
project_name = "{project_name}"
[services]
url = "{url}"
[bus]
urls = ["nats://127.0.0.1:{bus}"]
[[cell]]
name = "one"
"""


class AgentsBesideOpenstack:
    """The processes, a user who is an administrator of its project, and what the services say."""

    def __init__(self, processes: Roles, settings: Path, services: RealServices) -> None:
        self.processes = processes
        self.settings = settings
        self._services = services
        login = services.cloud("demo-admin").settings
        self.user = openstack.connect(**login, load_yaml_config=False, load_envvars=False, api_timeout=HANG_S)

    def start_conductor(self, name: str) -> None:
        self.processes.start(name, "conductor", "--name", name, "--settings", self.settings, says=" is ready ")

    def replace_conductors(self, *new: str) -> None:
        """Kill all conductors with signal 9, whichever of them has the run, and start others."""
        programs = self.processes.programs
        for name in [name for name in programs if name.startswith("conductor")]:
            programs.pop(name).kill()
        for name in new:
            self.start_conductor(name)

    def until(self, server: str, status: str) -> str:
        """Wait for a status, and return the host that the server then has."""
        until(self.user, server, status)
        host: str = self.user.compute.get_server(server).compute_host
        return host

    def until_bound(self, server: str, port: str, host: str) -> None:
        """Wait until Neutron has a port of the server at this host alone, and check Placement's allocation."""

        def bound() -> tuple[str, str, dict[str, str]]:
            with self._services.cloud("service").client("network") as neutron:
                shown = neutron.get(f"/v2.0/ports/{port}").raise_for_status().json()["port"]
                bindings = neutron.get(f"/v2.0/ports/{port}/bindings").raise_for_status().json()["bindings"]
            return shown["binding:host_id"], shown["status"], {one["host"]: one["status"] for one in bindings}

        wait_for(bound, lambda seen: seen == (host, "ACTIVE", {host: "ACTIVE"}), f"the port is at {host} alone")
        allocations = self.allocations(server)
        assert len(allocations) == 1, allocations

    def allocations(self, server: str) -> dict[str, Any]:
        url = str(self.user.compute.get_endpoint()).replace("/compute/v2.1", f"/placement/allocations/{server}")
        answer = httpx.get(url, headers={"X-Auth-Token": self._services.cloud("admin").token}, timeout=HANG_S)
        found: dict[str, Any] = answer.raise_for_status().json()["allocations"]
        return found

    @contextmanager
    def dead_host(self, host: str) -> Iterator[None]:
        """Kill the agent of a host, and say that the host is down, until the end."""
        agent = self.processes.programs[host]
        [service] = self.user.compute.services(host=host, binary="nova-compute")
        agent.kill()
        self.user.compute.update_service_forced_down(service, forced=True)
        try:
            yield
        finally:
            self.user.compute.update_service_forced_down(service, forced=False)
            agent.start()

    def evacuations(self, server: str) -> list[str]:
        """Return the states of a server's evacuations."""
        found = self.user.compute.migrations(instance_uuid=server, migration_type="evacuation")
        return [each.status for each in found]

    def attachments(self, server: str) -> list[tuple[str, str]]:
        """Return volume and status of each attachment, as Cinder has them."""
        headers = {"OpenStack-API-Version": "volume 3.44"}
        with self._services.cloud("admin").client("block-storage") as cinder:
            asked = cinder.get(
                "/attachments", params={"all_tenants": "1", "instance_id": server}, headers=headers
            ).raise_for_status()
        return [(one["volume_id"], one["status"]) for one in asked.json()["attachments"]]


@pytest.fixture
def cloud(roles: Roles) -> AgentsBesideOpenstack:
    services, path = real_services(), roles.path
    endpoint = ExitStack()
    url = endpoint.enter_context(services.compute_endpoint())
    roles.last(endpoint.close)
    login = services.cloud("service").settings["auth"]
    (path / "keystone-password").write_text(login["password"])
    port, bus_port, relay_port, second_port = str(url.port), *map(str, free_ports(3))
    settings = path / "whimbrel.toml"
    settings.write_text(SETTINGS.format(**login, url=f"{url.scheme}://{url.netloc}", bus=bus_port))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    roles.environment = kept | {"OS_CLIENT_CONFIG_FILE": CLOUDS, "OS_CLOUD": "demo-admin"}

    roles.run("db", "upgrade", "--settings", settings)
    bus = NatsServer(path, 0, int(bus_port))
    listen = ("--listen", f"127.0.0.1:{bus_port}", "--directory", path / "accounts")
    bus.configure(roles.run("bus", "init", "--settings", settings, *listen))
    bus.start()
    roles.last(bus.kill)
    roles.run("bootstrap", "--settings", settings)
    roles.run("check", "--settings", settings)
    relays = [  # hosts use the first one, which is at the URL of [services]
        roles.start("api1", "api", "--settings", settings, "--port", port),
        roles.start("api2", "api", "--settings", settings, "--port", second_port),
        roles.start("relay", "image", "--settings", settings, "--port", relay_port),
    ]
    for each in relays:
        answer = http.get(f"{each}/image_relay/v2/images/{uuid.uuid4()}", headers={"X-Auth-Token": "grant.e30.forged"})
        assert answer.status_code == 401
    cloud = AgentsBesideOpenstack(roles, settings, services)
    for name in ("conductor1", "conductor2"):
        cloud.start_conductor(name)
    for host in services.hosts()[:2]:
        token = json.loads(roles.run("host", "invite", host, "--json"))["invitation"]["token"]
        roles.run("agent", "join", token, "--dir", path / host)
        (path / host / "whimbrel.toml").write_text(AGENT)
        roles.start(host, "agent", "--dir", path / host, says=" serves ")
        roles.run("host", "enable", host)
    return cloud


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_servers_move_while_conductors_are_killed(cloud: AgentsBesideOpenstack, ending: ExitStack) -> None:
    user, name = cloud.user, f"agents-{uuid.uuid4().hex[:8]}"
    port = user.network.create_port(network_id=user.network.find_network("private").id, name=name)
    ending.callback(user.network.delete_port, port.id)
    volume = user.block_storage.create_volume(size=1, name=name)
    ending.callback(user.block_storage.delete_volume, volume.id)
    picture = user.image.find_image("tick")
    server = user.compute.create_server(name=name, flavor_id="1", image_id=picture.id, networks=[{"port": port.id}]).id
    source = cloud.until(server, "ACTIVE")
    cloud.until_bound(server, port.id, source)
    user.block_storage.wait_for_status(volume, "available", wait=HANG_S)
    user.compute.create_volume_attachment(server, volume_id=volume.id)
    wait_for(
        lambda: cloud.attachments(server), lambda seen: seen == [(volume.id, "attached")], "the volume is attached"
    )

    user.compute.resize_server(server, "2")
    cloud.replace_conductors("conductor3")
    target = cloud.until(server, "VERIFY_RESIZE")
    assert target != source
    user.compute.confirm_server_resize(server)
    assert cloud.until(server, "ACTIVE") == target
    cloud.until_bound(server, port.id, target)

    user.compute.live_migrate_server(server, block_migration="auto")
    cloud.replace_conductors("conductor4", "conductor5")
    wait_for(lambda: cloud.until(server, "ACTIVE"), lambda host: host == source, "it was migrated live")
    cloud.until_bound(server, port.id, source)
    wait_for(
        lambda: cloud.attachments(server), lambda seen: seen == [(volume.id, "attached")], "one connection is left"
    )

    shot = user.compute.create_server_image(server, name, wait=True, timeout=HANG_S)
    ending.callback(user.image.delete_image, shot.id)
    stored = user.image.get_image(shot.id)
    assert (stored.status, stored.disk_format, stored.owner_id) == ("active", "qcow2", user.current_project_id)

    user.compute.delete_volume_attachment(server, volume.id)
    wait_for(lambda: cloud.attachments(server), lambda seen: not seen, "the volume is detached")
    user.compute.shelve_server(server)
    until(user, server, "SHELVED_OFFLOADED")
    assert cloud.allocations(server) == {}
    user.compute.unshelve_server(server)
    home = cloud.until(server, "ACTIVE")
    cloud.until_bound(server, port.id, home)
    cloud.processes.run("prove")

    second = user.block_storage.create_volume(size=1, name=name)
    ending.callback(user.block_storage.delete_volume, second.id)
    user.block_storage.wait_for_status(second, "available", wait=HANG_S)
    both = sorted([(volume.id, "attached"), (second.id, "attached")])
    for each, _ in both:
        user.compute.create_volume_attachment(server, volume_id=each)
    wait_for(lambda: sorted(cloud.attachments(server)), lambda seen: seen == both, "both volumes are attached")
    with cloud.dead_host(home):
        user.compute.evacuate_server(server)
        refuge = cloud.until(server, "SHUTOFF")  # since 2.95
        assert refuge != home
        user.compute.start_server(server)
        cloud.until(server, "ACTIVE")
        cloud.until_bound(server, port.id, refuge)
        wait_for(lambda: sorted(cloud.attachments(server)), lambda seen: seen == both, "the old connections are gone")
    wait_for(lambda: cloud.evacuations(server), lambda seen: seen == ["completed"], "the source destroys its guest")
    cloud.processes.run("prove")

    user.compute.delete_server(server)
    user.compute.wait_for_delete(user.compute.get_server(server), wait=HANG_S)
    wait_for(lambda: user.network.get_port(port.id).device_id, lambda device: not device, "the port is free")
    assert cloud.allocations(server) == {}
    own = [image.name for image in user.image.images(owner=user.current_project_id) if image.name.startswith(name)]
    assert own == [name]  # what was shelved is not left; other tests have images in this project too
    cloud.processes.run("prove")
