"""I1: a server has one guest, where its record says, and at most one that runs."""

from collections.abc import Iterator

from whimbrel.domain.guest import Guest
from whimbrel.domain.server import Server
from whimbrel.proof.evidence import Ground, Stake, shown
from whimbrel.proof.violation import Violation

POWER_OF = {"active": "running", "stopped": "stopped"}


def count(stake: Stake) -> int:
    return len(stake.guests) + (stake.home is not None)


def one_guest(stake: Stake, ground: Ground) -> Iterator[Violation]:
    yield from runs_once(stake, ground)
    if stake.home:
        yield from _is_there(stake, ground)
    if stake.way_back:
        yield from _is_kept(stake, ground)
    if stake.is_still or stake.is_nobody:
        yield from _no_other(stake)
    else:
        yield from of_a_step(stake, ground)


def runs_once(stake: Stake, ground: Ground) -> Iterator[Violation]:
    """Hold at every instant, whatever is under way."""
    running = [seen for seen in stake.guests if seen[1].power == "running"]
    if len(running) > 1:
        hosts = " and on ".join(sorted(host for host, _ in running))
        sentence = f"server {stake.id} runs {len(running)} times: on {hosts}"
        yield Violation(law="I1", kind="runs_twice", subject=stake.id, sentence=sentence,
                        evidence={"guests": [shown(seen) for seen in running]})  # fmt: skip


def _is_there(stake: Stake, ground: Ground) -> Iterator[Violation]:
    record = stake.home
    assert record
    if record.host in ground.silent or record.host not in ground.hosts:
        return  # that it was not seen is said once, of the host
    guest = stake.guest(record.host, stake.key)
    evidence = {"record": {"host": record.host, "slot": record.slot, "vm_state": record.vm_state},
                "guests": [shown(seen) for seen in stake.guests]}  # fmt: skip
    if guest is None or not is_whole(guest):
        sentence = f"server {stake.id} has no whole guest on {record.host}, where its record says that it is"
        yield Violation(law="I1", kind="missing_guest", subject=stake.id, host=record.host, sentence=sentence,
                        evidence=evidence)  # fmt: skip
        return
    for difference in _differences(stake, guest):
        yield Violation(law="I1", kind="guest_differs", subject=stake.id, about=difference[0], host=record.host,
                        sentence=f"the guest of server {stake.id} on {record.host} {difference[1]}",
                        evidence=evidence)  # fmt: skip


def _differences(stake: Stake, guest: Guest) -> Iterator[tuple[str, str]]:
    record = stake.home
    assert record
    wanted = POWER_OF.get(stake.waiting.facts.was if stake.waiting else record.vm_state)
    if wanted and guest.power != wanted:
        yield "power", f"is {guest.power}, and its record says {record.vm_state}"
    size, due = (guest.vcpus, guest.memory_mib), (record.flavor.vcpus, record.flavor.memory_mib)
    if size != due:
        yield "size", f"has {size[0]} cpus and {size[1]} MiB, and its record says {due[0]} and {due[1]}"


def is_whole(guest: Guest) -> bool:
    return guest.power != "reserved" and guest.has_disk


def stands_as_recorded(guest: Guest, record: Server) -> bool:
    """Tell of the guest of a record whether it is whole, and runs or not as the record says."""
    return is_whole(guest) and guest.power == POWER_OF.get(record.vm_state, guest.power)


def _is_kept(stake: Stake, ground: Ground) -> Iterator[Violation]:
    """See that a revert would find the guest that it brings back: switched off, with its disk."""
    assert stake.way_back
    host, key = stake.way_back
    if host in ground.silent or host not in ground.hosts:
        return
    guest = stake.guest(host, key)
    if guest is None or not is_whole(guest):
        trouble = "has no whole guest there"
    elif guest.power != "stopped":
        trouble = f"the guest there is {guest.power}"
    else:
        return
    yield Violation(law="I1", kind="no_way_back", subject=stake.id, about=f"{host}/{key.slot}", host=host,
                    sentence=f"server {stake.id} waits for a verdict and may have to go back to {host}: {trouble}",
                    evidence={"guests": [shown(seen) for seen in stake.guests]})  # fmt: skip


def of_a_step(stake: Stake, ground: Ground) -> Iterator[Violation]:
    """See that what is under way has no guests but those that one of its steps has."""
    for host, guest in stake.guests if stake.runs else ():
        if not stake.is_explained(host, guest.key):
            run = stake.runs[0]
            sentence = (
                f"a guest of server {stake.id} is on {host} ({guest.power}), and {run.saga} {run.id} has none there"
            )
            yield Violation(law="I1", kind="stray_guest", subject=stake.id, about=f"{host}/{guest.key.slot}", host=host,
                            sentence=sentence, evidence={"guest": shown((host, guest))})  # fmt: skip


def _no_other(stake: Stake) -> Iterator[Violation]:
    for host, guest in stake.strays():
        if (host, guest.key) == stake.way_back:
            continue
        why = f"its record says {stake.record.host or 'no host'}" if stake.record else "there is no such server"
        sentence = f"a guest of server {stake.id} is on {host} ({guest.power}), and {why}"
        yield Violation(law="I1", kind="stray_guest", subject=stake.id, about=f"{host}/{guest.key.slot}", host=host,
                        sentence=sentence, evidence={"guest": shown((host, guest))})  # fmt: skip
