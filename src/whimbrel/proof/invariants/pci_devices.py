"""I8: a PCI device of a host has one owner: an existing guest that requested it."""

from collections import Counter
from collections.abc import Iterator

from whimbrel.domain.errors import Invalid
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.pci import ALIAS, DIRECT, HeldDevice, flavor_requests
from whimbrel.domain.server import Server
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation

LIVING = ("active", "paused", "suspended", "stopped", "resized", "rescued")


def count(seen: ServerEvidence) -> int:
    return len(seen.devices)


def as_asked(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    yield from one_owner(seen, snapshot)
    if seen.home and seen.home.vm_state in LIVING:
        yield from _as_many(seen, seen.home, snapshot)


def one_owner(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    if seen.record is None and (seen.is_alive or seen.records):
        return  # its record or entry is lost, which is reported separately
    due = [(seen.record.host, seen.key) if seen.record else None, seen.way_back]
    for host, one in seen.devices:
        if one.holder is None or (host, one.holder) in due:
            continue
        if seen.runs and not seen.waiting and seen.is_explained(host, one.holder):
            continue  # the run may hold devices on two hosts, and releases them itself
        sentence = f"device {one.device.address} of {host} is held for a guest of server {seen.id} that is not there"
        yield Violation(invariant="I8", kind=Kind.LEAKED_DEVICE, subject=seen.id, about=f"{host}/{one.holder.slot}",
                        host=host, sentence=sentence, evidence=_evidence(one, one.holder))  # fmt: skip


def _as_many(seen: ServerEvidence, record: Server, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Check that the guest holds the devices that flavor and ports request, and has no others on its host."""
    mine = [one for host, one in seen.devices if (host, one.holder) == (record.host, seen.key)]
    held = Counter(one.request or "" for one in mine)
    due = _asked(record, snapshot)
    if due is not None and held != due:
        yield _differs(seen, record, "devices", f"holds devices for {_list(held)}, and asks for {_list(due)}",
                       {"held": dict(held), "asked": dict(due)})  # fmt: skip
    guest = seen.guest(record.host, seen.key)
    has = set(guest.pci) - {one.device.address for one in mine} if guest else set()
    if has:
        foreign = sorted(has)
        yield _differs(seen, record, "foreign", f"has the devices {', '.join(foreign)}, which it does not hold",
                       {"foreign": foreign})  # fmt: skip


def _asked(record: Server, snapshot: CloudSnapshot) -> Counter[str] | None:
    """Count the requested devices by request; None: unknown, because an alias is not defined any more."""
    asked = Counter(nic.port_id for nic in record.nics if nic.vnic_type == DIRECT)
    try:
        of_flavor = flavor_requests(record.flavor.extra_specs.get(ALIAS, ""), snapshot.aliases)
    except Invalid:
        return None
    return asked + Counter({request.id: request.count for request in of_flavor})


def _list(counted: Counter[str]) -> str:
    return ", ".join(f"{name} x{number}" for name, number in sorted(counted.items())) or "nothing"


def _differs(seen: ServerEvidence, record: Server, about: str, what: str, evidence: dict[str, object]) -> Violation:
    return Violation(invariant="I8", kind=Kind.DEVICES_DIFFER, subject=seen.id, about=about, host=record.host,
                     sentence=f"the guest of server {seen.id} on {record.host} {what}", evidence=evidence)  # fmt: skip


def _evidence(one: HeldDevice, holder: GuestKey) -> dict[str, str | None]:
    return {"address": one.device.address, "slot": holder.slot, "request": one.request}
