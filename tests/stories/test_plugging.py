"""A guest waits, paused, until the network has plugged its ports; what if it never does, or the process dies."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace as with_
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.stories.lifecycle import HOSTS, RULES, born
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.services.network import Network, Port
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import LARGE, SMALL, World
from whimbrel.sim.world.equipment import with_devices

PATIENT = replace(RULES, vif_plugging_timeout_s=15.0)


class Agents:
    """A network service, and agents that plug what is bound where the guest has its devices, some looks later."""

    def __init__(self, world: World, after: int | None = 3, dies_at: int | None = None) -> None:
        """after: looks, None: never. dies_at: the look at which the process that looks is killed."""
        self.world = world
        self.after = after
        self.dies_at = dies_at
        self.looks = 0
        self.powers: list[str] = []
        world.remains.network.plug_late()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.remains.network, name)

    async def ports_of(self, servers: Sequence[ServerId], *, with_requests: bool = True) -> list[Port]:
        network = self.world.remains.network
        seen = await network.ports_of(servers, with_requests=with_requests)
        for port in (one for one in seen if one.is_connected and one.status == "DOWN"):
            guests = await self.world.hypervisors[HostName(port.host)].guests()
            live = [guest.power for guest in guests if guest.is_live and guest.key.server == port.device_id]
            if live:
                self.powers += live
                self.looks += 1
                if self.looks == self.dies_at:
                    raise asyncio.CancelledError
                if self.after is not None and self.looks > self.after:
                    network.plug(port.id)
        return await network.ports_of(servers, with_requests=with_requests)


async def built(rules: Rules = PATIENT) -> tuple[World, Server]:
    world = await World.build(HOSTS, rules=rules, equipped=True)
    return world, with_devices(world.new_server("s", SMALL))


async def power_of(world: World, server: Server) -> list[str]:
    found = [guest for host in world.hypervisors.values() for guest in await host.guests()]
    return [guest.power for guest in found if guest.key.server == server.id and guest.is_live]


def over(world: World, agents: Agents) -> Cloud:
    return with_(world.cloud, network=cast(Network, agents))


def through(world: World, agents: Agents) -> Engine:
    return world.engine("e", over(world, agents))


async def begin(world: World, server: Server, agents: Agents) -> None:
    engine = through(world, agents)
    await create.accept(engine.parts.world, engine, world.requester(), [server], HostName("h1"))


async def at_rest(world: World, server: Server) -> Server:
    await Invariants(world).check()
    assert not await Invariants(world).at_rest()
    return await lookup.find(world.cloud, server.id)


@pytest.mark.parametrize("after", [0, 3, 40])
async def test_a_guest_runs_when_its_ports_are_plugged(after: int) -> None:
    world, server = await built()
    agents = Agents(world, after)
    await begin(world, server, agents)
    await world.settle(through(world, agents))
    assert set(agents.powers) == {"paused"}
    assert (await at_rest(world, server)).vm_state == "active"
    assert await power_of(world, server) == ["running"]
    await world.close()


@pytest.mark.parametrize("dies_at", [1, 2])
async def test_the_process_dies_while_a_guest_waits(dies_at: int) -> None:
    world, server = await built()
    agents = Agents(world, dies_at=dies_at)
    await begin(world, server, agents)
    with pytest.raises(asyncio.CancelledError):
        await world.settle(through(world, agents))
    assert await power_of(world, server) == ["paused"]
    for port in world.remains.network.everything():
        world.remains.network.plug(port.id)  # before anybody looks again
    await world.settle(world.engine("another"))
    assert (await at_rest(world, server)).vm_state == "active"
    assert await power_of(world, server) == ["running"]
    await world.close()


async def test_a_guest_that_waits_in_vain_is_given_up() -> None:
    world, server = await built()
    agents = Agents(world, None)
    await begin(world, server, agents)
    await world.settle(through(world, agents))
    found = await at_rest(world, server)
    assert (found.vm_state, found.host) == ("error", None)
    assert "has not plugged within 15 s port" in str(found.fault)
    assert await power_of(world, server) == []
    await world.close()


async def test_a_guest_runs_without_its_network_if_that_is_not_fatal() -> None:
    world, server = await built(replace(PATIENT, vif_plugging_is_fatal=False))
    agents = Agents(world, None)
    await begin(world, server, agents)
    await world.settle(through(world, agents))
    assert (await at_rest(world, server)).vm_state == "active"
    assert await power_of(world, server) == ["running"]
    await world.close()


async def test_nothing_waits_without_a_time() -> None:
    world, server = await built(replace(PATIENT, vif_plugging_timeout_s=0.0))
    agents = Agents(world, None)
    await begin(world, server, agents)
    await world.settle(through(world, agents))
    assert await power_of(world, server) == ["running"]
    assert agents.powers == []
    await world.close()


@pytest.mark.parametrize(("after", "ends_on"), [(3, "h1"), (None, "h1")])
async def test_a_revert_waits_for_the_source_and_always_ends(after: int | None, ends_on: str) -> None:
    world, server = await built()
    await born(world, server)
    agents = Agents(world, 2)
    cloud, engine = over(world, agents), through(world, agents)
    await requests.resize(cloud, engine, world.requester(), await lookup.find(cloud, server.id), LARGE)
    await world.settle(engine)
    assert set(agents.powers) == {"paused"}
    found = await lookup.find(world.cloud, server.id)
    assert (found.vm_state, found.host != ends_on) == ("resized", True)
    agents.after, agents.looks, agents.powers = after, 0, []
    await requests.revert(cloud, engine, world.requester(), found)
    await world.settle(engine)
    found = await at_rest(world, server)
    assert (found.vm_state, found.host) == ("active", ends_on)
    assert await power_of(world, server) == ["running"]
    assert "paused" in agents.powers
    assert all(port.is_connected for port in world.remains.network.everything() if port.device_id == server.id)
    await world.close()
