"""What every store of hosts does: the host's word and the operator's word do not touch each other."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.listings import a_server
from whimbrel.adapters.sql.cell.hosts import SqlHosts
from whimbrel.adapters.sql.cell.servers import SqlServers
from whimbrel.domain.errors import Conflict, NotFound, Superseded
from whimbrel.domain.guest import Order
from whimbrel.domain.host import ForcedDown, Host
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice, Hardware
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import CellName, HostName, ProviderId, RunId
from whimbrel.domain.numa import NumaNode
from whimbrel.domain.pci import PciDevice
from whimbrel.ports.stores.hosts import AgentInfo, LastBeat

CELL = CellName("cell1")
A = HostName("a")


@pytest.fixture
async def hosts(open_store: Opener) -> AsyncIterator[SqlHosts]:
    async with open_store("cell") as db:
        yield SqlHosts(db, CELL)


def host(name: str, **fields: object) -> Host:
    made = Host(
        name=HostName(name),
        cell=CELL,
        id=ProviderId(f"provider-{name}"),
        service_id=f"service-{name}",
        driver="simulated",
        vcpus=8,
        memory_mib=16384,
        disk_gib=100,
        created_at=10.0,
    )
    return msgspec.structs.replace(made, **fields)


AGENT = AgentInfo(release="0.4.0", verbs={"prepare": ("order", "spec"), "stop": ("order",)})


HARDWARE = Hardware(
    nics=(FoundNic(name="ens5", mtu=9000),),
    pci=(FoundPciDevice(address="0000:81:00.1", vendor_id="8086", product_id="1572", numa_node=1),),
)


def description(name: str, **fields: object) -> HostDescription:
    net = HostNet(host=name, kpps=7)
    made = HostDescription(
        name=HostName(name), zone="north", driver="simulated", vcpus=8, memory_mib=16384, disk_gib=100, net=net
    )
    return msgspec.structs.replace(made, **fields)


async def test_registers_and_lists_in_the_order_of_arrival(hosts: SqlHosts) -> None:
    second, first = await hosts.register(host("b")), await hosts.register(host("a"))
    assert [h.name for h in await hosts.all()] == ["b", "a"]
    assert 0 < second.number < first.number
    assert await hosts.get(HostName("a")) == first
    assert msgspec.structs.replace(first, number=0) == host("a")


async def test_registering_again_renews_sizes_and_keeps_the_operators_word(hosts: SqlHosts) -> None:
    first = await hosts.register(host("a", seen_at=50.0))
    await hosts.set_service(first.name, enabled=False, disabled_reason="broken fan", forced_down=True)
    again = await hosts.register(
        host("a", vcpus=16, seen_at=20.0, id=ProviderId("another"), service_id="another", created_at=99.0)
    )
    wanted = {"enabled": False, "disabled_reason": "broken fan", "forced_down": True, "vcpus": 16}
    assert again == msgspec.structs.replace(first, **wanted)


async def test_a_host_is_switched_without_touching_the_word_that_it_is_down(open_store: Opener) -> None:
    async with open_store("cell") as db:
        hosts, word = SqlHosts(db, CELL), ForcedDown(by="ann", reason="no power", at=5.0)
        first = await hosts.register(host("a"))
        down = await hosts.set_service(A, enabled=True, disabled_reason=None, forced_down=True, word=word)
        off = await hosts.set_service(A, enabled=False, disabled_reason="full", forced_down=None)
        assert off == msgspec.structs.replace(down, enabled=False, disabled_reason="full")
        await hosts.set_service(A, enabled=False, disabled_reason="full", forced_down=False)
        assert await hosts.set_service(A, enabled=True, disabled_reason=None, forced_down=None) == first


async def test_a_sign_of_life_never_goes_back_in_time(hosts: SqlHosts) -> None:
    for name in "abc":
        await hosts.register(host(name, seen_at=10.0))
    await hosts.seen([HostName("a"), HostName("c"), HostName("nobody")], 30.0)
    await hosts.seen([HostName("a")], 20.0)
    await hosts.seen([], 99.0)
    assert [h.seen_at for h in await hosts.all()] == [30.0, 10.0, 30.0]


async def test_what_a_host_says_of_its_nodes_is_renewed_and_what_it_tells_of_its_load_stays(open_store: Opener) -> None:
    async with open_store("cell") as db:
        hosts, nodes = SqlHosts(db, CELL), (NumaNode(cpus=4, memory_mib=8192), NumaNode(cpus=0, memory_mib=1))
        assert (await hosts.register(host("a", numa=nodes))).numa == nodes
        await hosts.register(host("b"))
        await hosts.tell({A: {"cpu.percent": 0.25, "cpu.idle.time": 1e15}, HostName("nobody"): {"x": 1.0}})
        await hosts.tell({})
        a, b = await hosts.all()
        assert (a.metrics, b.metrics, b.numa) == ({"cpu.percent": 0.25, "cpu.idle.time": 1e15}, {}, ())
        again = await hosts.register(host("a", numa=nodes[:1]))
        assert (again.numa, again.metrics) == (nodes[:1], a.metrics)
        await hosts.tell({A: {"cpu.percent": 0.5}})
        assert (await hosts.get(A)).metrics == {"cpu.percent": 0.5}


async def test_what_is_not_there_is_not_found(hosts: SqlHosts) -> None:
    await hosts.register(host("a"))
    await hosts.delete(HostName("a"))
    with pytest.raises(NotFound):
        await hosts.delete(HostName("a"))
    with pytest.raises(NotFound):
        await hosts.get(HostName("a"))
    with pytest.raises(NotFound):
        await hosts.set_service(HostName("a"), enabled=True, disabled_reason=None, forced_down=False)


async def test_two_hosts_never_share_a_provider(hosts: SqlHosts) -> None:
    await hosts.register(host("a"))
    with pytest.raises(Conflict):
        await hosts.register(host("b", id=ProviderId("provider-a")))


async def failed_builds(hosts: SqlHosts) -> dict[HostName, int]:
    loads = (await hosts.news(None)).loads
    return {name: load.failed_builds for name, load in loads.items() if load.failed_builds}


async def test_failed_builds_count_once_for_a_run_until_a_server_is_built(open_store: Opener) -> None:
    async with open_store("cell") as db:
        hosts, servers = SqlHosts(db, CELL), SqlServers(db)
        for name in ("a", "b"):
            await hosts.register(host(name))
        first, second = Order(RunId("first"), 1), Order(RunId("second"), 2)
        for order, when in ((first, 100.0), (first, 101.0), (second, 110.0)):
            await hosts.build_failed(order, A, when)
        await hosts.build_failed(first, HostName("b"), 100.0)
        assert await failed_builds(hosts) == {A: 2, "b": 1}
        await servers.insert(Order(RunId("third"), 1), a_server(host=A, launched_at=105.0))
        assert await failed_builds(hosts) == {A: 1, "b": 1}
        await servers.insert(Order(RunId("third"), 1), a_server(host=A, launched_at=120.0))
        assert await failed_builds(hosts) == {"b": 1}
        await hosts.build_failed(second, A, 130.0)
        assert await failed_builds(hosts) == {A: 1, "b": 1}
        with pytest.raises(Superseded):
            await hosts.build_failed(Order(RunId("second"), 1), A, 140.0)


async def test_failures_go_with_their_host(hosts: SqlHosts) -> None:
    await hosts.register(host("a"))
    await hosts.build_failed(Order(RunId("run"), 1), A, 100.0)
    await hosts.delete(A)
    await hosts.register(host("a"))
    assert await failed_builds(hosts) == {}


async def test_descriptions_are_stored_with_the_rows(hosts: SqlHosts) -> None:
    device = PciDevice(address="0000:81:00.1", vendor_id="8086", product_id="1572")
    full = description("a", pci=(device,), numa=(NumaNode(cpus=4, memory_mib=8192),), resources={"CUSTOM_X": 2})
    await hosts.register_all([host("a"), host("b"), host("c")], {A: full, HostName("b"): description("b")})
    assert await hosts.descriptions() == {A: full, "b": description("b")}
    await hosts.register_all([host("a", vcpus=9)])
    await hosts.register_all([host("b")], {HostName("b"): description("b", vcpus=4)})
    assert await hosts.descriptions() == {A: full, "b": description("b", vcpus=4)}


async def test_what_was_found_on_a_host_is_stored_beside_its_description(hosts: SqlHosts) -> None:
    full = description("a", hardware=HARDWARE)
    assert await hosts.hardware(A) is None
    await hosts.begin_session(host("a"), AGENT, full)
    assert await hosts.hardware(A) == HARDWARE
    assert await hosts.descriptions() == {A: description("a", hardware_digest=full.without_hardware().hardware_digest)}
    assert (await hosts.last_beats([A]))[A].digest == full.digest() != description("a").digest()
    await hosts.describe(host("a"), 1, description("a", hardware=Hardware()))
    assert await hosts.hardware(A) == Hardware()
    await hosts.describe(host("a"), 1, description("a"))  # an older agent, after a rollback
    assert await hosts.hardware(A) is None
    await hosts.register_all([host("a")], {A: full})
    assert await hosts.hardware(A) == HARDWARE


async def test_each_start_of_an_agent_has_a_higher_session(open_store: Opener) -> None:
    async with open_store("cell") as db:
        hosts = SqlHosts(db, CELL)
        before = await hosts.register(host("b"))
        assert (before.session, await hosts.agents()) == (0, {})
        first = await hosts.begin_session(host("a", enabled=False, disabled_reason="new"), AGENT, description("a"))
        assert (first.session, first.enabled, first.disabled_reason) == (1, False, "new")
        await hosts.set_service(A, enabled=True, disabled_reason=None, forced_down=False)
        newer = AgentInfo(release="0.5.0")
        second = await hosts.begin_session(host("a", enabled=False, vcpus=16), newer, description("a", vcpus=16))
        assert (second.session, second.enabled, second.vcpus, second.id) == (2, True, 16, first.id)
        assert await hosts.get(A) == second
        assert await hosts.agents() == {A: newer}
        assert [await hosts.agent(each) for each in (before, first, second)] == [AgentInfo(), newer, newer]
        newest = AgentInfo(release="0.6.0")
        third = await hosts.begin_session(host("a"), newest, description("a", vcpus=16))
        assert await hosts.agent(third) == newest
        with pytest.raises(NotFound):
            await SqlHosts(db, CELL).agent(replace(third, name=HostName("gone")))
        assert await hosts.descriptions() == {A: description("a", vcpus=16)}
        assert (await hosts.register(host("a"))).session == 3


async def test_agents_that_start_at_once_have_different_sessions(hosts: SqlHosts) -> None:
    begun = await asyncio.gather(*(hosts.begin_session(host("a"), AGENT, description("a")) for _ in range(6)))
    assert sorted(each.session for each in begun) == [1, 2, 3, 4, 5, 6]
    assert (await hosts.get(A)).session == 6


async def test_a_session_is_raised_and_never_lowered(hosts: SqlHosts) -> None:
    for name in ("a", "b"):
        await hosts.begin_session(host(name), AGENT, description(name))
    await hosts.raise_sessions({A: 7, HostName("nobody"): 3})
    await hosts.raise_sessions({A: 6, HostName("b"): 0})
    assert [each.session for each in await hosts.all()] == [7, 1]
    assert (await hosts.begin_session(host("a"), AGENT, description("a"))).session == 8


async def test_only_the_newest_session_describes_its_host(hosts: SqlHosts) -> None:
    for _ in range(2):
        await hosts.begin_session(host("a"), AGENT, description("a"))
    changed = await hosts.describe(host("a", vcpus=4), 2, description("a", vcpus=4))
    assert (changed.vcpus, changed.session, await hosts.get(A)) == (4, 2, changed)
    for session, name in ((1, "a"), (3, "a"), (1, "nobody")):
        with pytest.raises(Superseded):
            await hosts.describe(host(name, vcpus=2), session, description(name, vcpus=2))
    assert await hosts.all() == [changed]
    assert await hosts.descriptions() == {A: description("a", vcpus=4)}


async def test_heartbeats_are_compared_with_what_is_stored(hosts: SqlHosts) -> None:
    await hosts.begin_session(host("a", seen_at=5.0), AGENT, description("a"))
    await hosts.register(host("b"))
    await hosts.tell({A: {"cpu.percent": 0.5}})
    digest = description("a").digest()
    assert await hosts.last_beats([A, HostName("b"), HostName("nobody")]) == {
        A: LastBeat(session=1, seen_at=5.0, digest=digest, metrics={"cpu.percent": 0.5}),
        "b": LastBeat(session=0, seen_at=0.0, digest=""),
    }
    assert await hosts.last_beats([]) == {}
