"""What looks wrong is looked at again a moment later, alone: moves go on while a cloud is read.

Law: a violation is one only if two looks at it found it, between which nothing was done with its server: no run of it
began, took a step or ended, and its record stayed as it was.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from whimbrel.domain.ids import CellName, HostName, RunId, ServerId
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.proof import evidence_reader
from whimbrel.proof.collector import Sights, read_ground, see_devices, see_guests, see_images, see_runs_of
from whimbrel.proof.evidence import Ground, Stake
from whimbrel.proof.invariants.table import judged
from whimbrel.proof.paged_reads import PAGE
from whimbrel.proof.provider_check import of_providers
from whimbrel.proof.unknown_consumers import uncovered
from whimbrel.proof.violation import Violation

PAUSE_S = 0.3
LOOKS = 8


class Suspect(msgspec.Struct):
    """A stake of which something does not seem to hold, and what of it."""

    stake: Stake
    violations: list[Violation]
    ground: Ground

    @property
    def ordered(self) -> list[Violation]:
        """Give what does not hold of it law by law."""
        return sorted(self.violations, key=lambda each: each.order)


class Looked(msgspec.Struct):
    """found: None: something was done with it meanwhile. Missing there: a cell that does not answer may have it."""

    found: dict[ServerId, Suspect | None]
    ground: Ground


class Verdicts(msgspec.Struct):
    """unsettled: who was never left alone long enough to be judged. blind: cells that did not answer, and why."""

    violations: list[Violation] = []
    unsettled: list[ServerId] = []
    blind: dict[CellName, str] = {}


async def look_again(cloud: Cloud, suspects: Sequence[Suspect]) -> Verdicts:
    """Look at these until each was found twice to be so, or to be right."""
    verdicts, left = Verdicts(), {one.stake.id: one for one in suspects}
    for number in range(LOOKS):
        if not left:
            break
        await cloud.clock.sleep(PAUSE_S * (1 + number))
        now = await fresh(cloud, list(left), {name: hosts_of(one.stake) for name, one in left.items()})
        verdicts.blind |= now.ground.blind
        left = {name: one for name, one in left.items() if name in now.found}
        for name, found in now.found.items():
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
    cloud: Cloud,
    ids: Sequence[ServerId],
    hosts: Mapping[ServerId, Collection[HostName]] | None = None,
    but: RunId | None = None,
) -> Looked:
    """Read these alone, and judge them.

    hosts: where to look for guests; None: everywhere, also for whom it may be what nobody known holds.
    but: a run that is not to count as one that is under way.
    """
    sights, found = Sights(), dict[ServerId, Suspect | None]()
    ground = await read_ground(cloud, sights)
    where = ground.hosts if hosts is None else {host for name in ids for host in hosts[name]}
    await _see(cloud, ground, sights, ids, where, but)
    for at in range(0, len(ids), PAGE):
        some = await evidence_reader.stakes(cloud, ids[at : at + PAGE], sights)
        now = await stakes_of_runs(cloud, [stake.id for stake in some], but)
        later = {stake.id: stake.standing for stake in now}
        for stake in some:
            if hosts is None and stake.own and stake.entry is None:
                stake.uncovered = await uncovered(cloud, stake, ground)
            is_same = later.get(stake.id) == stake.standing
            found[stake.id] = Suspect(stake, judged(stake, ground), ground) if is_same else None
    if hosts is None:
        await _look_at_providers(cloud, ids, ground, found)
    return Looked(found, ground)


async def _look_at_providers(
    cloud: Cloud, ids: Sequence[ServerId], ground: Ground, found: dict[ServerId, Suspect | None]
) -> None:
    """See which of these ids are providers of which something does not hold."""
    async for violation in of_providers(cloud, ground):
        provider = ServerId(violation.subject)
        if provider in ids:
            suspect = found.setdefault(provider, Suspect(Stake(id=provider), [], ground))
            if suspect:
                suspect.violations.append(violation)


async def _see(
    cloud: Cloud,
    ground: Ground,
    sights: Sights,
    ids: Sequence[ServerId],
    hosts: Iterable[HostName],
    but: RunId | None,
) -> None:
    await see_runs_of(cloud, sights, ids, but)
    await see_guests(cloud, ground, sights, [host for host in hosts if host in ground.hosts])
    await see_devices(cloud, sights)
    await see_images(cloud, sights)
    for name in ids:
        sights.attachments[name] += await cloud.volumes.attachments(name)


async def stakes_of_runs(cloud: Cloud, ids: Sequence[ServerId], but: RunId | None = None) -> list[Stake]:
    """Read only what tells whether something is done with them: their runs, and where they are."""
    sights = Sights()
    await see_runs_of(cloud, sights, ids, but)
    return await evidence_reader.records_of(cloud, ids, sights)


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
