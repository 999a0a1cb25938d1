"""Hosts as data: they are invited, join, are enabled and retired through the API, and nothing is restarted."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.api.front import Front, fault, opened
from tests.unit.hosts.descriptions import NEW, description, registrar
from tests.unit.hosts.no_grants import NoGrants
from whimbrel.api.http.context import PublicUrl
from whimbrel.domain import join_token
from whimbrel.domain.errors import Refused
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice, Hardware
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.pci import PciDevice
from whimbrel.hosts.admission import VALID_S, invite
from whimbrel.hosts.control_plane_service import ControlPlaneService
from whimbrel.http.failed_attempts import OF_ADDRESS
from whimbrel.ports.hosts.bus_access import BusAccess
from whimbrel.ports.hosts.control_plane import AgentHello, Welcome

KEY = "U" + "A" * 55
OTHER_KEY = "U" + "B" * 55
PEM = "-----BEGIN CERTIFICATE-----\n"


class GivenBus:
    """Fulfils BusAccesses: it notes what was granted and revoked."""

    def __init__(self) -> None:
        self.granted: list[tuple[str, str, str]] = []
        self.revoked: list[tuple[str, str]] = []
        self.problem = ""

    async def grant(self, cell: CellName, host: HostName, public_key: str) -> BusAccess:
        self.granted.append((cell, host, public_key))
        return BusAccess(urls=("tls://bus:4222",), ca_pem=PEM, jwt=f"claims of {host}")

    async def revoke(self, cell: CellName, public_key: str) -> None:
        self.revoked.append((cell, public_key))


class Cloud:
    """A cloud with two cells, and what an operator and an agent do with it."""

    def __init__(self, front: Front, bus: GivenBus) -> None:
        self.front, self.bus = front, bus
        self.control = ControlPlaneService(front.world.cloud, registrar(front.world), NoGrants())

    async def admin(self, method: str, path: str, body: Any = None) -> Any:
        return await self.front.ask(method, f"/whimbrel/hosts{path}", body, who="admin")

    async def invite(self, name: str = NEW, cell: str = "c1") -> join_token.JoinToken:
        answer = await self.admin("POST", "", {"host": {"name": name, "cell": cell}})
        assert answer.status_code == 201, answer.text
        return join_token.read(answer.json()["invitation"]["token"])

    async def join(self, token: join_token.JoinToken, key: str = KEY, **changed: str) -> Any:
        body = {"host": token.host, "secret": token.secret, "public_key": key, **changed}
        return await self.front.raw("POST", "/compute/v2.1/whimbrel/joins", json={"join": body})

    async def register(self, name: str = NEW, **fields: object) -> Welcome:
        host = HostName(name)
        hello = AgentHello(release="0.4.0", verbs={}, description=description(name, **fields))
        return await self.control.register(host, hello)

    async def enabled(self, name: str = NEW) -> None:
        assert (await self.join(await self.invite(name))).status_code == 201
        await self.register(name)
        answer = await self.admin("PUT", f"/{name}", {"host": {"enabled": True}})
        assert answer.json()["host"]["enabled"]

    async def silence(self, name: str) -> None:
        """Make a host of the settings count as down."""
        hosts = self.front.world.cloud.cell(CellName("c1")).hosts
        await hosts.set_service(HostName(name), enabled=True, disabled_reason=None, forced_down=True)

    async def shown(self, name: str = NEW) -> Any:
        return (await self.front.get(f"/whimbrel/hosts/{name}", who="admin"))["host"]


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    bus = GivenBus()
    async with opened(cells={"c1": ("h1",), "c2": ("h2",)}, bus=bus) as front:
        yield Cloud(front, bus)


async def test_a_host_joins_a_cloud_that_runs_and_gets_servers(cloud: Cloud) -> None:
    token = await cloud.invite()
    assert (token.host, token.cell, token.url, token.ca_sha256) == (NEW, "c1", "http://cloud:8774/compute/v2.1", "")
    answer = await cloud.join(token)
    assert answer.status_code == 201
    assert answer.json() == {
        "join": {
            "host": NEW,
            "cell": "c1",
            "bus_urls": ["tls://bus:4222"],
            "bus_ca": PEM,
            "jwt": "claims of n17",
        }
    }
    assert cloud.bus.granted == [("c1", NEW, KEY)]
    joined = await cloud.shown()
    assert (joined["state"], joined["cell"], joined["enabled"]) == ("joined", "c1", False)
    await cloud.register()
    known = await cloud.shown()
    reason = "joined; enable it with: whimbrel host enable n17"
    assert (known["state"], known["enabled"], known["disabled_reason"]) == ("up", False, reason)
    assert (known["session"], known["release"], known["zone"], known["vcpus"]) == (1, "0.4.0", "north", 8)
    await cloud.admin("PUT", f"/{NEW}", {"host": {"enabled": True}})
    index = (await cloud.front.get("/whimbrel/hosts", who="admin"))["hosts"]
    assert [(host["name"], host["enabled"]) for host in index] == [("h1", True), (NEW, True), ("h2", True)]


async def test_a_host_shows_what_was_found_there(cloud: Cloud) -> None:
    await cloud.join(await cloud.invite())
    await cloud.register()
    assert (await cloud.shown())["hardware"] is None  # an agent of release 0.2
    found = Hardware(
        nics=(FoundNic(name="ens6", mac="0c:42:a1:00:00:01", speed_mbps=25000, mtu=9000, state="up"),),
        pci=(FoundPciDevice(address="0000:81:00.2", vendor_id="8086", product_id="154c", virtual_functions=8),),
    )
    device = PciDevice(address="0000:81:00.2", vendor_id="8086", product_id="1572")
    await cloud.register(hardware=found, pci=(device,))
    assert (await cloud.shown())["hardware"] == {
        "nics": [
            {
                "name": "ens6",
                "mac": "0c:42:a1:00:00:01",
                "speed_mbps": 25000,
                "mtu": 9000,
                "state": "up",
                "pci_address": None,
            }
        ],
        "pci": [
            {
                "address": "0000:81:00.2",
                "vendor_id": "8086",
                "product_id": "154c",
                "numa_node": None,
                "physical_function": None,
                "virtual_functions": 8,
                "iommu_group": None,
                "driver": None,
            }
        ],
        "mismatches": [
            "NIC ens5 was not found",
            "PCI device 0000:81:00.2 is 8086:154c, and 8086:1572 in the settings",
        ],
    }
    await cloud.register(hardware=Hardware())
    assert (await cloud.shown())["hardware"] == {"nics": None, "pci": None, "mismatches": []}
    index = (await cloud.front.get("/whimbrel/hosts", who="admin"))["hosts"]
    assert [host["hardware"] for host in index] == [None] * 3, "the list of all hosts is without it"


async def test_a_secret_admits_once_within_an_hour(cloud: Cloud) -> None:
    token = await cloud.invite()
    assert (await cloud.join(token)).status_code == 201
    assert "whimbrel host invite n17" in fault(await cloud.join(token), "forbidden", 403)
    first = await cloud.invite()
    second = await cloud.invite()
    assert (await cloud.join(first)).status_code == 403
    assert (await cloud.join(second, host="h2")).status_code == 403
    assert (await cloud.join(second, secret="x" * 43)).status_code == 403
    cloud.front.world.remains.clock.advance(VALID_S)
    assert (await cloud.join(second)).status_code == 403
    assert len(cloud.bus.granted) == 1
    stored = await cloud.front.world.cloud.host_keys.invitations(NEW)
    assert all(token.secret not in str(each) for each in stored)


async def test_whoever_tries_many_secrets_has_to_wait(cloud: Cloud) -> None:
    token = await cloud.invite()
    for _ in range(OF_ADDRESS.burst):
        assert (await cloud.join(token, secret="x" * 43)).status_code == 403
    answer = await cloud.join(token)
    fault(answer, "overLimit", 429)
    cloud.front.world.remains.clock.advance(float(answer.headers["retry-after"]))
    assert (await cloud.join(token)).status_code == 201


async def test_a_host_that_joins_again_has_its_new_key_only(cloud: Cloud) -> None:
    await cloud.join(await cloud.invite())
    assert (await cloud.join(await cloud.invite(), OTHER_KEY)).status_code == 201
    assert cloud.bus.revoked == [("c1", KEY)]
    other = await cloud.invite("n18")
    fault(await cloud.join(other, OTHER_KEY), "conflictingRequest", 409)
    assert (await cloud.join(other, KEY)).status_code == 201


async def test_who_may_be_invited(cloud: Cloud) -> None:
    async def refused(name: str, cell: str | None, code: int) -> str:
        body = {"host": {"name": name} | ({"cell": cell} if cell else {})}
        answer = await cloud.admin("POST", "", body)
        assert answer.status_code == code, answer.text
        return str(next(iter(answer.json().values()))["message"])

    assert "cell c9" in await refused(NEW, "c9", 404)
    assert "c1, c2" in await refused(NEW, None, 400)
    await refused("no name", "c1", 400)
    assert "is in cell c2" in await refused("h2", "c1", 409)
    assert "from the settings" in await refused("h1", "c1", 409)
    await cloud.silence("h1")
    await cloud.invite("h1")  # its agent is gone: it moves to a machine of its own
    for method, path in (("GET", ""), ("POST", ""), ("GET", "/h1"), ("PUT", "/h1"), ("DELETE", "/h1")):
        body = {"host": {"name": "x"}} if method == "POST" else {"host": {"enabled": True}}
        answer = await cloud.front.ask(method, f"/whimbrel/hosts{path}", body if method in ("POST", "PUT") else None)
        assert answer.status_code == 403, method


async def test_a_host_is_disabled_with_a_reason(cloud: Cloud) -> None:
    answer = await cloud.admin("PUT", "/h1", {"host": {"enabled": False, "disabled_reason": "fan"}})
    assert (answer.json()["host"]["enabled"], answer.json()["host"]["disabled_reason"]) == (False, "fan")
    [provider] = [one for one in await cloud.front.world.cloud.placement.providers() if one.name == "h1"]
    assert "COMPUTE_STATUS_DISABLED" in provider.traits
    both = {"host": {"enabled": True, "disabled_reason": "why"}}
    assert (await cloud.admin("PUT", "/h1", both)).status_code == 400
    assert (await cloud.admin("PUT", "/none", {"host": {"enabled": True}})).status_code == 404
    assert (await cloud.admin("GET", "/none")).status_code == 404


async def test_a_host_with_servers_or_open_moves_is_not_retired() -> None:
    async with opened(cells={"c1": ("h1", "h2")}, bus=GivenBus()) as front:
        cloud = Cloud(front, GivenBus())
        server = await front.boot()
        source = (await front.show(server, who="admin"))["OS-EXT-SRV-ATTR:host"]
        await front.act(server, {"resize": {"flavorRef": "2"}})
        await front.settle()
        target = (await front.show(server, who="admin"))["OS-EXT-SRV-ATTR:host"]
        assert source != target
        for host, held in ((source, "has the open run"), (target, f"has the server {server} and the open run")):
            await cloud.silence(host)
            assert held in fault(await cloud.admin("DELETE", f"/{host}"), "conflictingRequest", 409)
        await front.act(server, {"confirmResize": None})
        await front.settle()
        assert (await cloud.admin("DELETE", f"/{source}")).status_code == 204
        assert [host["name"] for host in (await front.get("/whimbrel/hosts", who="admin"))["hosts"]] == [target]


async def test_a_retired_host_is_gone_and_may_come_back(cloud: Cloud) -> None:
    await cloud.enabled()
    assert (await cloud.admin("DELETE", f"/{NEW}")).status_code == 204
    assert cloud.bus.revoked == [("c1", KEY)]
    assert (await cloud.admin("GET", f"/{NEW}")).status_code == 404
    assert (await cloud.admin("DELETE", f"/{NEW}")).status_code == 404
    world = cloud.front.world.cloud
    assert NEW not in {one.name for one in await world.placement.providers()}
    assert all(NEW not in each.hosts for each in await world.aggregates.all())
    with pytest.raises(Refused, match="was retired"):
        await cloud.register()
    await cloud.join(await cloud.invite(cell="c2"), OTHER_KEY)
    await cloud.register()
    assert ((await cloud.shown())["cell"], (await cloud.shown())["session"]) == ("c2", 1)


async def test_a_host_that_joined_and_never_came_is_retired_too(cloud: Cloud) -> None:
    await cloud.join(await cloud.invite())
    assert (await cloud.admin("DELETE", f"/{NEW}")).status_code == 204
    assert (await cloud.admin("GET", f"/{NEW}")).status_code == 404
    assert "from the settings" in fault(await cloud.admin("DELETE", "/h1"), "conflictingRequest", 409)


async def test_a_host_that_never_returns_is_forgotten_on_evidence(cloud: Cloud) -> None:
    url, body = "/h1/forget", {"forget": None}
    assert "is up" in fault(await cloud.admin("POST", url, body), "conflictingRequest", 409)
    await cloud.front.world.lose_host(HostName("h1"))
    word = {"forced_down": True, "reason": "burnt down"}
    await cloud.admin("PUT", "/h1/force-down", {"force_down": word})
    await cloud.join(await cloud.invite("h1"))
    assert (await cloud.front.ask("POST", f"/whimbrel/hosts{url}", body)).status_code == 403
    answer = await cloud.admin("POST", url, body)
    assert answer.status_code == 200, answer.text
    forgotten = answer.json()["forgotten"]
    evidence = forgotten["evidence"]
    assert (forgotten["host"], evidence["kind"], evidence["detail"]) == ("h1", "administrator", "burnt down")
    assert cloud.bus.revoked == [("c1", KEY)]
    assert (await cloud.admin("GET", "/h1")).status_code == 404
    assert (await cloud.admin("POST", url, body)).status_code == 404
    with pytest.raises(Refused, match="whimbrel host invite h1"):
        await cloud.register("h1")


async def test_a_host_that_joined_and_never_came_is_forgotten_without_evidence(cloud: Cloud) -> None:
    await cloud.join(await cloud.invite())
    answer = await cloud.admin("POST", f"/{NEW}/forget", {"forget": None})
    assert answer.json() == {"forgotten": {"host": NEW, "evidence": None}}


async def test_a_token_names_the_url_and_the_certificates_of_the_settings() -> None:
    public = PublicUrl("https://api:8774/compute/v2.1", PEM)
    async with opened(bus=GivenBus(), public=public) as front:
        token = await Cloud(front, GivenBus()).invite(cell="c1")
        assert (token.url, token.ca_sha256) == (public.url, public.ca_sha256)
        answer = await front.raw("GET", "/compute/v2.1/whimbrel/trust")
        assert answer.json() == {"ca": PEM}


async def test_a_cloud_without_a_bus_admits_nobody_and_says_why() -> None:
    async with opened() as front:
        cloud = Cloud(front, GivenBus())
        refused = await cloud.admin("POST", "", {"host": {"name": NEW, "cell": "c1"}})
        assert "no bus" in fault(refused, "badRequest", 400)
        invited = await invite(front.world.cloud, HostName(NEW), CellName("c1"))  # while there was one
        token = join_token.JoinToken(url="http://c", host=invited.host, cell=invited.cell, secret=invited.secret)
        assert "no bus" in (await cloud.join(token)).text
        [stored] = await front.world.cloud.host_keys.invitations(NEW)
        assert stored.used_at is None
