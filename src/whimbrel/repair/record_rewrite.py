"""Rewrite a record that is older than the hosts from its only whole guest. Pure.

Invariant: only if exactly one whole guest was found, every host and cell answered, and no run is open. Flavor and
volumes are not guessed: they are those of the journal's last move if that one made the guest, else those of the
record if they fit, else the only ones that fit.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import CellName, HostName, Slot
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.domain.server_states import POWER_OF
from whimbrel.moves.facts import Move
from whimbrel.moves.steps.volumes import devices_at_target
from whimbrel.ports.services.volumes import VolumeUse
from whimbrel.proof.evidence import CloudSnapshot, Seen, ServerEvidence
from whimbrel.proof.invariants.guests import is_whole
from whimbrel.repair import guards

_Row = TypeVar("_Row")


class Settled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of the new record. cell: the cell that gets it."""

    cell: CellName
    host: HostName
    slot: Slot
    zone: str | None
    vm_state: str
    flavor: Flavor
    volumes: tuple[BlockDevice, ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        return msgspec.structs.asdict(self)


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """Other sources. last: the newest move or creation that is over. uses: of the guest's volumes."""

    last: Move | None = None
    flavors: Sequence[Flavor] = ()
    uses: Mapping[str, VolumeUse] = {}


# Conditions


def record_of(seen: ServerEvidence) -> tuple[CellName, Server] | None:
    """Return the cell and the record to rewrite, or None if there is none, or more than one may be right. It is the
    one that the directory names, or the only one. If the named one is frozen, others are copies of it.
    """
    if not seen.is_alive or seen.entry is None:
        return None
    cells = _candidates(seen, seen.entry.cell)
    if len(cells) != 1:
        return None
    [cell] = cells
    record = seen.records[cell]
    return (cell, record) if record.cell == cell else None


def _candidates(seen: ServerEvidence, counting: CellName | None) -> list[CellName]:
    """List the cells with a possibly right record. counting: the cell that the directory names."""
    if counting is None or counting not in seen.records:
        return list(seen.records)
    there = {(host, guest.key.slot) for host, guest in whole_guests(seen)}
    of_guest = [cell for cell, record in seen.records.items() if cell != counting and _place(record) in there]
    is_frozen = seen.holds[counting].standing == "frozen"  # the other one is a copy of it
    return [counting] if is_frozen else [counting, *of_guest]


def _place(record: Server) -> tuple[HostName | None, Slot | None]:
    return record.host, record.slot


def whole_guests(seen: ServerEvidence) -> list[Seen]:
    return [one for one in seen.guests if is_whole(one[1])]


def is_older(seen: ServerEvidence, snapshot: CloudSnapshot) -> bool:
    """Check whether its record, or the directory, disagrees with its only whole guest."""
    found, whole = record_of(seen), whole_guests(seen)
    if found is None or seen.runs or seen.unknown_lock or len(whole) != 1:
        return False
    (cell, record), (host, guest) = found, whole[0]
    assert seen.entry
    is_named = seen.entry.unplaced is None and seen.entry.cell == cell == snapshot.hosts[host].cell
    is_there = _place(record) == (host, guest.key.slot)
    held = {one.id for one in seen.attachments}
    is_attached = all(
        device.host == host and (device.attachment_id in held or device.volume_id in seen.swapped)
        for device in record.volumes
    )
    return not (is_named and is_there and is_attached) or record.vm_state in guards.UNSETTLED


# New record


def settle(seen: ServerEvidence, snapshot: CloudSnapshot, known: Known) -> Settled | str:
    """Return the new fields of an older record, or why they are unknown."""
    found = record_of(seen)
    assert found
    _, record = found
    [(host, guest)] = whole_guests(seen)
    if words := _hindrance(record, seen, snapshot, host, guest):
        return words
    flavor = _flavor(record, host, guest, known)
    if isinstance(flavor, str):
        return flavor
    volumes = _volumes(record, seen, host, guest, known)
    if isinstance(volumes, str):
        return volumes
    return Settled(
        cell=snapshot.hosts[host].cell,
        host=host,
        slot=guest.key.slot,
        zone=snapshot.zones.get(host, record.zone),
        vm_state=_state(record, host, guest),
        flavor=flavor,
        volumes=volumes,
    )


def settled(seen: ServerEvidence, found: Settled, known: Known) -> ServerEvidence:
    """Return the evidence as it is after the record is written."""
    before = record_of(seen)
    assert before
    assert seen.entry
    cell, record = before
    hold = replace(seen.holds[cell], standing="whole", host=found.host, vm_state=found.vm_state)
    return replace(
        seen,
        entry=replace(seen.entry, cell=found.cell, unplaced=None),
        records={**_without(seen.records, cell), found.cell: replace(record, **found.fields)},
        holds={**_without(seen.holds, cell), found.cell: hold},
        uses={device.volume_id: known.uses[device.volume_id] for device in found.volumes},
    )


def _without(rows: Mapping[CellName, _Row], cell: CellName) -> dict[CellName, _Row]:
    return {name: row for name, row in rows.items() if name != cell}


def _hindrance(
    record: Server, seen: ServerEvidence, snapshot: CloudSnapshot, host: HostName, guest: Guest
) -> str | None:
    """Return why the record cannot be rewritten from the guest."""
    assert seen.entry
    if snapshot.unreachable_cells:
        return f"unknown while cell {', '.join(sorted(snapshot.unreachable_cells))} does not answer"
    if words := guards.not_checked(snapshot, snapshot.hosts.keys()):
        return words
    if any(other.is_live for _, other in seen.guests if other is not guest):
        return "another guest of it runs without a whole disk: check both"
    if record.project_id != seen.entry.project_id:
        return "its record and the directory name different projects"
    named = {nic.port_id for nic in record.nics}
    if words := guards.forgotten_port(seen, guest, named):
        return words
    for port in seen.ports:
        if port.id in named and port.host != host and (port.requests or port.vnic_type != "normal"):
            return f"port {port.id} is served by another host: detach the port and attach it again"
    of_guest = {one.device.address for at, one in seen.devices if (at, one.holder) == (host, guest.key)}
    if not of_guest.issuperset(guest.pci):
        return f"its guest on {host} has devices that are not held for it: restore the cell's rows from a backup"
    return None


def _state(record: Server, host: HostName, guest: Guest) -> str:
    """Return the guest's power state, or the recorded state if it is at its location: a user may have stopped it."""
    is_moved = _place(record) != (host, guest.key.slot)
    if record.vm_state in guards.UNSETTLED or (is_moved and record.vm_state in POWER_OF):
        return next((state for state, power in POWER_OF.items() if power == guest.power), "stopped")
    return record.vm_state


# Flavor


def _flavor(record: Server, host: HostName, guest: Guest, known: Known) -> Flavor | str:
    by_journal = _made(known.last, host, guest)
    for flavor in (by_journal, record.flavor):
        if flavor and _fits(flavor, guest):
            return flavor
    fitting = [flavor for flavor in known.flavors if _fits(flavor, guest)]
    if len(fitting) == 1:
        return fitting[0]
    size = f"{guest.vcpus} cpus, {guest.memory_mib} MiB and {guest.root_gib} GiB"
    names = ", ".join(sorted(flavor.name for flavor in fitting)) or "no flavor"
    return (
        f"its only guest is on {host} and has {size}, which fits {names}: restore the journal's row of its move, or the"
        " cell's row, from a backup"
    )


def _fits(flavor: Flavor, guest: Guest) -> bool:
    """Compare sizes. A hypervisor reports 0 if it does not know the size of the root disk."""
    has_ephemeral = not guest.disks or bool(flavor.ephemeral_gib) == ("ephemeral" in guest.disks)
    same_root = "root" not in guest.disks or guest.root_gib in (0, flavor.root_gib)
    return (flavor.vcpus, flavor.memory_mib) == (guest.vcpus, guest.memory_mib) and same_root and has_ephemeral


def _made(last: Move | None, host: HostName, guest: Guest) -> Flavor | None:
    """Return the flavor of the guest according to the last move, if the guest is the one that the move left."""
    if last is None:
        return None
    facts = last.facts
    location, flavor = (facts.target, facts.new_flavor) if last.state == "done" else (facts.source, facts.old_flavor)
    return flavor if location and (location.host, location.slot) == (host, guest.key.slot) else None


# Volumes


def _volumes(
    record: Server, seen: ServerEvidence, host: HostName, guest: Guest, known: Known
) -> tuple[BlockDevice, ...] | str:
    devices = {device.volume_id: device for device in (*_of_move(known.last, host, guest), *record.volumes)}
    if lacking := [device.volume_id for device in record.volumes if device.volume_id not in guest.volumes]:
        return f"its guest on {host} does not have volume {lacking[0]}, as recorded: attach it there, or detach it"
    found = []
    for volume in guest.volumes:
        if volume not in devices:
            return f"its guest on {host} has volume {volume}, which no record describes: detach it from the guest"
        attachment = _attachment(devices[volume], seen, host, known)
        if attachment is None:
            return f"volume {volume} does not have exactly one attachment on {host}, where its only guest has it"
        found.append(replace(devices[volume], attachment_id=attachment, host=host))
    order = list(devices)
    return tuple(sorted(found, key=lambda device: order.index(device.volume_id)))


def _of_move(last: Move | None, host: HostName, guest: Guest) -> tuple[BlockDevice, ...]:
    if last is None or _made(last, host, guest) is None:
        return ()
    return devices_at_target(last.facts) if last.state == "done" else last.facts.volumes


def _attachment(device: BlockDevice, seen: ServerEvidence, host: HostName, known: Known) -> str | None:
    """Return the attachment that connects the volume to the guest on this host."""
    use = known.uses.get(device.volume_id)
    mine = [one.id for one in seen.attachments if one.volume_id == device.volume_id and one.status == "attached"]
    there = [one for one in mine if use and use.hosts.get(one) == host]
    if device.attachment_id in there:
        return device.attachment_id
    return there[0] if len(there) == 1 else None
