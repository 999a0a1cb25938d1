"""Letting go what a server holds of networks and volumes and its record does not know: what came too late.

Networks and volumes know no epochs: a call that nobody waits for any more may arrive when its run was undone long ago.
What it can leave is a binding that is not active, an attachment that is not connected, a port or a volume that nobody
uses. And the other way round: a port that its owner deleted while its server could not let go of it, because a move was
in hand. Law: nothing is let go unless its server is locked, or is no more.
"""

from whimbrel.domain.devices import Nic
from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.steps import network, volumes
from whimbrel.ports.cloud import Asker, Cloud
from whimbrel.ports.journal import RunFilter
from whimbrel.ports.network import Port
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import errand, interfaces, lookup
from whimbrel.servers.errand import ErrandFacts
from whimbrel.servers.interfaces import ATTACH_INTERFACE

STATES = ("active", "stopped", "error")
"""A server that waits for a verdict is left alone: its move holds more than the record says."""


async def stray_bindings(record: Server, cloud: Cloud) -> list[tuple[str, HostName]]:
    """List where ports of a server are bound besides its host, not actively: (port, host)."""
    ports = await cloud.network.ports_of([record.id]) if record.nics else []
    return [
        (port.id, binding.host)
        for port in ports
        for binding in await cloud.network.bindings(port.id)
        if not binding.is_active and binding.host != record.host
    ]


async def stray_attachments(record: Server, cloud: Cloud) -> list[str]:
    known = {device.attachment_id for device in record.volumes}
    return [one.id for one in await cloud.volumes.attachments(record.id) if one.id not in known]


async def stray_ports(record: Server, cloud: Cloud) -> list[Port]:
    """List ports that say they are the server's, and that it does not know."""
    known = {nic.port_id for nic in record.nics}
    return [port for port in await cloud.network.ports_of([record.id]) if port.id not in known]


async def lost_nic(record: Server, cloud: Cloud) -> Nic | None:
    """Give a nic of a server whose port is no more; a port that somebody took away is there."""
    theirs = {port.id for port in await cloud.network.ports_of([record.id])} if record.nics else set()
    for nic in record.nics:
        if nic.port_id in theirs:
            continue
        try:
            await cloud.network.port(nic.port_id)
        except NotFound:
            return nic
    return None


async def let_go_strays(run: Run, cloud: Cloud) -> None:
    record = await errand.records(run, cloud).get(run.subject)
    for attachment_id in await stray_attachments(record, cloud):
        await cloud.volumes.detach(attachment_id)
    for port_id, host in await stray_bindings(record, cloud):
        await cloud.network.delete_bindings([port_id], host)
    made = await made_macs(record.id, cloud)
    for port in await stray_ports(record, cloud):
        if port.mac in made:
            await cloud.network.delete_port(port.id)
        else:
            await cloud.network.free_port(port.id, record.id)


async def made_macs(server: ServerId, cloud: Cloud) -> set[str]:
    """Give the MACs of all ports that were ever made for a server: its runs chose them."""
    runs = await cloud.journal.find(RunFilter(subject=server, sagas=(ATTACH_INTERFACE.name, "create")))
    return {mac for run in runs for mac in (run.facts.macs if run.saga == "create" else (run.facts.mac,)) if mac}


async def idle_again(run: Run, cloud: Cloud) -> None:
    await errand.unlock(run, cloud)


TIDY = Saga(
    "tidy",
    1,
    ErrandFacts,
    undoable=(Step(errand.lock, undo=errand.unlock, door=True),),
    forward_only=(Step(let_go_strays), Step(idle_again)),
)


async def tidy(cloud: Cloud, engine: Engine, asker: Asker, server: Server) -> bool:
    """Start to let go what came too late, or a port that is no more; tell whether there is anything.

    A server that is in use is left alone.

    Raises: WrongState; Conflict: it is busy; Unavailable.
    """
    if server.task_state is not None:
        return False
    if server.vm_state in interfaces.STATES and (nic := await lost_nic(server, cloud)):
        await interfaces.detach(cloud, engine, asker, server, nic)
        return True
    strays = stray_bindings, stray_attachments, stray_ports
    if not any([await look(server, cloud) for look in strays]):
        return False
    if (await lookup.find(cloud, server.id)).generation != server.generation:
        return False  # what was seen may have been of a move
    await errand.accept(cloud, engine, asker, server, TIDY, "tidy", None, STATES)
    return True


async def tidy_after_create(create: Run, cloud: Cloud) -> bool:
    """Let go what the creation of a server that is no more made too late; tell whether there was anything."""
    made = await cloud.volumes.made(create.facts.owner.project, volumes.marks(create))
    held = await cloud.volumes.attachments(create.subject)
    ports = await cloud.network.ports_of([create.subject])
    await network.unmake_ports(create, cloud)
    await volumes.unmake_volumes(create, cloud)
    return bool(made or held or ports)
