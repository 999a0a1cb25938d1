"""How a process reaches the agents of each cell: in the process, over NATS, or over the HTTP endpoint of `whimbrel up`.

Invariant: an agent is reachable only on the bus of its own cell.
"""

from collections.abc import Callable, Mapping

import httpx

from whimbrel.adapters.bus.account_keys import AccountKeys
from whimbrel.adapters.bus.agent_client import HttpAgents
from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.sql.global_.bus_accounts import SqlBusAccounts
from whimbrel.agent.agent import HostAgent
from whimbrel.bootstrap.bus_administration import bus_servers
from whimbrel.bootstrap.cloud_bus import AgentsHereFirst, CloudBus
from whimbrel.bootstrap.process_base import ProcessBase
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.cloud import Cell
from whimbrel.ports.hosts.agent import Agents

TIMEOUT_S = 30.0  # for a host's answer


async def cloud_bus(base: ProcessBase, cells: Callable[[], Mapping[CellName, Cell]]) -> CloudBus | None:
    """Open the bus of a process; None: the settings name no server. cells: of this process, as of now."""
    table = base.start.config.bus
    if not table.urls:
        return None
    bus = CloudBus(
        bus_servers(table), AccountKeys(SqlBusAccounts(base.global_), base.clock), base.start.record.id, cells
    )
    await bus.open(base.opened)
    return bus


async def agents_of_cells(
    base: ProcessBase, here: Mapping[HostName, HostAgent], bus: CloudBus | None
) -> Callable[[CellName], Agents]:
    """Return a function that returns the agents of a cell. here: the agents in this process."""
    start = base.start
    if not start.role.has_hosts and bus:
        return bus.agents
    if not start.role.has_hosts and start.data:
        return await _of_up(base)

    def of_cell(cell: CellName) -> Agents:
        names = [HostName(host.name) for each, host in start.config.hosts() if each.name == cell]
        local = LocalAgents({name: here[name] for name in names}, TIMEOUT_S)
        return AgentsHereFirst(local, frozenset(names), bus.agents(cell)) if bus else local

    return of_cell


async def _of_up(base: ProcessBase) -> Callable[[CellName], Agents]:
    """Return the agents in the process `up` of this data directory."""
    client = await base.opened.enter_async_context(httpx.AsyncClient(limits=httpx.Limits(max_connections=200)))
    running, secret = base.start.home.running(), base.start.home.agents_secret()
    return lambda cell: HttpAgents(running.agents_url(cell), secret, client)
