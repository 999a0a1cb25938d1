"""What every network service does for servers and moves: the simulated one, the embedded one over HTTP, a real Neutron.

For a Neutron: WHIMBREL_TEST_NEUTRON_URL is its address, WHIMBREL_TEST_NEUTRON_TOKEN an administrator's token, and
WHIMBREL_TEST_NEUTRON_HOSTS two of its hosts, with a comma between them.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from random import Random

import httpx
import pytest
from msgspec.structs import replace

from tests.api.network_service import HOSTS, Events, Tokens
from tests.contracts.databases import Opener
from whimbrel.adapters.openstack.network import HttpNetwork
from whimbrel.adapters.openstack.service_client import HttpService
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import HostName, ProjectId, ServerId
from whimbrel.embedded.network import network_app
from whimbrel.ports.embedded.nics import GivenNics
from whimbrel.ports.services.network import Network, NetworkInfo, NewPort, Port
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.network import SimulatedNetwork

NEUTRON = "WHIMBREL_TEST_NEUTRON_URL"
PROJECT, OTHER_PROJECT = ProjectId("1" * 32), ProjectId("2" * 32)
NOWHERE = HostName("nowhere")
MISSING = "11111111-0000-4000-8000-000000000000"
OWNER = "compute:nova"


@dataclass
class Around:
    """A network service, and a network of five addresses in it."""

    network: Network
    id: str
    hosts: tuple[HostName, HostName]
    rng: Random
    route: Callable[[], Awaitable[dict[str, str]]]
    """Make its subnet be of a segment, by ids."""

    def requested(self, server: ServerId, **changes: object) -> NewPort:
        mac = "fa:16:3e:" + ":".join(f"{self.rng.randrange(256):02x}" for _ in range(3))
        new = NewPort(network_id=self.id, project_id=PROJECT, server=server, device_owner=OWNER, mac=mac)
        return replace(new, **changes)

    async def bound(self) -> Port:
        port = await self.network.create_port(self.requested(SERVER))
        return await self.network.bind(port, self.hosts[0], {"allocation": "a"}, OWNER)


SERVER = ServerId("99999999-0000-4000-8000-000000000001")
OTHER = ServerId("99999999-0000-4000-8000-000000000002")

Story = Callable[[Around], Awaitable[None]]
Teller = Callable[[Story], None]
NETWORK = {"name": "net", "project_id": PROJECT}
CIDR = "10.20.30.0/29"


@asynccontextmanager
async def simulated() -> AsyncIterator[Around]:
    hosts = (HostName("h1"), HostName("h2"))
    network = SimulatedNetwork(SeededIds(1), hosts)
    info = NetworkInfo(id=MISSING[:-1] + "1", name="net", project_id=PROJECT, is_shared=False, subnets=("sub",))
    network.add_network(info, CIDR)

    async def route() -> dict[str, str]:
        network.add_segment(info.id, "sub", MISSING)
        return {"sub": MISSING}

    yield Around(network, info.id, hosts, Random(1), route)


@asynccontextmanager
async def over_http(client: httpx.AsyncClient, hosts: tuple[HostName, HostName]) -> AsyncIterator[Around]:
    made = await client.post("/v2.0/networks", json={"network": NETWORK})
    network_id = made.raise_for_status().json()["network"]["id"]
    subnet = {"network_id": network_id, "project_id": PROJECT, "cidr": CIDR, "ip_version": 4}

    async def route() -> dict[str, str]:
        segments = (await client.get("/v2.0/segments", params={"network_id": network_id})).json()["segments"]
        subnets = (await client.get("/v2.0/subnets", params={"network_id": network_id})).json()["subnets"]
        its, segment = subnets[0]["id"], segments[0]["id"]
        changed = await client.put(f"/v2.0/subnets/{its}", json={"subnet": {"segment_id": segment}})
        return {its: changed.raise_for_status().json()["subnet"]["segment_id"]}

    try:
        (await client.post("/v2.0/subnets", json={"subnet": subnet})).raise_for_status()
        yield Around(HttpNetwork(HttpService(client, "network")), network_id, hosts, Random(1), route)
    finally:
        for port in (await client.get("/v2.0/ports", params={"network_id": network_id})).json()["ports"]:
            await client.delete(f"/v2.0/ports/{port['id']}")
        await client.delete(f"/v2.0/networks/{network_id}")


@asynccontextmanager
async def embedded(open_store: Opener) -> AsyncIterator[Around]:
    async with open_store("network") as db:
        app = network_app(SqlNetworks(db), Tokens(), JumpingClock(), SeededIds(1), GivenNics(HOSTS), Events())
        headers = {"X-Auth-Token": "whimbrel"}
        async with (
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://network", headers=headers) as client,
            over_http(client, (HostName("h1"), HostName("h2"))) as around,
        ):
            yield around


@asynccontextmanager
async def real() -> AsyncIterator[Around]:
    first, second = os.environ["WHIMBREL_TEST_NEUTRON_HOSTS"].split(",")
    headers = {"X-Auth-Token": os.environ["WHIMBREL_TEST_NEUTRON_TOKEN"]}
    async with (
        httpx.AsyncClient(base_url=os.environ[NEUTRON], headers=headers, timeout=60) as client,
        over_http(client, (HostName(first), HostName(second))) as around,
    ):
        yield around


SERVICES: dict[str, Callable[[Opener], AbstractAsyncContextManager[Around]]] = {
    "simulated": lambda _: simulated(),
    "embedded": embedded,
}
if NEUTRON in os.environ:
    SERVICES["real"] = lambda _: real()


@pytest.fixture(params=SERVICES)
async def around(request: pytest.FixtureRequest, open_store: Opener) -> AsyncIterator[Around]:
    async with SERVICES[request.param](open_store) as around:
        yield around


async def test_a_project_finds_its_networks(around: Around) -> None:
    [found] = await around.network.networks(PROJECT, [around.id, MISSING])
    assert (found.id, found.name, found.project_id, found.is_shared) == (around.id, "net", PROJECT, False)
    assert len(found.subnets) == 1
    assert around.id in [each.id for each in await around.network.networks(PROJECT)]
    assert await around.network.networks(PROJECT, []) == []
    assert await around.network.networks(OTHER_PROJECT, [around.id]) == []


async def test_subnets_of_a_routed_network_are_of_segments(around: Around) -> None:
    assert await around.network.segments(around.id) == {}
    assert await around.network.segments(MISSING) == {}
    routed = await around.route()
    assert len(routed) == 1
    assert await around.network.segments(around.id) == routed


async def test_every_project_has_a_security_group(around: Around) -> None:
    groups = await around.network.security_groups(PROJECT)
    assert "default" in groups.values()
    assert await around.network.security_groups(PROJECT) == groups


async def test_a_ports_security_groups_are_set_as_it_was_seen(around: Around) -> None:
    network = around.network
    port = await network.create_port(around.requested(SERVER))
    [group] = port.security_groups
    await network.set_security_groups(port, [])
    bare = await network.port(port.id)
    assert bare.security_groups == ()
    if port.revision is not None:
        with pytest.raises(Conflict):
            await network.set_security_groups(port, [group])
    with pytest.raises(Refused):
        await network.set_security_groups(bare, [MISSING])
    await network.set_security_groups(bare, [group])
    assert (await network.port(port.id)).security_groups == (group,)
    await network.delete_port(port.id)
    with pytest.raises(NotFound):
        await network.set_security_groups(bare, [group])


async def test_many_who_ask_first_find_the_same_group(around: Around) -> None:
    found = await asyncio.gather(*(around.network.security_groups(OTHER_PROJECT) for _ in range(6)))
    assert len({group for groups in found for group in groups}) == 1


async def test_a_port_is_made_once(around: Around) -> None:
    requested = around.requested(SERVER)
    port = await around.network.create_port(requested)
    assert (port.mac, port.device_id, port.device_owner, port.host) == (requested.mac, SERVER, OWNER, "")
    assert (port.network_id, port.project_id) == (around.id, PROJECT)
    assert [address.address for address in port.addresses] == [port.addresses[0].address]
    assert (await around.network.create_port(requested)).id == port.id
    assert [each.id for each in await around.network.ports_of([SERVER, OTHER])] == [port.id]
    bound = await around.network.bind(port, around.hosts[0], {"allocation": "a"}, OWNER)
    assert await around.network.ports_of([SERVER], with_requests=False) == [bound]
    [group] = port.security_groups
    assert (await around.network.security_groups(PROJECT))[group] == "default"
    assert await around.network.port(port.id) == bound


async def test_an_address_is_given_once(around: Around) -> None:
    requested = around.requested(SERVER, fixed_ip="10.20.30.5")
    port = await around.network.create_port(requested)
    assert port.addresses[0].address == "10.20.30.5"
    assert (await around.network.create_port(requested)).id == port.id
    with pytest.raises(Refused, match=r"10\.20\.30\.5"):
        await around.network.create_port(around.requested(OTHER, fixed_ip="10.20.30.5"))
    assert await around.network.ports_of([OTHER]) == []


async def test_when_no_address_is_left(around: Around) -> None:
    made = [await around.network.create_port(around.requested(SERVER)) for _ in range(5)]
    assert len({port.addresses[0].address for port in made}) == 5
    with pytest.raises(Refused, match="No more IP addresses"):
        await around.network.create_port(around.requested(SERVER))
    await around.network.delete_port(made[0].id)
    [address] = (await around.network.create_port(around.requested(SERVER))).addresses
    assert address == made[0].addresses[0]


async def test_who_binds_too_late_changes_nothing(around: Around) -> None:
    seen = await around.network.create_port(around.requested(SERVER))
    if seen.revision is None:
        pytest.skip("this service does not count changes")
    first = await around.network.bind(seen, around.hosts[0], {}, OWNER)
    with pytest.raises(Conflict):
        await around.network.bind(seen, around.hosts[1], {}, OWNER)
    await around.network.free_port(seen.id, SERVER)
    with pytest.raises(Conflict):
        await around.network.bind(first, around.hosts[1], {}, OWNER)
    assert (await around.network.port(seen.id)).host == ""


async def test_what_is_not_there(around: Around) -> None:
    network = around.network
    gone = await network.create_port(around.requested(SERVER))
    await network.delete_port(gone.id)
    await network.delete_port(MISSING)
    await network.free_port(MISSING, SERVER)
    await network.delete_bindings([MISSING], around.hosts[0])
    await network.delete_bindings([], around.hosts[0])
    assert await network.ports_of([]) == []
    with pytest.raises(Refused):
        await network.create_port(around.requested(SERVER, network_id=MISSING))
    for call in (
        network.port(MISSING),
        network.take_port(MISSING, SERVER, OWNER),
        network.bind(gone, around.hosts[0], {}, OWNER),
        network.bindings(MISSING),
        network.create_binding(MISSING, around.hosts[0], "normal", {}),
        network.activate_binding(MISSING, around.hosts[0]),
    ):
        with pytest.raises(NotFound):
            await call


async def test_a_port_is_taken_and_released(around: Around) -> None:
    network = around.network
    port = await network.create_port(around.requested(SERVER))
    for _ in range(2):
        await network.free_port(port.id, SERVER)
        freed = await network.port(port.id)
        assert (freed.device_id, freed.device_owner, freed.host) == ("", "", "")
    for _ in range(2):
        taken = await network.take_port(port.id, OTHER, OWNER)
        assert (taken.device_id, taken.device_owner) == (OTHER, OWNER)
    with pytest.raises(Refused):
        await network.take_port(port.id, SERVER, OWNER)
    await network.free_port(port.id, SERVER)  # it is not this server's
    assert (await network.port(port.id)).device_id == OTHER


async def test_two_servers_that_want_a_port(around: Around) -> None:
    port = await around.network.create_port(around.requested(SERVER))
    await around.network.free_port(port.id, SERVER)
    servers = [ServerId(MISSING[:-1] + str(number)) for number in range(1, 7)]
    calls = [around.network.take_port(port.id, server, OWNER) for server in servers]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    [winner] = [outcome for outcome in outcomes if isinstance(outcome, Port)]
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 5
    assert (await around.network.port(port.id)).device_id == winner.device_id


async def test_a_port_is_bound(around: Around) -> None:
    port = await around.bound()
    assert (port.host, port.profile, port.status) == (around.hosts[0], {"allocation": "a"}, "ACTIVE")
    assert port.vif_type not in ("unbound", "binding_failed")
    again = await around.network.bind(port, around.hosts[0], {"more": 1, "allocation": None}, OWNER)
    assert again.profile == {"more": 1}
    [binding] = await around.network.bindings(port.id)
    assert (binding.host, binding.is_active, binding.profile) == (around.hosts[0], True, {"more": 1})
    with pytest.raises(Refused):
        await around.network.bind(again, NOWHERE, {}, OWNER)
    await around.network.free_port(port.id, SERVER)
    freed = await around.network.port(port.id)
    assert (freed.host, freed.vif_type, "allocation" in freed.profile) == ("", "unbound", False)
    assert await around.network.bindings(port.id) == []


async def test_a_binding_waits_at_another_host(around: Around) -> None:
    network, (here, there) = around.network, around.hosts
    port = await around.bound()
    for profile in ({"allocation": "b"}, {"allocation": "c", "nothing": None}):
        made = await network.create_binding(port.id, there, "normal", profile)
        assert (made.host, made.is_active) == (there, False)
        assert made.vif_type not in ("unbound", "binding_failed")
    assert (await network.port(port.id)).host == here
    bindings = {binding.host: binding for binding in await network.bindings(port.id)}
    assert {host: binding.is_active for host, binding in bindings.items()} == {here: True, there: False}
    assert bindings[there].profile == {"allocation": "c"}
    with pytest.raises(Refused):
        await network.create_binding(port.id, NOWHERE, "normal", {})
    still = await network.create_binding(port.id, here, "normal", {"allocation": "d"})
    assert (still.is_active, still.profile) == (True, {"allocation": "d"})


async def test_a_binding_is_handed_over_and_back(around: Around) -> None:
    network, (here, there) = around.network, around.hosts
    port = await around.bound()
    await network.create_binding(port.id, there, "normal", {"allocation": "b"})
    for host, allocation in ((there, "b"), (here, "a")):
        for _ in range(2):
            await network.activate_binding(port.id, host)
        shown = await network.port(port.id)
        assert (shown.host, shown.profile, shown.status) == (host, {"allocation": allocation}, "ACTIVE")
        assert shown.vif_type == port.vif_type
        assert [b.host for b in await network.bindings(port.id) if b.is_active] == [host]
    with pytest.raises(NotFound):
        await network.activate_binding(port.id, NOWHERE)
    with pytest.raises(Refused):
        await network.delete_bindings([port.id], here)
    for _ in range(2):
        await network.delete_bindings([MISSING, port.id], there)
    assert [binding.host for binding in await network.bindings(port.id)] == [here]
    assert (await network.port(port.id)).addresses == port.addresses


async def test_what_waits_is_gone_with_the_port_or_its_server(around: Around) -> None:
    network, (_, there) = around.network, around.hosts
    port = await around.bound()
    await network.create_binding(port.id, there, "normal", {})
    await network.free_port(port.id, SERVER)
    assert await network.bindings(port.id) == []
    for _ in range(2):
        await network.delete_port(port.id)
    with pytest.raises(NotFound):
        await network.bindings(port.id)


# What is said over HTTP


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Refused),
        (401, Unavailable),
        (403, Refused),
        (404, NotFound),
        (409, Refused),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
@pytest.mark.parametrize("body", ['{"NeutronError": {"type": "Any", "message": "<no>", "detail": ""}}', "<no>"])
async def test_what_an_http_status_means(status: int, error: type[Exception], body: str) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, text=body))
    async with httpx.AsyncClient(transport=transport, base_url="http://network") as client:
        with pytest.raises(error, match=f"{status}: <no>"):
            await HttpNetwork(HttpService(client, "network")).port(MISSING)


async def test_a_host_that_cannot_connect_a_port_is_a_no() -> None:
    """Neutron says it with a 500."""
    body = {"NeutronError": {"type": "PortBindingError", "message": "Binding failed", "detail": ""}}
    transport = httpx.MockTransport(lambda request: httpx.Response(500, json=body))
    async with httpx.AsyncClient(transport=transport, base_url="http://network") as client:
        with pytest.raises(Refused, match="Binding failed"):
            await HttpNetwork(HttpService(client, "network")).create_binding(MISSING, NOWHERE, "normal", {})


@pytest.mark.parametrize("answer", ["nothing", "nonsense"])
async def test_no_answer_is_unavailable(answer: str) -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        if answer == "nothing":
            raise httpx.ReadError("connection reset")
        return httpx.Response(200, text="[]")

    async with httpx.AsyncClient(transport=httpx.MockTransport(reply), base_url="http://network") as client:
        network = HttpNetwork(HttpService(client, "network"))
        for call in (network.port(MISSING), network.ports_of([SERVER]), network.networks(PROJECT)):
            with pytest.raises(Unavailable):
                await call


async def test_both_forms_of_a_request_are_read() -> None:
    port = {"id": MISSING, "network_id": "n", "project_id": "p", "mac_address": "m"}
    group = {"id": "g", "required": ["T"], "resources": {"R": 1}}
    forms = [
        {"request_groups": [group], "same_subtree": ["g"]},
        {"required": ["T"], "resources": {"R": 1}},
        None,
    ]
    shown = iter(forms)
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, json={"port": {**port, "resource_request": next(shown)}})
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://network") as client:
        grouped, alone, nothing = [await HttpNetwork(HttpService(client, "network")).port(MISSING) for _ in forms]
    assert (grouped.has_groups, grouped.same_subtree, [each.id for each in grouped.requests]) == (
        True,
        ("g",),
        ["g"],
    )
    assert (alone.has_groups, alone.same_subtree, [each.id for each in alone.requests]) == (False, (), [MISSING])
    assert alone.requests[0].resources == grouped.requests[0].resources == {"R": 1}
    assert nothing.requests == ()


async def test_whose_ports_there_are_comes_page_by_page(around: Around) -> None:
    network = around.network
    for server, owner in ((SERVER, OWNER), (OTHER, OWNER), (OTHER, "network:other")):
        await network.create_port(around.requested(server, device_owner=owner))
    told: list[ServerId] = []
    after: str | None = None
    while True:
        page = await network.port_holders(after, 2)
        told += page.items
        if page.after is None:
            break
        after = page.after
    assert sorted(one for one in told if one in (SERVER, OTHER)) == [SERVER, OTHER]  # of servers alone
