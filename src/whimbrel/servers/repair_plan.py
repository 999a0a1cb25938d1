"""What is done about what does not hold of a server, in words and as mends; and what is left, and why. Pure.

Law: nothing is destroyed without proof of whose it is: the server stands elsewhere as its record says, or is deleted.
What cannot be decided is left, with a sentence that says what a person can do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import CellName, HostName, Slot
from whimbrel.proof.laws.guests import POWER_OF
from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation

Kind = Literal[
    "adopt_record", "erase_copy", "adopt_guest", "destroy_guest", "claim_due", "release_claim", "bind_port",
    "let_go_binding", "let_go_port", "detach", "release_devices", "book", "delete_image", "unlock", "stand_alone",
]  # fmt: skip


class Mend(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is done. thing: the id of the port, attachment or image."""

    kind: Kind
    sentence: str
    thing: str = ""
    cell: CellName | None = None
    host: HostName | None = None
    slot: Slot | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """left: what nothing is done about, in sentences that say why, and what a person can do."""

    mends: tuple[Mend, ...] = ()
    left: tuple[str, ...] = ()


def plan(stake: Stake, ground: Ground, violations: Sequence[Violation]) -> Plan:
    """Say what is to be done about these violations of one stake."""
    if stake.runs:
        run = stake.runs[0]
        words = f"{run.saga} {run.id} is under way: when it is over, look again"
        return Plan(left=tuple(f"{each.sentence}: {words}" for each in violations))
    mends: list[Mend] = []
    left: list[str] = []
    for violation in violations:
        said = _OF_KIND.get(violation.kind, _nothing)(stake, ground, violation)
        if isinstance(said, str):
            left.append(f"{violation.sentence}: {said}")
        else:
            mends += [mend for mend in said if mend not in mends]
    return Plan(mends=tuple(mends), left=tuple(left))


Said = Sequence[Mend] | str
Decide = Callable[[Stake, Ground, Violation], Said]


# Guests


def _stray_guest(stake: Stake, ground: Ground, violation: Violation) -> Said:
    slot = Slot(violation.about.partition("/")[2])
    destroy = Mend(
        kind="destroy_guest",
        host=violation.host,
        slot=slot,
        sentence=f"destroy the guest of server {stake.id} on {violation.host}",
        cell=ground.hosts[violation.host].cell if violation.host else None,
    )
    if stake.is_alive:
        if stands_as_recorded(stake):
            assert stake.record
            return [_because(destroy, f"it stands on {stake.record.host} as its record says")]
        adopted = adoptable(stake, ground)
        return [] if adopted else "which of its guests is the right one nobody can say; nothing is destroyed"
    if stake.entry is not None:
        return [_because(destroy, "the server is deleted")]
    return "nobody knows whose it is: the directory has never had such a server; nothing is destroyed"


def _because(mend: Mend, why: str) -> Mend:
    return msgspec.structs.replace(mend, sentence=f"{mend.sentence}: {why}")


def stands_as_recorded(stake: Stake) -> bool:
    """Tell whether the guest that the record says was seen whole, and runs or not as the record says."""
    guest = stake.guest(stake.record.host, stake.key) if stake.record else None
    if stake.record is None or guest is None or not is_whole(guest):
        return False
    return guest.power == POWER_OF.get(stake.record.vm_state, guest.power)


def is_whole(guest: Guest) -> bool:
    return guest.has_disk and guest.power != "reserved"


def adoptable(stake: Stake, ground: Ground) -> Mend | None:
    """Give the one guest that there is, where the record says that it is elsewhere; None: it is not so simple."""
    home, strays = stake.home, list(stake.strays())
    if home is None or len(strays) != 1 or home.volumes or home.host in ground.silent:
        return None
    if stake.guest(home.host, stake.key) is not None or stake.devices:
        return None
    [(host, guest)] = strays
    if not is_whole(guest) or guest.vcpus != home.flavor.vcpus or ground.hosts[host].cell != home.cell:
        return None
    sentence = f"have the record of server {stake.id} say {host}, where its only guest is"
    return Mend(kind="adopt_guest", host=host, slot=guest.key.slot, cell=home.cell, sentence=sentence)


def _missing_guest(stake: Stake, ground: Ground, violation: Violation) -> Said:
    adopted = adoptable(stake, ground)
    if adopted is None:
        return "its guest is nowhere: have its disk back on its host, or delete the server"
    claim = Mend(kind="claim_due", sentence=f"have server {stake.id} hold what it needs on {adopted.host}")
    return [adopted, claim, *_bound_at(stake, adopted.host)]


def _bound_at(stake: Stake, host: HostName | None) -> Iterator[Mend]:
    nics = {nic.port_id for nic in stake.record.nics} if stake.record else set()
    for port in stake.ports:
        if port.id in nics and port.host != host:
            yield Mend(kind="bind_port", thing=port.id, host=host, sentence=f"bind port {port.id} to {host}")


# Records


def _no_entry(stake: Stake, ground: Ground, violation: Violation) -> Said:
    if len(stake.records) != 1:
        return "several cells have a record of it: which is the right one nobody can say"
    [(cell, record)] = stake.records.items()
    guest = next((g for host, g in stake.guests if (host, g.key.slot) == (record.host, record.slot)), None)
    if guest is None or not is_whole(guest):
        return "its guest is not there, so that it may have been deleted: have the directory's row back from a backup"
    return [Mend(kind="adopt_record", cell=cell, sentence=f"enter server {stake.id} of cell {cell} into the directory"
                 f": its guest is on {record.host}")]  # fmt: skip


def _stray_record(stake: Stake, ground: Ground, violation: Violation) -> Said:
    if stake.is_alive and stake.record is None:
        return "the cell that the directory names has no record of it, so this may be the only one"
    cell = CellName(violation.about)
    return [Mend(kind="erase_copy", cell=cell, sentence=f"erase the record of server {stake.id} in cell {cell}")]


# What is held


def _claim_due(stake: Stake, ground: Ground, violation: Violation) -> Said:
    if stake.record is None or stake.record.host is None:
        return [_release(stake)]
    if violation.host and (adopted := adoptable(stake, ground)):
        return [Mend(kind="claim_due", sentence=f"have server {stake.id} hold what it needs on {adopted.host}")]
    due = "; ".join(violation.evidence.get("due", ()))
    return [Mend(kind="claim_due", sentence=f"have server {stake.id} hold {due}, and nothing else")]


def _release_claim(stake: Stake, ground: Ground, violation: Violation) -> Said:
    if stake.records or (stake.guests and stake.entry is None):  # guests of a deleted one are destroyed before
        return "there is a guest or a record of it: what that is has to be decided first"
    return [_release(stake)]


def _release(stake: Stake) -> Mend:
    return Mend(kind="release_claim", sentence=f"have {stake.id} hold nothing in Placement")


def _bind_port(stake: Stake, ground: Ground, violation: Violation) -> Said:
    port = next(port for port in stake.ports if port.id == violation.about)
    if stake.home is None:
        return "its server lives nowhere"
    if port.requests or port.vnic_type != "normal":
        return "what serves it has to change too: move the server, or detach the port and attach it again"
    sentence = f"bind port {port.id} to {stake.home.host}"
    return [Mend(kind="bind_port", thing=port.id, host=stake.home.host, sentence=sentence)]


def _let_go_binding(stake: Stake, ground: Ground, violation: Violation) -> Said:
    port_id, _, host = violation.about.partition("/")
    return [Mend(kind="let_go_binding", thing=port_id, host=HostName(host),
                 sentence=f"delete the binding of port {port_id} to {host}")]  # fmt: skip


def _let_go_port(stake: Stake, ground: Ground, violation: Violation) -> Said:
    sentence = f"let go port {violation.about}: delete it if it was made for the server, else make it nobody's"
    return [Mend(kind="let_go_port", thing=violation.about, sentence=sentence)]


def _detach(stake: Stake, ground: Ground, violation: Violation) -> Said:
    return [Mend(kind="detach", thing=violation.about, sentence=f"delete attachment {violation.about}")]


def _release_devices(stake: Stake, ground: Ground, violation: Violation) -> Said:
    host, _, slot = violation.about.partition("/")
    is_decided = stands_as_recorded(stake) if stake.is_alive else stake.entry is not None
    if not is_decided and any((at, guest.key.slot) == (host, slot) for at, guest in stake.guests):
        return "the guest that has it is still there"
    cell = ground.hosts[HostName(host)].cell
    return [Mend(kind="release_devices", host=HostName(host), slot=Slot(slot), cell=cell,
                 sentence=f"have guest {slot} of server {stake.id} hold no device of {host}")]  # fmt: skip


def _book(stake: Stake, ground: Ground, violation: Violation) -> Said:
    cpus, memory = violation.evidence["flavor"]
    return [Mend(kind="book", sentence=f"count server {stake.id} for {cpus} cpus and {memory} MiB")]


def _delete_image(stake: Stake, ground: Ground, violation: Violation) -> Said:
    return [Mend(kind="delete_image", thing=violation.about, sentence=f"delete image {violation.about}")]


# What is left


def _unlock(stake: Stake, ground: Ground, violation: Violation) -> Said:
    return [Mend(kind="unlock", thing=violation.about, sentence=f"unlock server {stake.id}, and show no task of it")]


def _stand_alone(stake: Stake, ground: Ground, violation: Violation) -> Said:
    return [Mend(kind="stand_alone", sentence=f"have the record of server {stake.id} stand as the only one")]


def _nothing(stake: Stake, ground: Ground, violation: Violation) -> Said:
    return _LEFT.get(violation.kind, "nothing is known that could be done about it")


def _by_other_mends(stake: Stake, ground: Ground, violation: Violation) -> Said:
    """It is wrong for as long as there is a guest too many, and that is said by itself."""
    return []


_LEFT: Mapping[str, str] = {
    "guest_differs": "start or stop the server, or move it",
    "no_record": "have the cell's row back from a backup",
    "no_host": "have the host back, or delete the server",
    "lost_port": "detach it from the server",
    "lost_attachment": "detach the volume from the server and attach it again",
    "volumes_of_guest": "reboot the server hard, or detach the volume and attach it again",
    "over_capacity": "move servers away, or have Placement know that there is more",
    "stands_still": "mend what it says, then: whimbrel move retry",
    "zone_differs": "put the host back into that zone, or move the server there",
    "broken_rule": "move a server of the group",
    "places_differ": "move a server of the group",
}

_OF_KIND: Mapping[str, Decide] = {
    "runs_twice": _by_other_mends,
    "stray_guest": _stray_guest,
    "missing_guest": _missing_guest,
    "no_entry": _no_entry,
    "stray_record": _stray_record,
    "missing_claim": _claim_due,
    "wrong_claim": _claim_due,
    "leaked_claim": _release_claim,
    "unbound_port": _bind_port,
    "port_elsewhere": _bind_port,
    "stray_binding": _let_go_binding,
    "stray_port": _let_go_port,
    "port_of_nobody": _let_go_port,
    "stray_attachment": _detach,
    "attachment_of_nobody": _detach,
    "leaked_device": _release_devices,
    "wrong_booking": _book,
    "leaked_image": _delete_image,
    "leaked_lock": _unlock,
    "stray_standing": _stand_alone,
}


OF_OTHERS = frozenset({"over_capacity", "broken_rule", "places_differ", "fallen_epoch", "stands_still", "no_reason"})
"""What does not hold of providers, groups and runs, and not of a server."""


def of_others(violation: Violation) -> str:
    """Say what a person can do about what is of no server."""
    return f"{violation.sentence}: {_LEFT.get(violation.kind, 'nothing is known that could be done about it')}"
