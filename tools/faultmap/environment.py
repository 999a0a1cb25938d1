"""Environment of a control plane process: hosts that may fail or restart, databases that may be unreachable."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.agent.agent import HostAgent
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.ports.cloud import Cell
from whimbrel.sim.cloud.cloud import ReachableAgents, World
from whimbrel.sim.world.hypervisor import SimulatedHypervisor

AWAY_S = 7.0
"""How long databases are unreachable: longer than a lease, shorter than the step timeout of a move."""

COPY_DISK_S = 4.0
"""So that disks are incomplete for a while."""

LONG = ("import_disk", "fetch_disk")
"""Orders that take as long as copying a disk."""

_DATABASES = ("journal", "directory", "placement", "flavors", "quotas", "aggregates", "server_groups")


def is_of_a_database(touch: str) -> bool:
    port = touch.rsplit(".", 1)[0]
    return port in _DATABASES or port.endswith((".servers", ".hosts", ".devices"))


class CloudSnapshot:
    """gone: hosts that do not answer; their guests may still run."""

    def __init__(self, world: World) -> None:
        self.gone: set[str] = set()
        self._world = world
        self._away_until = 0.0
        agents = {host: self._agent(host) for host in world.hypervisors}
        self._agents = ReachableAgents(agents, world.disconnected)
        cells = {name: self._with_agents(cell) for name, cell in world.cloud.cells.items()}
        world.cloud = replace(world.cloud, cells=cells)

    def _with_agents(self, cell: Cell) -> Cell:
        return replace(cell, agents=LocalAgents(self._agents))

    def _agent(self, host: HostName) -> HostAgent:
        world = self._world
        return HostAgent(host, world.hypervisors[host], world.remains.store, world.images, world.cloud.clock)

    def is_out(self, touch: str) -> bool:
        """Check whether a call gets no answer now."""
        if touch.startswith("agent "):
            return touch.split(" ")[1].split(".")[0] in self.gone
        return is_of_a_database(touch) and self._world.cloud.clock.now() < self._away_until

    def databases_go(self) -> None:
        self._away_until = self._world.cloud.clock.now() + AWAY_S

    async def die_over(self, host: str, touch: str, call: Callable[[], Awaitable[Any]]) -> None:
        """Stop a host's agent during an order and restart it. Raises: Unavailable: the result is unknown."""
        name = HostName(host)
        if touch.endswith(LONG):
            await self._cut_short(name, call)
        else:
            await call()
        hypervisor = self._world.hypervisors[name] = self._world.hypervisors[name].reborn()
        await hypervisor.guests()
        self._agents[name] = self._agent(name)
        raise Unavailable(f"the agent of {host} died over {touch}")

    async def _cut_short(self, host: HostName, call: Callable[[], Awaitable[Any]]) -> None:
        """Run the call until a disk is incomplete."""
        agent, hypervisor = self._agents[host], self._world.hypervisors[host]
        asking = asyncio.ensure_future(call())
        while not await _is_half_made(hypervisor):
            assert not asking.done(), "a disk was never half made"
            await asyncio.sleep(0)
        assert isinstance(agent, HostAgent)
        await agent.close()
        await asyncio.gather(asking, return_exceptions=True)


async def _is_half_made(hypervisor: SimulatedHypervisor) -> bool:
    disks = [await hypervisor.disk(guest.key) for guest in hypervisor.observed()]
    return any(disk is not None and not disk.whole for disk in disks)
