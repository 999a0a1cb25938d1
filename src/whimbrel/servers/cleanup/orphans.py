"""Orphans: network and volume resources of a server that its record does not name and no guest uses.

Invariant: nothing that a guest uses or may use is an orphan. The record may be old, if its cell was restored from a
backup: so there are no orphans unless the server's guest matches its record. Prove reports the rest.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from whimbrel.domain.errors import NotFound
from whimbrel.domain.guest import Guest, GuestKey
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves.evacuate import EVACUATE
from whimbrel.moves.facts import moves_of
from whimbrel.moves.live_migrate import LIVE_MIGRATE
from whimbrel.moves.steps.shelved import OFFLOADED
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.network import Port
from whimbrel.ports.services.volumes import Attachment
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.invariants.guests import stands_as_recorded
from whimbrel.proof.volume_migrations import migrated_volume
from whimbrel.servers.devices import own_devices


class Orphans(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"misbound": "cut_off"}):
    attachments: tuple[str, ...] = ()
    bindings: tuple[tuple[str, HostName], ...] = ()  # (port, host)
    ports: tuple[str, ...] = ()
    misbound: tuple[str, ...] = ()  # active on another host, or cleared, and bound on the server's host
    bound: tuple[str, ...] = ()  # of a server without a host: bound to one that has no guest of it

    def __bool__(self) -> bool:
        return bool(self.attachments or self.bindings or self.ports or self.misbound or self.bound)


async def see(record: Server, cloud: Cloud) -> Orphans | None:
    """Read a server's orphans. None: it is unknown what its guests use, as they are not as recorded.
    Raises: Unavailable, Refused: a service failed, or the server's host, the only source of what its guests use.
    """
    attachments = await own_devices.attachments_of(record, cloud)
    ports = await own_devices.ports_of(record, cloud)
    bindings = [each for port in ports for each in await loose_bindings(port.id, record.host, cloud)]
    if record.vm_state == OFFLOADED:
        return await _of_offloaded(record, attachments, ports, bindings, cloud) or None
    misbound = await _misbound(record, ports, cloud)
    if not (bindings or misbound or _unnamed(record, attachments, ports)):
        return Orphans()
    if record.cell is None or record.host is None:
        return None
    guests = await cloud.agent(record.cell, record.host).guests()
    own = next((guest for guest in guests if _stands(guest, record)), None)
    if own is None:
        return None
    return Orphans(
        attachments=tuple(await _attachments(record, attachments, guests, cloud)),
        bindings=tuple(bindings),
        ports=tuple(_ports(record, ports, guests)),
        misbound=tuple(port for port in misbound if port in own.ports),
    )


async def _of_offloaded(
    record: Server,
    attachments: Sequence[Attachment],
    ports: Sequence[Port],
    bindings: Sequence[tuple[str, HostName]],
    cloud: Cloud,
) -> Orphans:
    """Return the orphans of a server that has no guest, as far as the hosts of its ports confirm that."""
    named = {nic.port_id for nic in record.nics}
    return Orphans(
        attachments=tuple(await _attachments(record, attachments, (), cloud)),
        bindings=tuple(bindings),
        ports=tuple(_ports(record, ports, ())),
        bound=tuple([port.id for port in ports if port.id in named and await _has_no_guest(port.host, record, cloud)]),
    )


async def _has_no_guest(name: str, record: Server, cloud: Cloud) -> bool:
    """Check whether a known host of this name has no guest of the server. Raises: Unavailable, Refused: its agent."""
    fleet = await cloud.fleets.now() if name else None
    if fleet is None or name not in fleet.row:
        return False
    host = fleet.hosts[fleet.row[HostName(name)]]
    guests = await cloud.agent(host.cell, host.name).guests()
    return all(guest.key.server != record.id for guest in guests)


async def find_misbound(record: Server, cloud: Cloud) -> Orphans:
    """Return only the ports that are active elsewhere and can be activated here: the rest belongs to the move."""
    ports = await own_devices.ports_of(record, cloud, with_requests=False)
    return Orphans(misbound=tuple(await _misbound(record, ports, cloud)))


async def loose_bindings(port_id: str, but: HostName | None, cloud: Cloud) -> list[tuple[str, HostName]]:
    """List the inactive bindings of a port on other hosts as (port, host); none if the port is deleted."""
    with suppress(NotFound):  # its owner is deleting it
        there = await cloud.network.bindings(port_id)
        return [(port_id, binding.host) for binding in there if not binding.is_active and binding.host != but]
    return []


def _unnamed(record: Server, attachments: Sequence[Attachment], ports: Sequence[Port]) -> bool:
    named = {nic.port_id for nic in record.nics} | {device.attachment_id for device in record.volumes}
    return not named.issuperset([one.id for one in attachments] + [port.id for port in ports])


def _stands(guest: Guest, record: Server) -> bool:
    """Check whether it is the recorded guest and has the recorded power state."""
    is_own = record.slot is not None and guest.key == GuestKey(record.id, record.slot)
    return is_own and stands_as_recorded(guest, record)


async def _misbound(record: Server, ports: Sequence[Port], cloud: Cloud) -> list[str]:
    """List its ports that are active elsewhere, or connected nowhere, and can be activated on its host."""
    named = {nic.port_id for nic in record.nics}
    not_here = [one.id for one in ports if one.id in named and not (one.host == record.host and one.is_connected)]
    return [port for port in not_here if await _is_bound(port, record.host, cloud)]


async def _is_bound(port_id: str, host: HostName | None, cloud: Cloud) -> bool:
    with suppress(NotFound):  # its owner is deleting it
        return any(binding.host == host for binding in await cloud.network.bindings(port_id))
    return False


async def _attachments(record: Server, there: Sequence[Attachment], guests: Sequence[Guest], cloud: Cloud) -> list[str]:
    """List attachments of volumes that its guests do not use, or use by another attachment.

    They are unconnected; or connected and never completed, by a stale request of a live migration or an evacuation,
    while no host to which the server was moved so has a guest of it.
    """
    known = {device.attachment_id for device in record.volumes}
    by_another = {one.volume_id for one in there if one.id in known}
    used = {volume for guest in guests if guest.key.server == record.id for volume in guest.volumes} - by_another
    unused = [one for one in there if one.id not in known and one.volume_id not in used]
    unused = [one for one in unused if not await migrated_volume(one, cloud)]
    connected = [one.id for one in unused if one.status == "attaching"]
    if connected and not await _is_of_former_move(record, cloud):
        connected = []
    return [one.id for one in unused if one.status == "reserved"] + connected


async def _is_of_former_move(record: Server, cloud: Cloud) -> bool:
    """Check whether there were such moves, and none of their targets but its own host has a guest of it.

    Raises: Unavailable, Refused: the agent of a target.
    """
    moves = moves_of(await cloud.journal.find(RunFilter(subject=record.id, sagas=(LIVE_MIGRATE.name, EVACUATE.name))))
    tried = {host for move in moves for host in move.facts.tried}
    targets = (tried | {move.facts.target.host for move in moves if move.facts.target}) - {record.host}
    return bool(moves) and all([await _has_no_guest(host, record, cloud) for host in sorted(targets)])


def _ports(record: Server, there: Sequence[Port], guests: Sequence[Guest]) -> list[str]:
    """List ports that no guest of its host has and that are not bound on another host."""
    known = {nic.port_id for nic in record.nics} | {port for guest in guests for port in guest.ports}
    return [port.id for port in there if port.id not in known and port.host in ("", record.host)]
