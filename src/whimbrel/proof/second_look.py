"""What looks wrong is looked at again a moment later, alone: moves go on while a cloud is read.

Law: a violation is one only if two looks at it found it, between which nothing was done with its server: no run of it
began, took a step or ended, and its record stayed as it was.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from whimbrel.domain.ids import HostName, RunId, ServerId
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.journal import RunFilter
from whimbrel.proof import reading
from whimbrel.proof.laws.table import judged
from whimbrel.proof.reading import Sights
from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation

PAUSE_S = 0.3
LOOKS = 8


class Suspect(msgspec.Struct):
    """A stake of which something does not seem to hold, and what of it."""

    stake: Stake
    violations: list[Violation]
    ground: Ground


class Verdicts(msgspec.Struct):
    """unsettled: who was never left alone long enough to be judged."""

    violations: list[Violation] = []
    unsettled: list[ServerId] = []


async def look_again(cloud: Cloud, suspects: Sequence[Suspect]) -> Verdicts:
    """Look at these until each was found twice to be so, or to be right."""
    verdicts, left = Verdicts(), {one.stake.id: one for one in suspects}
    for number in range(LOOKS):
        if not left:
            break
        await cloud.clock.sleep(PAUSE_S * (1 + number))
        now = await fresh(cloud, list(left), {name: hosts_of(one.stake) for name, one in left.items()})
        for name, found in now.items():
            if found is None:
                continue  # something was done with it while it was read
            before = left.pop(name)
            if found.violations and found.stake.standing == before.stake.standing:
                both = {each.key for each in before.violations}
                verdicts.violations += [each for each in found.violations if each.key in both]
            elif found.violations:
                left[name] = found
    verdicts.unsettled += left
    return verdicts


async def fresh(
    cloud: Cloud, ids: Sequence[ServerId], hosts: Mapping[ServerId, Collection[HostName]], but: RunId | None = None
) -> dict[ServerId, Suspect | None]:
    """Read these alone, and judge them; None: something was done with it meanwhile.

    hosts: where to look for guests. but: a run that is not to count as one that is under way.
    """
    sights, found = Sights(), dict[ServerId, Suspect | None]()
    ground = await reading.read_ground(cloud, sights)
    await _see(cloud, ground, sights, ids, {host for name in ids for host in hosts[name]}, but)
    for at in range(0, len(ids), reading.PAGE):
        some = await reading.stakes(cloud, ids[at : at + reading.PAGE], sights)
        now = await stakes_of_runs(cloud, [stake.id for stake in some], but)
        later = {stake.id: stake.standing for stake in now}
        for stake in some:
            is_same = later.get(stake.id) == stake.standing
            found[stake.id] = Suspect(stake, judged(stake, ground), ground) if is_same else None
    return found


async def _see(
    cloud: Cloud,
    ground: Ground,
    sights: Sights,
    ids: Sequence[ServerId],
    hosts: Iterable[HostName],
    but: RunId | None,
) -> None:
    await _see_runs(cloud, sights, ids, but)
    await reading.see_guests(cloud, ground, sights, [host for host in hosts if host in ground.hosts])
    await reading.see_devices(cloud, sights)
    await reading.see_images(cloud, sights)
    for name in ids:
        sights.attachments[name] += await cloud.volumes.attachments(name)


async def _see_runs(cloud: Cloud, sights: Sights, ids: Sequence[ServerId], but: RunId | None) -> None:
    for name in ids:
        found = await cloud.journal.find(RunFilter(subject=name, only_open=True))
        sights.runs[name] += [run for run in found if run.id != but]


async def stakes_of_runs(cloud: Cloud, ids: Sequence[ServerId], but: RunId | None = None) -> list[Stake]:
    """Read only what tells whether something is done with them: their runs, and where they are."""
    sights = Sights()
    await _see_runs(cloud, sights, ids, but)
    return await reading.records_of(cloud, ids, sights)


def hosts_of(stake: Stake) -> set[HostName]:
    """Give where anything of a guest may be, as far as is known."""
    hosts = {host for host, _ in stake.guests}
    hosts |= {record.host for record in stake.records.values() if record.host}
    for run in stake.runs:
        hosts |= set(_places(run.facts))
    return hosts


def _places(facts: Any) -> Iterable[HostName]:
    if isinstance(facts, MoveFacts):
        yield from (place.host for place in (facts.source, facts.target, *facts.alternates) if place)
        yield from facts.tried
    elif getattr(facts, "host", None):
        yield facts.host
