"""Clean up late effects in the network and volume services: above all, release what a server's record does not name.

These services know no epochs: a stale request may arrive long after its run was undone. It can leave an inactive
binding, an unconnected attachment, an unused port or volume; or a misbound port, if a binding on another host was
activated while a move waits for its verdict, or was stale too. The reverse case: an owner deleted a port, and its
server could not release it because a move was in progress.

Invariant: nothing is released unless its server is locked or deleted, and nothing that a guest uses or may use
(`servers/cleanup/orphans.py`).
"""

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import Nic
from whimbrel.moves.facts import Move, MoveFacts, moves_of
from whimbrel.moves.named_devices import without_claims
from whimbrel.moves.steps import ports as network
from whimbrel.moves.steps import volumes
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.network import Port, own_ports
from whimbrel.ports.services.volumes import Attachment
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.evidence_reader import is_ended
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import lookup, operation
from whimbrel.servers.cleanup import orphans
from whimbrel.servers.cleanup.orphans import Orphans
from whimbrel.servers.devices import interfaces
from whimbrel.servers.devices.interface_facts import InterfaceFacts
from whimbrel.servers.devices.interfaces import ATTACH_INTERFACE

STATES = ("active", "paused", "suspended", "rescued", "stopped", "error", "shelved", "shelved_offloaded")
"""While a server waits for a verdict, only ports are rebound: its move has resources not in the record."""


class CleanupFacts(OperationFacts, frozen=True, kw_only=True, omit_defaults=True, rename={"orphans": "strays"}):
    orphans: Orphans = Orphans()


Tidying = Run[CleanupFacts]


async def lost_nic(record: Server, cloud: Cloud) -> Nic | None:
    """Return a nic with a deleted port, or None; a port that was taken from the server still exists."""
    theirs = {port.id for port in await cloud.network.ports_of([record.id])} if record.nics else set()
    for nic in record.nics:
        if nic.port_id in theirs:
            continue
        try:
            await cloud.network.port(nic.port_id)
        except NotFound:
            return nic
    return None


async def see_strays(run: Tidying, cloud: Cloud) -> CleanupFacts:
    """Read the orphans again under the server's lock."""
    record = await operation.records(run, cloud).get(run.subject)
    facts = run.facts
    found = await (orphans.find_misbound if facts.beside else orphans.see)(record, cloud)
    return replace(facts, orphans=found or Orphans())


def is_misbound(facts: CleanupFacts) -> bool:
    return bool(facts.orphans.misbound)


async def give_back_ports(run: Tidying, cloud: Cloud) -> None:
    """Activate the bindings of misbound ports on the server's host, made anew if they were cleared.

    Undoable, so that no verdict waits for long: if the network service fails, this run ends. A stale request acts like
    one more hand-over of the move.
    """
    facts = run.facts
    assert facts.host, "the server is on a host"
    for port_id in facts.orphans.misbound:
        await check_epoch(run, cloud)
        with suppress(NotFound):  # its owner is deleting it
            here = next((one for one in await cloud.network.bindings(port_id) if one.host == facts.host), None)
            if here and not here.is_connected:
                await check_epoch(run, cloud)
                await cloud.network.create_binding(port_id, facts.host, here.vnic_type, here.profile)
                await check_epoch(run, cloud)
            await cloud.network.activate_binding(port_id, facts.host)


async def let_go_strays(run: Tidying, cloud: Cloud) -> None:
    found = run.facts.orphans
    for attachment_id in found.attachments:
        await cloud.volumes.detach(attachment_id)
    for port_id, host in (*found.bindings, *await _left_bound(run, cloud)):
        await check_epoch(run, cloud)
        await cloud.network.delete_bindings([port_id], host)
    if found.bound:
        await network.unbind_all(run, found.bound, cloud)
    ports = await cloud.network.ports_of([run.subject]) if found.ports else []
    await check_epoch(run, cloud)
    await _release_ports(run.subject, [port for port in ports if port.id in found.ports], cloud)


async def _left_bound(run: Tidying, cloud: Cloud) -> list[tuple[str, HostName]]:
    """List the remaining inactive bindings of rebound ports; none beside a waiting move, which owns them all."""
    facts = run.facts
    given_back = () if facts.beside else facts.orphans.misbound
    return [each for port_id in given_back for each in await orphans.loose_bindings(port_id, facts.host, cloud)]


async def _release_ports(server: ServerId, ports: Sequence[Port], cloud: Cloud) -> None:
    """Delete ports that were created for the server; release those that were attached to it."""
    made = await made_macs(server, cloud) if ports else ()
    for port in ports:
        if port.mac in made:
            await cloud.network.delete_port(port.id)
        else:
            await cloud.network.free_port(port.id, server, port.revision)


async def made_macs(server: ServerId, cloud: Cloud) -> set[str]:
    """Return the MACs of all ports ever created for a server: its runs chose them."""
    runs = await cloud.journal.find(RunFilter(subject=server, sagas=(ATTACH_INTERFACE.name, "create")))
    return {mac for run in runs for mac in _chosen_macs(run.facts) if mac}


def _chosen_macs(facts: object) -> tuple[str, ...]:
    if isinstance(facts, MoveFacts):
        return facts.macs
    return (facts.mac,) if isinstance(facts, InterfaceFacts) else ()


async def idle_again(run: Tidying, cloud: Cloud) -> None:
    await operation.unlock(run, cloud)


CLEANUP: Saga[CleanupFacts] = Saga(
    "tidy",
    1,
    CleanupFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True),
        Step(see_strays),
        Step(give_back_ports, only_if=is_misbound),
    ),
    forward_only=(Step(let_go_strays), Step(idle_again)),
)


async def clean_up(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> bool | None:
    """Start to release late effects, or a nic with a deleted port; return whether there are any. None: unknown now,
    because it is busy or its guest is not as recorded.
    Raises: WrongState; Conflict: it is busy; Unavailable, Refused: a service, or its host, did not answer.
    """
    if server.task_state is not None:
        return None
    if await detach_lost(cloud, engine, requester, server):
        return True
    found = await orphans.see(server, cloud)
    if not found:
        return None if found is None else False
    if (await lookup.find(cloud, server.id)).generation != server.generation:
        return None  # the findings may be those of a move
    await operation.accept(cloud, engine, requester, server, CLEANUP, "tidy", None, STATES)
    return True


async def detach_lost(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> bool:
    """Start to detach a nic with a deleted port; return whether there is one. Raises: as `clean_up`."""
    nic = await lost_nic(server, cloud) if server.vm_state in interfaces.STATES else None
    if nic:
        await interfaces.detach(cloud, engine, requester, server, nic.port_id)
    return nic is not None


async def clean_up_waiting(cloud: Cloud, engine: Engine, requester: Requester, move: Run) -> bool:
    """Start to rebind misbound ports while a move waits for its verdict; return whether there are any.
    Raises: WrongState; Conflict: a verdict or another operation is in progress; NotFound; Unavailable.
    """
    server = await lookup.find(cloud, move.subject)
    if not await orphans.find_misbound(server, cloud):
        return False
    await operation.accept(cloud, engine, requester, server, CLEANUP, "tidy", None, ("resized",), beside=move.id)
    return True


async def clean_up_after_delete(server: ServerId, cloud: Cloud) -> bool:
    """Release late effects for a deleted server; return whether there were any."""
    creates = await cloud.journal.find(RunFilter(subject=server, sagas=("create",)))
    return any([await _clean_up_after(create, cloud) for create in moves_of(creates)])


async def _clean_up_after(create: Move, cloud: Cloud) -> bool:
    if create.state == "undone":
        return await _clean_up_after_create(create, cloud)
    if not await is_ended(cloud, create.subject):
        return False  # not deleted, whatever other sources say: prove reports it
    ports, held = await _left_behind(create, cloud)
    for one in held:
        await cloud.volumes.detach(one.id)
    await _release_ports(create.subject, ports, cloud)
    known = {device.volume_id for device in create.facts.volumes}  # its owner may have chosen to keep those
    made = await cloud.volumes.made(create.facts.owner.project, volumes.marks(create))
    late = [volume for volume in made if volume.id not in known]
    for volume in late:
        await cloud.volumes.delete_volume(volume.id)
    return bool(held or ports or late)


async def _left_behind(create: Move, cloud: Cloud) -> tuple[list[Port], list[Attachment]]:
    """Return the ports and attachments of a server that is gone, without the claims of others."""
    there = own_ports(await cloud.network.ports_of([create.subject]), [create.facts.owner.project])
    held = await cloud.volumes.attachments(create.subject)
    return await without_claims(create.subject, there, held, (), cloud)


async def _clean_up_after_create(create: Move, cloud: Cloud) -> bool:
    made = await cloud.volumes.made(create.facts.owner.project, volumes.marks(create))
    ports, held = await _left_behind(create, cloud)
    await network.unmake_ports(create, cloud)
    await volumes.unmake_volumes(create, cloud)
    return bool(made or held or ports)
