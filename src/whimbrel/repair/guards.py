"""Guards: why an action of a repair is refused (in use, host unreachable, owner ambiguous). Pure.

Invariant: only unused resources are released. Each guard returns the reason for a refusal, or None.
"""

from collections.abc import Collection, Iterable

from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.server import Server
from whimbrel.proof.evidence import CloudSnapshot, Seen, ServerEvidence
from whimbrel.proof.invariants import guests

VERDICT = "resized"
"""The state of a server that waits for a verdict on its move."""

UNSETTLED = (VERDICT, "building", "shelved_offloaded")
"""States that a server with a guest has only during an operation."""

FIRST = "a guest or a record of it exists: decide first what becomes of that"


def undecided(seen: ServerEvidence, snapshot: CloudSnapshot) -> str | None:
    """Return why no action is allowed under this id."""
    if seen.unknown_lock:
        return (
            f"run {seen.unknown_lock} locks it, which the journal does not have: it may be a move. Restore the"
            " journal's row from a backup"
        )
    if seen.entry and not seen.is_alive and not seen.is_ended:
        return (
            "it is deleted in the directory, and the journal has no deletion: restore the directory's row from a"
            " backup, or the journal's"
        )
    if seen.is_lost and not seen.records:
        return (
            "the journal has its creation and no deletion: restore the rows of the directory and of its cell from"
            " backups, or release by hand what is held for it"
        )
    record, entry = seen.record, seen.entry
    if record is None or entry is None or entry.cell is None:
        return None
    if not is_of(record, entry.cell, snapshot):
        return (
            f"the directory has it in cell {entry.cell}, and the record there says cell {record.cell}, host"
            f" {record.host}: correct the directory's row to the cell of its guest"
        )
    if record.vm_state == VERDICT:
        begin = "it waits for a verdict, and the journal has no move of it: restore the journal's row from a backup"
        return f"{begin}; or {words}" if (words := choice(seen)) else begin
    return None


def choice(seen: ServerEvidence) -> str | None:
    """Return what a person decides about a server with several whole guests, as of a move that the journal has lost."""
    whole = [(host, guest) for host, guest in seen.guests if guests.is_whole(guest)]
    if len(whole) < 2:
        return None
    named = [f"{host} ({guest.power}, {guest.vcpus} cpus, {guest.memory_mib} MiB, guest {guest.key.slot})"
             for host, guest in whole]  # fmt: skip
    live = [host for host, guest in whole if guest.is_live]
    newest = f" The one on {live[0]} runs: it probably has the newest data." if len(live) == 1 else ""
    return (
        f"decide which of its whole guests to keep: {' or '.join(named)}.{newest} Do not start or stop the server"
        " before. Copy the disks of the other one, remove it with the hypervisor's own tool, and repair again: the"
        " record is then rewritten from the guest that remains"
    )


def is_of(record: Server, cell: CellName, snapshot: CloudSnapshot) -> bool:
    """Check whether a record and its host belong to the cell that has the record."""
    host = snapshot.hosts.get(record.host) if record.host else None
    return record.cell == cell and (host is None or host.cell == cell)


# Observed guests


def stands_as_recorded(seen: ServerEvidence) -> bool:
    """Check whether the recorded guest was found whole, with the recorded power state."""
    guest = seen.guest(seen.record.host, seen.key) if seen.record else None
    return bool(seen.record and guest and guests.stands_as_recorded(guest, seen.record))


def doomed(seen: ServerEvidence) -> list[Seen]:
    """Return the guests that a repair destroys before it releases their resources."""
    if seen.is_alive:
        return list(seen.orphans()) if stands_as_recorded(seen) else []
    return list(seen.guests) if seen.is_ended else []


def left(seen: ServerEvidence) -> list[Seen]:
    """Return the guests that a repair does not destroy."""
    gone = doomed(seen)
    return [one for one in seen.guests if one not in gone]


def user(thing: str, seen: ServerEvidence, snapshot: CloudSnapshot, but: Seen | None = None) -> str | None:
    """Return the guest that uses a port or a volume and is not destroyed before. but: a guest that does not count."""
    gone = [*doomed(seen), *([but] if but else [])]
    for owner, found in snapshot.guests.items():
        for each in found:
            host, guest = each
            if thing in (*guest.ports, *guest.volumes) and not (owner == seen.id and each in gone):
                return f"the guest of server {owner} on {host} uses it"
    return None


# Unreachable hosts and cells


def not_checked(snapshot: CloudSnapshot, hosts: Collection[str | None]) -> str | None:
    """Return which of these hosts are unreachable."""
    return _cannot_be_told(f"host {host}" for host in sorted(snapshot.unreachable) if host in hosts)


def not_checked_of(seen: ServerEvidence, snapshot: CloudSnapshot) -> str | None:
    """Return which unreachable hosts or cells may have a guest of it.

    These are the hosts of its cell, or all hosts and cells if its cell is unknown.
    """
    cell = seen.entry.cell if seen.entry else None
    if cell:
        return not_checked(snapshot, [name for name, host in snapshot.hosts.items() if host.cell == cell])
    return not_checked(snapshot, snapshot.hosts.keys()) or _cannot_be_told(
        f"cell {name}" for name in sorted(snapshot.unreachable_cells)
    )


def for_others(seen: ServerEvidence) -> str | None:
    """Return the guest that may use what is held under an unknown id."""
    if not seen.uncovered:
        return None
    host, guest = seen.uncovered[0]
    return f"the guest of server {guest.key.server} on {host} has no claim, so this may be its"


def forgotten_port(seen: ServerEvidence, guest: Guest, named: Collection[str]) -> str | None:
    """Return a reason if its guest has a port that its record does not name and that may request resources.

    named: the ports of the record. A port of this server without requests changes no claim, and neither does one that
    does not exist any more.
    """
    plain = {port.id for port in seen.ports if not port.requests and port.vnic_type == "normal"}
    forgotten = set(guest.ports).difference(named, plain, seen.lost_ports)
    if not forgotten:
        return None
    return (
        f"its guest has port {min(forgotten)}, which its record does not name: unplug it from the guest with the"
        " hypervisor's own tool and repair again; then attach the port to the server"
    )


def unserved_port(seen: ServerEvidence, snapshot: CloudSnapshot) -> str | None:
    """Return which of its ports does not name its provider, so that the due claim is unknown."""
    for port in seen.named_ports:
        served = port.profile.get("allocation") or {}
        if any(served.get(request.id) not in snapshot.roots for request in port.requests):
            return f"port {port.id} does not name the provider that serves it: whimbrel heal ports"
    return None


def _cannot_be_told(names: Iterable[str]) -> str | None:
    listed = list(names)
    if not listed:
        return None
    return f"unknown while {', '.join(listed)} {'does' if len(listed) == 1 else 'do'} not answer"


def in_use(seen: ServerEvidence, snapshot: CloudSnapshot) -> str | None:
    """Return why a guest of it may use its resources."""
    if seen.is_alive and stands_as_recorded(seen):
        return None
    if not seen.is_alive and (left(seen) or (seen.records and not seen.is_ended)):
        return FIRST
    return not_checked_of(seen, snapshot)


def claim_in_use(seen: ServerEvidence, snapshot: CloudSnapshot, kept: HostName | None = None) -> str | None:
    """Return why a guest of it may use its claim, on a host other than `kept` or on an unreachable one."""
    trees = {snapshot.roots.get(provider, provider) for provider, _ in seen.own}
    hosts = {name for name, host in snapshot.hosts.items() if host.id in trees}
    if there := [host for host, _ in left(seen) if host in hosts and host != kept]:
        return f"a guest of it is on {there[0]}: decide first what becomes of that"
    if snapshot.unreachable_cells and trees - {host.id for host in snapshot.hosts.values()}:
        return _cannot_be_told(f"cell {name}" for name in sorted(snapshot.unreachable_cells))
    return not_checked(snapshot, hosts)
