"""I1: a server has one guest, on the host of its record, and at most one running guest."""

from collections.abc import Iterator

from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.domain.server_states import POWER_OF
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence, shown
from whimbrel.proof.violation import Kind, Violation


def count(seen: ServerEvidence) -> int:
    return len(seen.guests) + (seen.home is not None)


def one_guest(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    yield from runs_once(seen, snapshot)
    if seen.home:
        yield from _is_there(seen, snapshot)
    if seen.way_back:
        yield from _is_kept(seen, snapshot)
    if seen.is_still or seen.is_unknown:
        yield from _no_other(seen)
    else:
        yield from of_a_step(seen, snapshot)


def runs_once(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Holds at every instant, whatever run is open."""
    running = [one for one in seen.guests if one[1].is_live]
    if len(running) > 1:
        hosts = " and on ".join(sorted(host for host, _ in running))
        sentence = f"server {seen.id} runs {len(running)} times: on {hosts}"
        yield Violation(invariant="I1", kind=Kind.RUNS_TWICE, subject=seen.id, sentence=sentence,
                        evidence={"guests": [shown(one) for one in running]})  # fmt: skip


def _is_there(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    record = seen.home
    assert record
    if record.host in snapshot.unreachable or record.host not in snapshot.hosts:
        return  # an unreachable host is reported once, as a host
    guest = seen.guest(record.host, seen.key)
    evidence = {"record": {"host": record.host, "slot": record.slot, "vm_state": record.vm_state},
                "guests": [shown(one) for one in seen.guests]}  # fmt: skip
    if guest is None or not is_whole(guest):
        sentence = f"server {seen.id} has no whole guest on {record.host}, where its record says that it is"
        yield Violation(invariant="I1", kind=Kind.MISSING_GUEST, subject=seen.id, host=record.host, sentence=sentence,
                        evidence=evidence)  # fmt: skip
        return
    for difference in _differences(seen, guest):
        yield Violation(invariant="I1", kind=Kind.GUEST_DIFFERS, subject=seen.id, about=difference[0], host=record.host,
                        sentence=f"the guest of server {seen.id} on {record.host} {difference[1]}",
                        evidence=evidence)  # fmt: skip


def _differences(seen: ServerEvidence, guest: Guest) -> Iterator[tuple[str, str]]:
    record = seen.home
    assert record
    wanted = POWER_OF.get(seen.waiting.facts.was if seen.waiting else record.vm_state)
    if wanted and guest.power != wanted:
        yield "power", f"is {guest.power}, and its record says {record.vm_state}"
    size, due = (guest.vcpus, guest.memory_mib), (record.flavor.vcpus, record.flavor.memory_mib)
    if size != due:
        yield "size", f"has {size[0]} cpus and {size[1]} MiB, and its record says {due[0]} and {due[1]}"


def is_whole(guest: Guest) -> bool:
    return guest.power != "reserved" and guest.has_disk


def stands_as_recorded(guest: Guest, record: Server) -> bool:
    """Check whether the guest of a record is whole and has the recorded power state."""
    return is_whole(guest) and guest.power == POWER_OF.get(record.vm_state, guest.power)


def _is_kept(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Check that the guest that a revert would restore exists: stopped, with its disk."""
    assert seen.way_back
    host, key = seen.way_back
    if host in snapshot.unreachable or host not in snapshot.hosts:
        return
    guest = seen.guest(host, key)
    if guest is None or not is_whole(guest):
        trouble = "has no whole guest there"
    elif guest.power != "stopped":
        trouble = f"the guest there is {guest.power}"
    else:
        return
    yield Violation(invariant="I1", kind=Kind.NO_WAY_BACK, subject=seen.id, about=f"{host}/{key.slot}", host=host,
                    sentence=f"server {seen.id} waits for a verdict and may have to go back to {host}: {trouble}",
                    evidence={"guests": [shown(one) for one in seen.guests]})  # fmt: skip


def of_a_step(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Check that each guest belongs to a step of an open run, or was left behind by an evacuation."""
    for host, guest in seen.guests if seen.runs else ():
        if not (seen.is_explained(host, guest.key) or seen.is_left_behind(host, guest)):
            run = seen.runs[0]
            yield _orphan(seen, host, guest, f"{run.saga} {run.id} has none there")


def _no_other(seen: ServerEvidence) -> Iterator[Violation]:
    for host, guest in seen.orphans():
        if (host, guest.key) == seen.way_back:
            continue
        why = f"its record says {seen.record.host or 'no host'}" if seen.record else "there is no such server"
        yield _orphan(seen, host, guest, why)


def _orphan(seen: ServerEvidence, host: HostName, guest: Guest, why: str) -> Violation:
    sentence = f"a guest of server {seen.id} is on {host} ({guest.power}), and {why}"
    return Violation(invariant="I1", kind=Kind.ORPHAN_GUEST, subject=seen.id, host=host,
                     about=f"{host}/{guest.key.slot}",
                     sentence=sentence, evidence={"guest": shown((host, guest))})  # fmt: skip
