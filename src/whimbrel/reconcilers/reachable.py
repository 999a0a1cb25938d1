"""What the cells have that answer. The others are asked in the next round."""

from whimbrel.domain.host import Host
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers.listing import cell_fanout


async def hosts(cloud: Cloud) -> list[Host]:
    answers = await cell_fanout.ask_all(cloud, lambda cell: cell.hosts.all())
    return [host for found in answers.of.values() for host in found]


async def servers(cloud: Cloud, vm_state: str) -> list[Server]:
    """Return the servers in a state."""
    answers = await cell_fanout.ask_all(cloud, lambda cell: cell.servers.find(ServerQuery(vm_states=[vm_state])))
    return [server for found in answers.of.values() for server in found]
