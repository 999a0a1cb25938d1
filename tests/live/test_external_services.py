"""Whimbrel as the compute service of an existing OpenStack: what is left is what the services themselves say.

The catalog has to name a compute endpoint on this machine: Whimbrel listens there, so that clients and Neutron find it.
"""

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

import httpx
import pytest

from tests.live.openstack_client import openstack_client
from tests.live.running_cloud import CLOUD, HOST
from tests.openstack_services import CLOUDS, RealCloud, RealServices, real_services
from tests.processes import HANG_S, execute, program
from whimbrel.cli.demo.cloud_processes import Program

pytestmark = [pytest.mark.long, pytest.mark.openstack]

KEYSTONE = """
[keystone]
auth_url = "{auth_url}"
username = "{username}"
password_file = "keystone-password"
project_name = "{project_name}"
{region}
[services]
url = "{url}"
"""
FLAVORS = ("m1.tiny", "m1.small", "m1.medium")  # a disk cannot shrink
IMAGE = "tick"
DEFAULT, GROWING = "shared", "growing"
"""Types of volumes, each of a back end of its own; see tests.openstack.growing_nfs."""

MEMBER, ADMIN = "demo", "demo-admin"


@dataclass
class ExternalCloud:
    """A `whimbrel up` beside real services, and their clients."""

    services: RealServices
    up: Program
    words: list[str]  # of `whimbrel up`
    log: Path
    environment: dict[str, str]
    suffix: str

    def openstack(self, *words: str, cloud: str = MEMBER) -> Any:
        return json.loads(self.say(*words, "-f", "json", cloud=cloud) or "null")

    def say(self, *words: str, cloud: str = MEMBER) -> str:
        done = openstack_client().run(["--os-cloud", cloud, *words], self.environment)
        assert done.returncode == 0, (
            f"openstack {' '.join(words)}:\n{done.stdout}\n{done.stderr}\n{self.log.read_text()[-3000:]}"
        )
        return done.stdout

    def port(self, port: str) -> dict[str, Any]:
        """Return what Neutron says of a port, and of its bindings."""
        with self.services.cloud("admin").client("network") as client:
            shown = client.get(f"/v2.0/ports/{port}").raise_for_status().json()["port"]
            bindings = client.get(f"/v2.0/ports/{port}/bindings")
        hosts = {one["host"]: one["status"] for one in bindings.json()["bindings"]} if bindings.is_success else {}
        return {**shown, "bindings": hosts}

    def attachments(self, server: str) -> list[dict[str, Any]]:
        """Return what Cinder says of a server's attachments."""
        with self.services.cloud("admin").client("block-storage") as client:
            headers = {"OpenStack-API-Version": "volume 3.44"}
            asked = client.get("/attachments", params={"all_tenants": "1", "instance_id": server}, headers=headers)
            found: list[dict[str, Any]] = asked.raise_for_status().json()["attachments"]
            return found

    def has_volume(self, volume: str) -> bool:
        with self.services.cloud(MEMBER).client("block-storage") as client:
            return client.get(f"/volumes/{volume}").status_code != httpx.codes.NOT_FOUND

    @property
    def placement(self) -> str:
        """Return the URL of Whimbrel's Placement."""
        return self.services.cloud("admin").url("compute").replace("/compute/v2.1", "/placement")

    def allocations(self, server: str) -> dict[str, Any]:
        """Return the allocations of a server by provider."""
        with self.services.cloud("admin").client("compute") as client:
            found = client.get(f"{self.placement}/allocations/{server}").raise_for_status().json()
            allocations: dict[str, Any] = found["allocations"]
            return allocations

    @contextmanager
    def without_conductor(self) -> Iterator[None]:
        """Serve the API alone: what is requested is done afterwards."""
        self.up.end()
        api = program("api", [*self.words, "--no-conductor"], self.log.with_name("api.log"))
        try:
            api.start()
            api.wait_until_it_says("Whimbrel is up")
            yield
        finally:
            api.end()
            self.start()

    def start(self) -> None:
        self.up.start()
        self.up.wait_until_it_says("Whimbrel is up")

    def prove(self) -> None:
        done = execute([sys.executable, "-m", "whimbrel", "prove"], self.environment | {"OS_CLOUD": ADMIN})
        assert done.returncode == 0, done.stdout + done.stderr

    def host(self, server: str) -> str:
        host: str = self.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"]
        return host


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalCloud]:
    services, directory = real_services(), tmp_path_factory.mktemp("external")
    with services.compute_endpoint() as url:
        yield from running_beside(services, url, directory)


def running_beside(
    services: RealServices, url: SplitResult, directory: Path, more: str = ""
) -> Iterator[ExternalCloud]:
    """more: of the settings."""
    hosts = services.hosts()[:3]
    if len(hosts) < 2:
        pytest.skip(f"Neutron has agents on fewer than two hosts: {hosts}")
    login = services.cloud("service").settings
    region = f'region = "{login["region_name"]}"\n' if "region_name" in login else ""
    (directory / "keystone-password").write_text(login["auth"]["password"])
    text = KEYSTONE.format(**login["auth"], region=region, url=f"{url.scheme}://{url.netloc}")
    settings = directory / "whimbrel.toml"
    settings.write_text(text + more + CLOUD + "".join(HOST.format(name=name, zone="nova") for name in hosts))
    words = ["--settings", str(settings), "--data-dir", str(directory / "data")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    environment |= {"OS_CLIENT_CONFIG_FILE": CLOUDS}
    checked = execute([sys.executable, "-m", "whimbrel", "check", *words], environment)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    words = ["up", "--port", str(url.port), *words]
    up = program("up", words, directory / "up.log")
    with ExitStack() as ending:
        ending.callback(up.end)
        suffix = uuid.uuid4().hex[:8]
        found = ExternalCloud(services, up, words, directory / "up.log", environment, suffix)
        found.start()
        network = f"ext-{suffix}"
        found.say("network", "create", network)
        ending.callback(found.say, "network", "delete", network)
        found.say("subnet", "create", "--network", network, "--subnet-range", "10.91.0.0/24", network)
        yield found


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def port(cloud: ExternalCloud) -> Iterator[str]:
    network = f"ext-{cloud.suffix}"
    made = cloud.openstack("port", "create", "--network", network, f"{network}-{uuid.uuid4().hex[:4]}")["id"]
    yield made
    cloud.say("port", "delete", made)


@pytest.fixture
def server(cloud: ExternalCloud, port: str) -> Iterator[str]:
    words = ("--flavor", FLAVORS[0], "--image", IMAGE, "--port", port)
    yield from _server(cloud, *words)


@pytest.fixture
def volume_server(cloud: ExternalCloud, port: str) -> Iterator[str]:
    """A server that boots from a volume, which its user could make."""
    words = ("--flavor", FLAVORS[0], "--image", IMAGE, "--boot-from-volume", "1", "--port", port)
    volumes: list[str] = []
    for made in _server(cloud, *words):
        volumes = [each["volume_id"] for each in cloud.attachments(made)]
        yield made
    for volume in volumes:  # it outlives its server, as Nova's does
        cloud.say("volume", "delete", volume)


def _server(cloud: ExternalCloud, *words: str) -> Iterator[str]:
    made = cloud.openstack("server", "create", *words, f"ext-{cloud.suffix}")["id"]
    try:
        until_status(cloud, made, "ACTIVE")
        yield made
    finally:
        cloud.say("server", "delete", "--wait", made)
        until(lambda: cloud.attachments(made), lambda left: not left)
        assert cloud.allocations(made) == {}


def until(look: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + HANG_S
    while not enough(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.5)
    return seen


def until_status(cloud: ExternalCloud, server: str, status: str) -> None:
    shown = until(lambda: cloud.openstack("server", "show", server), lambda seen: seen["status"] in (status, "ERROR"))
    assert shown["status"] == status, shown


def check_one_binding(cloud: ExternalCloud, server: str, port: str) -> None:
    """Check that Neutron has the port at the server's host alone, and Placement its allocation there alone."""
    host = cloud.host(server)
    bound = until(lambda: cloud.port(port), lambda seen: seen["bindings"] == {host: "ACTIVE"})
    assert (bound["binding:host_id"], bound["device_id"]) == (host, server)
    assert bound["binding:vif_type"] not in ("unbound", "binding_failed")
    assert len(cloud.allocations(server)) == 1


def resize(cloud: ExternalCloud, server: str, flavor: str, verdict: str) -> None:
    cloud.say("server", "resize", "--flavor", flavor, server)
    until_status(cloud, server, "VERIFY_RESIZE")
    cloud.say("server", "resize", verdict, server)
    until_status(cloud, server, "ACTIVE")


def test_a_server_with_a_port_is_resized_confirmed_and_reverted(cloud: ExternalCloud, server: str, port: str) -> None:
    assert server in {each["ID"] for each in cloud.openstack("server", "list")}
    check_one_binding(cloud, server, port)
    resize(cloud, server, FLAVORS[1], "confirm")
    check_one_binding(cloud, server, port)
    resize(cloud, server, FLAVORS[2], "revert")
    check_one_binding(cloud, server, port)


def test_a_port_is_free_after_its_server(cloud: ExternalCloud, port: str) -> None:
    for _ in _server(cloud, "--flavor", FLAVORS[0], "--image", IMAGE, "--port", port):
        assert cloud.port(port)["device_owner"].startswith("compute:")
    left = cloud.port(port)
    assert (left["device_id"], left["device_owner"], left["binding:host_id"]) == ("", "", "")


@pytest.fixture
def shared_network(cloud: ExternalCloud, ending: ExitStack) -> str:
    """A network of another project that Neutron shares with the member's alone."""
    name = f"ext-{cloud.suffix}-shared"
    network: str = cloud.openstack("network", "create", "--no-share", name, cloud="admin")["id"]
    ending.callback(cloud.say, "network", "delete", network, cloud="admin")
    cloud.say("subnet", "create", "--network", network, "--subnet-range", "10.97.0.0/24", name, cloud="admin")
    member = cloud.services.cloud(MEMBER).project_id
    words = ("--type", "network", "--action", "access_as_shared", "--target-project", member, network)
    cloud.say("network", "rbac", "create", *words, cloud="admin")
    return network


def test_a_network_that_is_shared_with_a_project_can_be_used_by_its_members(
    cloud: ExternalCloud, shared_network: str
) -> None:
    def ports(server: str) -> list[str]:
        return [cloud.port(one["ID"])["network_id"] for one in cloud.openstack("port", "list", "--server", server)]

    for made in _server(cloud, "--flavor", FLAVORS[0], "--image", IMAGE, "--network", shared_network):
        assert ports(made) == [shared_network]
        cloud.say("server", "add", "network", made, shared_network)
        until(partial(ports, made), lambda found: found == [shared_network] * 2)


def test_an_image_of_a_server_is_its_owners(cloud: ExternalCloud, server: str) -> None:
    image = cloud.openstack("server", "image", "create", "--name", f"ext-{cloud.suffix}", server)["id"]
    try:
        until(lambda: cloud.openstack("image", "show", image), lambda seen: seen["status"] == "active")
        assert cloud.openstack("image", "show", image)["owner"] == cloud.services.cloud("demo").project_id
    finally:
        openstack_client().run(["--os-cloud", MEMBER, "image", "delete", image], cloud.environment)


def test_a_volume_is_made_for_the_user_and_moves_with_the_server(
    cloud: ExternalCloud, volume_server: str, port: str
) -> None:
    [attached] = cloud.openstack("server", "show", volume_server)["volumes_attached"]
    volume = cloud.openstack("volume", "show", attached["id"])  # as the member: it is in its project
    assert (volume["status"], str(volume["bootable"]).lower()) == ("in-use", "true")
    for flavor, verdict in ((FLAVORS[1], "confirm"), (FLAVORS[2], "revert")):
        resize(cloud, volume_server, flavor, verdict)
        check_one_binding(cloud, volume_server, port)
        [attachment] = until(lambda: cloud.attachments(volume_server), lambda seen: len(seen) == 1)
        assert (attachment["volume_id"], attachment["status"]) == (attached["id"], "attached")


def attached(cloud: ExternalCloud, server: str, kind: str) -> Iterator[str]:
    """Yield a volume of 1 GiB of a type that the server uses."""
    made = cloud.openstack("volume", "create", "--size", "1", "--type", kind, f"ext-{cloud.suffix}")["id"]
    until(partial(volume_of, cloud, made), lambda seen: seen["status"] == "available")
    cloud.say("server", "add", "volume", server, made)
    until(partial(volume_of, cloud, made), lambda seen: seen["status"] == "in-use")
    yield made
    cloud.say("server", "remove", "volume", server, made)
    until(partial(volume_of, cloud, made), lambda seen: seen["status"] == "available")
    cloud.say("volume", "delete", made)
    until(partial(cloud.has_volume, made), lambda there: not there)


@pytest.fixture
def growing_volume(cloud: ExternalCloud, server: str) -> Iterator[str]:
    """A volume of the server, of a back end that extends it meanwhile."""
    if GROWING not in {each["Name"] for each in cloud.openstack("volume", "type", "list")}:
        pytest.skip(f"this Cinder has no type {GROWING}, with a back end that extends volumes in use")
    yield from attached(cloud, server, GROWING)


@pytest.fixture
def placed_volume(cloud: ExternalCloud, server: str) -> Iterator[str]:
    """A volume of the server that may be on any back end."""
    kind = f"ext-{cloud.suffix}"
    cloud.say("volume", "type", "create", kind, cloud="admin")
    yield from attached(cloud, server, kind)
    cloud.say("volume", "type", "delete", kind, cloud="admin")


def volume_of(cloud: ExternalCloud, volume: str) -> dict[str, Any]:
    """Return what Cinder shows an administrator of a volume."""
    with cloud.services.cloud(ADMIN).client("block-storage") as client:
        found: dict[str, Any] = client.get(f"/volumes/{volume}").raise_for_status().json()["volume"]
        return found


def newest_action(cloud: ExternalCloud, server: str) -> tuple[str, str | None]:
    with cloud.services.cloud(MEMBER).client("compute") as client:
        found = client.get(f"/servers/{server}/os-instance-actions").raise_for_status().json()["instanceActions"][0]
        return found["action"], found["message"]


def test_a_running_guest_sees_that_its_volume_was_extended(
    cloud: ExternalCloud, server: str, growing_volume: str
) -> None:
    cloud.say("--os-volume-api-version", "3.42", "volume", "set", "--size", "2", growing_volume)
    until(partial(volume_of, cloud, growing_volume), lambda seen: (seen["size"], seen["status"]) == (2, "in-use"))
    until(partial(newest_action, cloud, server), lambda seen: seen == ("extend_volume", None))
    until(partial(cloud.say, "console", "log", "show", server), lambda seen: "change to 2 GiB" in seen)


def test_an_extension_that_was_reported_survives_the_process(
    cloud: ExternalCloud, server: str, growing_volume: str
) -> None:
    """The event is answered by a process without a conductor, which ends before the guest is told."""
    with cloud.without_conductor():
        cloud.say("--os-volume-api-version", "3.42", "volume", "set", "--size", "3", growing_volume)
        until(partial(newest_action, cloud, server), lambda seen: seen == ("extend_volume", None))
        assert "change to 3 GiB" not in cloud.say("console", "log", "show", server)
    until(partial(cloud.say, "console", "log", "show", server), lambda seen: "change to 3 GiB" in seen)


def test_a_volume_is_retyped_under_a_running_guest(cloud: ExternalCloud, server: str, growing_volume: str) -> None:
    """Cinder migrates it to another back end, and asks for a swap."""
    before = volume_of(cloud, growing_volume)
    cloud.say("volume", "set", "--type", DEFAULT, "--retype-policy", "on-demand", growing_volume)
    until(partial(volume_of, cloud, growing_volume), lambda seen: seen["status"] != "retyping")
    check_migrated(cloud, server, before)
    assert volume_of(cloud, growing_volume)["volume_type"] == DEFAULT


def test_a_volume_is_migrated_under_a_running_guest(cloud: ExternalCloud, server: str, placed_volume: str) -> None:
    before = volume_of(cloud, placed_volume)
    pools = {each["Name"] for each in cloud.openstack("volume", "backend", "pool", "list", cloud="admin")}
    others = sorted(pools - {before["os-vol-host-attr:host"]})
    if not others:
        pytest.skip(f"this Cinder has no back ends but {pools}")
    cloud.say("volume", "migrate", "--host", others[0], placed_volume, cloud="admin")
    until(partial(volume_of, cloud, placed_volume), lambda seen: seen["migration_status"] in ("success", "error"))
    check_migrated(cloud, server, before)


def test_a_volume_of_a_server_that_is_off_is_extended_and_not_retyped(
    cloud: ExternalCloud, server: str, growing_volume: str
) -> None:
    """No guest could copy it: Cinder is refused, and keeps it where it is."""
    cloud.say("server", "stop", server)
    until_status(cloud, server, "SHUTOFF")
    cloud.say("--os-volume-api-version", "3.42", "volume", "set", "--size", "2", growing_volume)
    until(partial(newest_action, cloud, server), lambda seen: seen == ("extend_volume", None))
    before = volume_of(cloud, growing_volume)
    assert (before["size"], before["status"]) == (2, "in-use")
    cloud.say("volume", "set", "--type", DEFAULT, "--retype-policy", "on-demand", growing_volume)
    after = until(partial(volume_of, cloud, growing_volume), lambda seen: seen["status"] != "retyping")
    assert (after["status"], after["migration_status"], after["volume_type"]) == ("in-use", "error", GROWING)
    assert after["attachments"] == before["attachments"]
    assert newest_action(cloud, server) == ("extend_volume", None)
    cloud.prove()
    cloud.say("server", "start", server)
    until_status(cloud, server, "ACTIVE")


def check_migrated(cloud: ExternalCloud, server: str, before: dict[str, Any]) -> None:
    """Check that a server has its volume on another back end, also after a move. before: as Cinder showed it."""
    moved = volume_of(cloud, before["id"])
    assert (moved["status"], moved["migration_status"]) == ("in-use", "success")
    assert moved["os-vol-host-attr:host"] != before["os-vol-host-attr:host"]
    until(partial(newest_action, cloud, server), lambda seen: seen == ("swap_volume", None))
    resize(cloud, server, FLAVORS[1], "confirm")
    [attachment] = until(partial(cloud.attachments, server), lambda seen: len(seen) == 1)
    assert (attachment["volume_id"], attachment["status"]) == (before["id"], "attached")
    cloud.prove()


def test_a_process_that_is_killed_continues_the_move(cloud: ExternalCloud, server: str, port: str) -> None:
    cloud.say("server", "resize", "--flavor", FLAVORS[1], server)
    cloud.up.kill()
    cloud.start()
    until_status(cloud, server, "VERIFY_RESIZE")
    cloud.say("server", "resize", "revert", server)
    until_status(cloud, server, "ACTIVE")
    check_one_binding(cloud, server, port)


def test_a_users_token_serves_though_it_has_expired_and_no_more_once_it_was_revoked(
    cloud: ExternalCloud, ending: ExitStack
) -> None:
    member = Member(cloud, ending)
    with cloud.without_conductor():
        before, token = member.boot_while_the_token_lives()
        late, revoked = member.boot_while_the_token_lives()
        member.revoke(revoked)
        until(lambda: member.accepted(token), lambda accepted: not accepted)
    until_status(cloud, before, "ACTIVE")
    [attached] = cloud.openstack("server", "show", before)["volumes_attached"]
    assert cloud.openstack("volume", "show", attached["id"])["status"] == "in-use"  # as the member: in its project
    refused = until(lambda: cloud.openstack("server", "show", late), lambda seen: seen["status"] != "BUILD")
    assert refused["status"] == "ERROR"
    assert "no longer accepts the token of this request's user" in refused["fault"]["message"]
    assert cloud.attachments(late) == []
    for server in (before, late):
        cloud.say("server", "delete", "--wait", server)
    until(lambda: cloud.has_volume(attached["id"]), lambda there: not there)


@pytest.mark.parametrize("service", ["image", "network"])
def test_a_token_that_is_revoked_while_it_is_believed_is_answered_as_any_that_is_not_valid(
    cloud: ExternalCloud, ending: ExitStack, service: str
) -> None:
    member = Member(cloud, ending)
    token = member.token(lifetime_s=3600)
    assert member.ask("GET", "/flavors", token).is_success
    member.revoke(token)
    assert member.ask("GET", "/flavors", token).is_success, "it is believed for a minute"
    request = ("POST", "/servers", {"server": member.server}) if service == "image" else ("GET", "/os-networks", None)
    answer = member.ask(request[0], request[1], token, request[2], version="2.37" if service == "image" else "2.1")
    assert answer.status_code == httpx.codes.UNAUTHORIZED, answer.text
    assert member.ask("GET", "/flavors", token).status_code == httpx.codes.UNAUTHORIZED


def test_what_a_stranger_says_of_a_server_is_not_the_servers(
    cloud: ExternalCloud, server: str, ending: ExitStack
) -> None:
    port, attachment = claims_of_a_stranger(cloud, server, ending)
    assert attachment in [each["id"] for each in cloud.attachments(server)]
    cloud.prove()
    with cloud.services.cloud(MEMBER).client("compute") as compute:
        interfaces = compute.get(f"/servers/{server}/os-interface").raise_for_status().json()["interfaceAttachments"]
        assert len(interfaces) == 1
        volumes = compute.get(f"/servers/{server}/os-volume_attachments").raise_for_status().json()
        assert volumes["volumeAttachments"] == []
    resize(cloud, server, FLAVORS[1], "confirm")
    cloud.prove()
    shown = cloud.port(port)
    assert (shown["device_id"], shown["binding:host_id"]) == (server, "")


def claims_of_a_stranger(cloud: ExternalCloud, server: str, ending: ExitStack) -> tuple[str, str]:
    """Let a member of another project name a server in a port and in an attachment; return their ids.

    Neither Neutron nor Cinder asks whose server it is.
    """
    admin = cloud.services.cloud("admin")
    identity = ending.enter_context(admin.client("identity"))
    identity.base_url = f"{admin.login.auth_url}/v3"
    name = f"stranger-{cloud.suffix}"

    def made(client: httpx.Client, kind: str, path: str, **wanted: Any) -> str:
        there = client.post(path, json={kind: wanted}, headers={"OpenStack-API-Version": "volume 3.44"})
        found: str = there.raise_for_status().json()[kind]["id"]
        ending.callback(client.delete, f"{path}/{found}", headers={"OpenStack-API-Version": "volume 3.44"})
        return found

    project = made(identity, "project", "/projects", name=name, domain_id="default")
    user = made(identity, "user", "/users", name=name, password=name, domain_id="default")
    [member] = identity.get("/roles", params={"name": "member"}).raise_for_status().json()["roles"]
    identity.put(f"/projects/{project}/users/{user}/roles/{member['id']}").raise_for_status()
    auth = admin.settings["auth"] | {"username": name, "password": name, "project_name": name}
    stranger = RealCloud(name, admin.settings | {"auth": auth})
    network = ending.enter_context(stranger.client("network"))
    net = made(network, "network", "/v2.0/networks", name=name)
    owner = {"device_id": server, "device_owner": "compute:nova"}
    port = made(network, "port", "/v2.0/ports", network_id=net, name=name, **owner)
    storage = ending.enter_context(stranger.client("block-storage"))
    volume = made(storage, "volume", "/volumes", name=name, size=1)
    until(lambda: storage.get(f"/volumes/{volume}").json()["volume"]["status"], lambda now: now == "available")
    return port, made(storage, "attachment", "/attachments", volume_uuid=volume, instance_uuid=server)


class Member:
    """The member with tokens that expire soon: those of application credentials that do."""

    def __init__(self, cloud: ExternalCloud, ending: ExitStack) -> None:
        self._ending = ending
        self._cloud = cloud.services.cloud(MEMBER)
        self._identity = ending.enter_context(self._cloud.client("identity"))
        self._identity.base_url = f"{self._cloud.login.auth_url}/v3"
        self._compute = ending.enter_context(self._cloud.client("compute"))
        image = cloud.openstack("image", "show", IMAGE)["id"]
        volume = {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume"}
        self.server = {
            "name": f"ext-{cloud.suffix}",
            "flavorRef": cloud.openstack("flavor", "show", FLAVORS[0])["id"],
            "networks": "none",
            "block_device_mapping_v2": [{**volume, "volume_size": 1, "delete_on_termination": True}],
        }

    def boot_while_the_token_lives(self) -> tuple[str, str]:
        """Create a server on a volume with a token that expires soon; return the server and the token."""
        lifetime_s = 15
        while True:
            token = self.token(lifetime_s)
            answer = self.ask("POST", "/servers", token, {"server": self.server}, version="2.37")
            if answer.status_code == httpx.codes.ACCEPTED:
                return answer.json()["server"]["id"], token
            assert answer.status_code == httpx.codes.UNAUTHORIZED, answer.text
            lifetime_s *= 2  # the machine is busy

    def ask(
        self, method: str, path: str, token: str, body: dict[str, Any] | None = None, *, version: str = "2.1"
    ) -> httpx.Response:
        headers = {"X-Auth-Token": token, "OpenStack-API-Version": f"compute {version}"}
        return self._compute.request(method, path, json=body, headers=headers)

    def token(self, lifetime_s: int) -> str:
        expires_at = datetime.now(UTC) + timedelta(seconds=lifetime_s)
        wanted = {"name": uuid.uuid4().hex, "expires_at": f"{expires_at:%Y-%m-%dT%H:%M:%S.%f}"}
        path = f"/users/{self._cloud.session.get_user_id()}/application_credentials"
        made = self._identity.post(path, json={"application_credential": wanted}).raise_for_status().json()
        credential = {name: made["application_credential"][name] for name in ("id", "secret")}
        self._ending.callback(self._identity.delete, f"{path}/{credential['id']}")
        login = {"methods": ["application_credential"], "application_credential": credential}
        issued = self._identity.post("/auth/tokens", json={"auth": {"identity": login}})
        return str(issued.headers.get("x-subject-token"))

    def revoke(self, token: str) -> None:
        self._identity.delete("/auth/tokens", headers={"X-Subject-Token": token}).raise_for_status()

    def accepted(self, token: str) -> bool:
        return self._identity.get("/auth/tokens", headers={"X-Subject-Token": token}).is_success


def test_nobody_else_sees_the_server(cloud: ExternalCloud, server: str) -> None:
    refused = openstack_client().run(["--os-cloud", "service", "server", "show", server], cloud.environment)
    assert refused.returncode == 0  # an administrator
    listed = json.loads(
        openstack_client().run(["--os-cloud", "admin", "server", "list", "-f", "json"], cloud.environment).stdout
    )
    assert server not in {each["ID"] for each in listed}
