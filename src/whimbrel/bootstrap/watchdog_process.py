"""`whimbrel watchdog`: the watchdog of a host that fences itself, as a process beside the agent's.

It uses the directory and the settings of the agent, and nothing else: neither the bus nor the cloud.
"""

from collections.abc import Awaitable, Callable

from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.lease_files import LeaseFiles, SystemBootClock, end_process
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.key_value_store import SqlKeyValueStore
from whimbrel.agent.lease_watchdog import Watchdog
from whimbrel.bootstrap.agent_process import AgentStart
from whimbrel.bootstrap.hypervisors import hypervisor_of
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.settings import LibvirtHost
from whimbrel.settings.datadir import DataDir
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.images import MemoryImages


async def run_watchdog(start: AgentStart, on_ready: Callable[[], None]) -> None:
    """Watch until cancelled.

    Raises: NotFound: the host has not joined; Invalid: the settings; Refused: another watchdog runs here.
    """
    directory, host = start.directory.path, start.host()
    with DataDir(directory).used_as("watchdog", "--dir"):
        clock, leases = SystemClock(), LeaseFiles(directory)
        if isinstance(host, LibvirtHost):
            from whimbrel.adapters.libvirt.guest_processes import kill_guests

            libvirt = _hypervisor(start, MemoryKeyValueStore())
            watchdog = Watchdog(
                leases, SystemBootClock(), clock, lambda: libvirt, end_process,
                lambda: kill_guests(host.guests_in(directory)),
            )  # fmt: skip
            on_ready()
            await watchdog.run()
            return
        url = f"sqlite:///{directory / 'db'}"
        prepare(url, "keep")
        database = open_database(url, "keep")
        try:
            store = SqlKeyValueStore(database)
            watchdog = Watchdog(
                leases, SystemBootClock(), clock, lambda: _hypervisor(start, store), end_process,
                _power_loss(start, store),
            )  # fmt: skip
            on_ready()
            await watchdog.run()
        finally:
            await database.close()


def _hypervisor(start: AgentStart, store: KeyValueStore) -> Hypervisor:
    """Return the host's hypervisor. It is asked for no images."""
    cell, simulated = start.directory.membership().cell, start.config.simulated
    directory, images = start.directory.path, MemoryImages({})
    return hypervisor_of(start.host(), cell, simulated, directory, store, SystemClock(), images, SimulatedWorld())


def _power_loss(start: AgentStart, store: KeyValueStore) -> Callable[[], Awaitable[list[str]]]:
    """Simulated guests have no processes: what kills them is a power loss."""

    async def lose_power() -> list[str]:
        hypervisor = _hypervisor(start, store)
        assert isinstance(hypervisor, SimulatedHypervisor)
        await hypervisor.lose_power()
        return ["all simulated guests"]

    return lose_power
