"""The control plane as an agent sees it: in its own process, and over the bus."""

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.nats_servers import cloud_bus
from tests.unit.hosts.descriptions import NEW, registrar
from whimbrel.adapters.bus.nats_control_plane import NatsControlPlane, serve_control
from whimbrel.domain.host_networks import HostNetwork, HostNetworks, HostPort
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.image_grant import ImageAccess
from whimbrel.hosts.control_plane_service import ControlPlaneService
from whimbrel.ports.hosts.control_plane import ControlPlane, ImageGrant
from whimbrel.ports.stores.host_keys import Invitation
from whimbrel.sim.cloud.cloud import World

CELL = CellName("c1")
NETWORK = HostNetwork(id="n1", mtu=1450, ports=(HostPort(id="p1", mac="fa:16:3e:00:00:01", server="s1"),))


class GivenGrants:
    """Grants everything, and says to whom."""

    async def grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        return ImageGrant(url="http://images", token=f"{host} {access} {image_id}", expires_at=5.0)


class GivenNetworks:
    """Every host has the network NETWORK."""

    async def state(self, host: HostName) -> HostNetworks:
        return HostNetworks(networks=(NETWORK,))


class Agents(NamedTuple):
    """A cloud, and its control plane as the agent of the host NEW sees it."""

    world: World
    control: ControlPlane


Open = Callable[[], AbstractAsyncContextManager[Agents]]


async def join(world: World, host: HostName = NEW) -> None:
    """Admit a host."""
    token, now = f"token of {host} {world.cloud.ids.uuid()}"[:64], world.cloud.clock.now()
    invitation = Invitation(token_hash=token, host=host, cell=CELL, created_at=now, expires_at=now + 1)
    await world.cloud.host_keys.invite(invitation)
    await world.cloud.host_keys.join(token, f"U{world.cloud.ids.uuid()}", now)


@asynccontextmanager
async def in_process() -> AsyncIterator[Agents]:
    world = await World.build(cells={CELL: ("h1",)})
    yield Agents(world, ControlPlaneService(world.cloud, registrar(world), GivenGrants(), GivenNetworks()))
    await world.close()


@asynccontextmanager
async def over_nats() -> AsyncIterator[Agents]:
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        bus = await stack.enter_async_context(cloud_bus(Path(directory), cells=(CELL,)))
        agents = await stack.enter_async_context(in_process())
        process = await stack.enter_async_context(bus.cell(CELL))
        await process.connected()
        await stack.enter_async_context(serve_control(process, agents.control))
        agent = await stack.enter_async_context(await bus.agent(NEW, CELL))
        yield Agents(agents.world, NatsControlPlane(agent))


@pytest.fixture(params=[in_process, over_nats])
def open_control(request: pytest.FixtureRequest) -> Open:
    opened: Open = request.param
    return opened
