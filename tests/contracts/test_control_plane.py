"""What every control plane does for an agent: it admits hosts that have joined, and the newest agent of each."""

import asyncio

import msgspec
import pytest

from tests.contracts.control_planes import CELL, NETWORK, Agents, Open, join, open_control
from tests.unit.hosts.descriptions import NEW, description
from whimbrel.domain.errors import Refused, Superseded
from whimbrel.domain.host import BEAT_STORED_AFTER_S
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_hardware import FoundNic, Hardware
from whimbrel.domain.host_networks import HostNetworks
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import HostName
from whimbrel.domain.pci import PciDevice
from whimbrel.ports.hosts.control_plane import AgentHello, Beat

__all__ = ["open_control"]


def hello(described: HostDescription | None = None) -> AgentHello:
    return AgentHello(release="0.4.0", verbs={"stop": ("order", "key")}, description=described or description())


def beat(session: int, described: HostDescription | None = None, **fields: object) -> Beat:
    made = Beat(session=session, digest=(described or description()).digest(), answers=True)
    return msgspec.structs.replace(made, **fields)


async def seen_at(agents: Agents) -> float:
    return (await agents.world.cloud.cell(CELL).hosts.get(NEW)).seen_at


async def test_a_host_that_has_joined_is_registered(open_control: Open) -> None:
    async with open_control() as (world, control):
        await join(world)
        await world.cloud.restores.begin(3, "a test", 1.0)
        first = await control.register(NEW, hello())
        second = await control.register(NEW, hello())
        assert (first.session, second.session, first.incarnation) == (1, 2, 3)
        hosts = world.cloud.cell(CELL).hosts
        assert (await hosts.agents())[NEW].release == "0.4.0"
        assert await hosts.descriptions() == {NEW: description()}


async def test_a_host_that_has_not_joined_or_was_retired_is_refused(open_control: Open) -> None:
    async with open_control() as (world, control):
        for _ in ("not yet", "no more"):
            with pytest.raises(Refused, match="whimbrel host invite n17"):
                await control.register(NEW, hello())
            with pytest.raises(Refused, match="whimbrel host invite n17"):
                await control.beat(NEW, beat(1))
            with pytest.raises(Refused, match="whimbrel host invite n17"):
                await control.describe(NEW, 1, description())
            with pytest.raises(Refused, match="whimbrel host invite n17"):
                await control.image_grant(NEW, "image", "read")
            await join(world)
            await world.cloud.host_keys.retire(NEW, world.cloud.clock.now())
        assert [host.name for host in await world.cloud.cell(CELL).hosts.all()] == ["h1"]


WRONG: tuple[tuple[str, dict[str, object]], ...] = (
    ("zone", {"zone": "internal"}),
    ("driver", {"driver": "other"}),
    ("vcpus", {"vcpus": 0}),
    ("memory_mib", {"memory_mib": 2**40}),
    ("disk_gib", {"disk_gib": -1}),
    ("dedicated_vcpus", {"dedicated_vcpus": -1}),
    ("traits", {"traits": ("NO_SUCH_TRAIT",)}),
    ("traits", {"traits": ("COMPUTE_STATUS_DISABLED",)}),
    ("resources", {"resources": {"VCPU": 3}}),
    ("resources", {"resources": {"CUSTOM_GPU": 0}}),
    ("pci", {"pci": (PciDevice(address="0000:81:00.1", vendor_id="8086", product_id="1572"),) * 2}),
    ("cpu_info", {"cpu_info": "x" * 2**19}),
    ("host_ip", {"host_ip": ""}),
    ("hardware", {"hardware": Hardware(nics=(FoundNic(name="x" * 2**23),))}),
    ("another", {"name": HostName("h1")}),
    ("another", {"net": HostNet(host="h1")}),
)


@pytest.mark.parametrize(("word", "fields"), WRONG, ids=[f"{word}-{n}" for n, (word, _) in enumerate(WRONG)])
async def test_a_wrong_description_is_refused(open_control: Open, word: str, fields: dict[str, object]) -> None:
    async with open_control() as (world, control):
        await join(world)
        with pytest.raises(Refused, match=word):
            await control.register(NEW, hello(description(**fields)))  # type: ignore[arg-type]
        assert [host.name for host in await world.cloud.cell(CELL).hosts.all()] == ["h1"]
        await control.register(NEW, hello())
        with pytest.raises(Refused, match=word):
            await control.describe(NEW, 1, description(**fields))  # type: ignore[arg-type]
        assert (await world.cloud.cell(CELL).hosts.descriptions())[NEW] == description()


async def test_a_heartbeat_says_which_session_is_the_newest(open_control: Open) -> None:
    async with open_control() as agents:
        world, control = agents
        await join(world)
        old = await control.register(NEW, hello())
        new = await control.register(NEW, hello())
        before = await seen_at(agents)
        world.remains.clock.advance(BEAT_STORED_AFTER_S)
        assert (await control.beat(NEW, beat(old.session))).session == new.session
        assert await seen_at(agents) == before
        assert (await control.beat(NEW, beat(new.session))).session == new.session
        assert await seen_at(agents) > before


async def test_a_heartbeat_is_written_only_when_the_stored_one_is_old(open_control: Open) -> None:
    async with open_control() as agents:
        world, control = agents
        await join(world)
        session = (await control.register(NEW, hello())).session
        first = await seen_at(agents)
        world.remains.clock.advance(BEAT_STORED_AFTER_S - 5)
        await control.beat(NEW, beat(session))
        assert await seen_at(agents) == first
        world.remains.clock.advance(5)
        await control.beat(NEW, beat(session, answers=False))
        assert await seen_at(agents) == first
        await control.beat(NEW, beat(session))
        assert await seen_at(agents) > first


async def test_a_changed_description_is_asked_for_and_stored(open_control: Open) -> None:
    async with open_control() as (world, control):
        await join(world)
        session, changed = (await control.register(NEW, hello())).session, description(vcpus=4)
        assert not (await control.beat(NEW, beat(session))).describe
        assert (await control.beat(NEW, beat(session, changed))).describe
        await control.describe(NEW, session, changed)
        assert not (await control.beat(NEW, beat(session, changed))).describe
        assert (await world.cloud.cell(CELL).hosts.get(NEW)).vcpus == 4
        await control.register(NEW, hello(changed))
        with pytest.raises(Superseded):
            await control.describe(NEW, session, description())


async def test_what_was_found_on_a_host_is_stored_and_renewed(open_control: Open) -> None:
    async with open_control() as (world, control):
        await join(world)
        found = Hardware(nics=(FoundNic(name="ens5", mtu=9000),), pci=())
        described = description(hardware=found)
        session = (await control.register(NEW, hello(described))).session
        assert await world.cloud.cell(CELL).hosts.hardware(NEW) == found
        assert not (await control.beat(NEW, beat(session, described))).describe
        changed = description(hardware=Hardware(nics=(), pci=()))
        assert (await control.beat(NEW, beat(session, changed))).describe
        await control.describe(NEW, session, changed)
        assert await world.cloud.cell(CELL).hosts.hardware(NEW) == changed.hardware


async def test_heartbeats_of_many_are_answered_each_for_itself(open_control: Open) -> None:
    async with open_control() as (world, control):
        await join(world)
        session = (await control.register(NEW, hello())).session
        asked = [beat(session), beat(session, digest="another"), beat(session - 1)]
        answers = await asyncio.gather(*(control.beat(NEW, each) for each in asked))
        assert [each.describe for each in answers] == [False, True, False]
        assert {each.session for each in answers} == {session}


async def test_an_agent_is_heard_after_its_database_was_restored(open_control: Open) -> None:
    async with open_control() as (world, control):
        await join(world)
        for _ in range(2):
            await control.register(NEW, hello())
        assert (await control.beat(NEW, beat(9))).session == 9
        assert (await world.cloud.cell(CELL).hosts.get(NEW)).session == 9
        assert (await control.beat(NEW, beat(2))).session == 9


async def test_a_host_that_was_retired_is_refused_at_its_next_heartbeat(open_control: Open) -> None:
    async with open_control() as (world, control):
        await join(world)
        session = (await control.register(NEW, hello())).session
        await control.beat(NEW, beat(session))
        await world.cloud.host_keys.retire(NEW, world.cloud.clock.now())
        await world.cloud.cell(CELL).hosts.delete(NEW)
        with pytest.raises(Refused, match="not registered"):
            await control.beat(NEW, beat(session))
        with pytest.raises(Refused, match="was retired"):
            await control.beat(NEW, beat(session))


async def test_access_to_images_is_for_the_host_that_asks(open_control: Open) -> None:
    async with open_control() as (world, control):
        await join(world)
        grant = await control.image_grant(NEW, "tick", "write")
        assert (grant.url, grant.token, grant.expires_at) == ("http://images", "n17 write tick", 5.0)


async def test_a_host_that_has_joined_hears_of_its_networks_when_they_change(open_control: Open) -> None:
    async with open_control() as (world, control):
        with pytest.raises(Refused):
            await control.network_state(NEW, "")
        await join(world)
        state = await control.network_state(NEW, "")
        assert state == HostNetworks(networks=(NETWORK,))
        assert state
        assert await control.network_state(NEW, state.digest()) is None
