"""The networks of a host are made when they change, made anew now and then, and left alone while nothing is known."""

import asyncio

import pytest

from tests.hand_clock import HandClock
from tests.host_room import H1, Room, boot, order, spec
from whimbrel.agent.network_keeper import ASK_S, REPAIR_S, NetworkKeeper
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host_networks import HostNetwork, HostNetworks, HostPort
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server_devices import GuestNic

SERVER, OTHER = ServerId("server-1"), ServerId("server-2")
PORT = HostPort(id="p1", mac="fa:16:3e:00:00:01", server=SERVER)
ONE = HostNetworks(networks=(HostNetwork(id="n1", mtu=1500, ports=(PORT,)),))
TWO = HostNetworks(networks=(HostNetwork(id="n2", mtu=1500),))


class Plane:
    """Records what it was to make, and fails while it is broken."""

    def __init__(self) -> None:
        self.made: list[HostNetworks] = []
        self.is_broken = False

    async def check(self) -> None:
        return

    async def apply(self, state: HostNetworks) -> dict[str, str]:
        if self.is_broken:
            return {network.id: "broken" for network in state.networks}
        self.made.append(state)
        return {}


class Control:
    """A control plane that says this state, or nothing."""

    def __init__(self) -> None:
        self.state: HostNetworks | None = None

    async def ask(self, known: str) -> HostNetworks | None:
        if self.state is None:
            raise Unavailable("no answer")
        return None if self.state.digest() == known else self.state


class Kept:
    def __init__(self) -> None:
        self.clock, self.plane, self.control = HandClock(), Plane(), Control()
        self.keeper = NetworkKeeper(self.control.ask, self.plane, self.clock)


async def test_a_change_is_made_once() -> None:
    room = Kept()
    for state in (ONE, ONE, TWO):
        room.control.state = state
        await room.keeper.refresh(SERVER)
    assert room.plane.made == [ONE, TWO]


async def test_without_an_answer_nothing_is_changed() -> None:
    room = Kept()
    with pytest.raises(Unavailable):
        await room.keeper.refresh(SERVER)
    room.control.state = ONE
    await room.keeper.refresh(SERVER)
    room.control.state = None
    with pytest.raises(Unavailable):
        await room.keeper.refresh(SERVER)
    assert room.plane.made == [ONE]


async def test_what_failed_is_tried_again_and_its_guests_do_not_start_meanwhile() -> None:
    room = Kept()
    room.control.state, room.plane.is_broken = ONE, True
    for _ in range(2):
        with pytest.raises(Unavailable, match="n1 could not be made: broken"):
            await room.keeper.refresh(SERVER)
    await room.keeper.refresh(OTHER)
    room.plane.is_broken = False
    await room.keeper.refresh(SERVER)
    assert room.plane.made == [ONE]


async def test_the_networks_are_made_anew_now_and_then() -> None:
    room = Kept()
    room.control.state = ONE
    keeping = asyncio.create_task(room.keeper.run())
    await room.clock.advance(REPAIR_S + ASK_S)
    keeping.cancel()
    assert room.plane.made == [ONE, ONE]


class Unmade:
    """Networks that cannot be made."""

    async def refresh(self, server: ServerId) -> None:
        raise Unavailable("the networks are not there")


async def test_no_guest_starts_without_its_networks() -> None:
    agent, guest = Room().agents[H1], spec("server-1")
    await boot(agent, guest, order())
    await agent.pause(order(), guest.key)
    agent.networks = Unmade()
    nic = GuestNic(port_id="port-1", mac="fa:16:3e:00:00:01", vif_type="ovs")
    with pytest.raises(Unavailable):
        await agent.resume(order(), guest.key)
    await agent.stop(order(), guest.key, 0)
    for attempt in (
        agent.start(order(), guest.key),
        agent.reboot(order(), guest.key, True),
        agent.plug(order(), guest.key, nic),
    ):
        with pytest.raises(Unavailable):
            await attempt
    found = await agent.look(guest.key)
    assert found
    assert (found.power, found.ports) == ("stopped", ())
