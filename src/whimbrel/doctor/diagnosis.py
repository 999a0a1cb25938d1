"""Two looks: only what both see, with the same rows, is a finding.

A row that both looks see unchanged was so at every moment between them. So what they find was true at one moment,
although the databases are not read at the same one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from whimbrel.doctor import command_guards, device_checks, group_checks, provider_checks
from whimbrel.doctor.check_context import BATCH, CheckContext
from whimbrel.doctor.doctor_finding import TITLES, Finding, InFlight
from whimbrel.doctor.nova_records import NovaRecords, Subject
from whimbrel.doctor.stuck_limits import StuckLimits
from whimbrel.doctor.subject_checks import judged
from whimbrel.domain.batches import batches

Look = Callable[[], AbstractContextManager[NovaRecords]]
"""Opens a new snapshot of all databases."""
Show = Callable[[str, int, int], None]
"""Receives the operation, and the servers done of all."""
OF_DATABASES = device_checks.KINDS | group_checks.KINDS | provider_checks.KINDS
"""Kinds that are about no single server, and are looked for anew in the second look."""


class Checks(Protocol):
    """Compares what another service records with Nova's records.

    Raises, both calls: Refused, Unavailable: the service cannot be read; Invalid.
    """

    title: str
    kinds: frozenset[str]

    def all(self, context: CheckContext) -> Iterator[Finding]:
        """Look at everything."""

    def some(self, before: Sequence[Finding], context: CheckContext) -> Iterator[Finding]:
        """Look again at what seemed wrong."""


@dataclass(frozen=True)
class Diagnosis:
    """servers: how many were looked at. passed: suspicions of the first look that the second did not confirm."""

    servers: int
    findings: Sequence[Finding]
    in_flight: Sequence[InFlight]
    passed: int


def diagnose(
    look: Look,
    now: Callable[[], float],
    wait: Callable[[float], None],
    again_s: float,
    limits: StuckLimits,
    show: Show,
    services: Sequence[Checks] = (),
) -> Diagnosis:
    """Look at everything, and again at what seems wrong. wait: pauses that long. services: checks of other services.

    Raises: Refused, Unavailable: a database or a service cannot be read. Without all of them nothing is judged.
    """
    with look() as records:
        found, in_flight, servers = _everything(records, now, limits, show)
        for checks in services:
            show(f"looking at {checks.title}", servers, servers)
            found.update({each.key: each for each in checks.all(CheckContext(records, now(), limits))})
    if found:
        show(f"looking again in {again_s:g} s", servers, servers)
        wait(again_s)
        with look() as records:
            confirmed = _again(CheckContext(records, now(), limits), found, in_flight, services)
    else:
        confirmed = []
    order = list(TITLES)
    confirmed.sort(key=lambda each: (order.index(each.kind), each.subject))
    return Diagnosis(
        servers, confirmed, sorted(in_flight.values(), key=lambda each: each.since), len(found) - len(confirmed)
    )


def _everything(
    records: NovaRecords, now: Callable[[], float], limits: StuckLimits, show: Show
) -> tuple[dict[tuple[str, str], Finding], dict[str, InFlight], int]:
    total, servers = records.count(), 0
    found: dict[tuple[str, str], Finding] = {}
    in_flight: dict[str, InFlight] = {}
    for subjects in records.all():
        servers += sum(bool(each.instances) for each in subjects)
        _sort(subjects, CheckContext(records, now(), limits), found, in_flight)
        show("looking at servers", servers, max(total, servers))
    found.update({each.key: each for each in _of_several(CheckContext(records, now(), limits))})
    return found, in_flight, servers


def _again(
    context: CheckContext,
    before: dict[tuple[str, str], Finding],
    in_flight: dict[str, InFlight],
    services: Sequence[Checks],
) -> list[Finding]:
    found: dict[tuple[str, str], Finding] = {}
    others = OF_DATABASES.union(*(checks.kinds for checks in services))
    ids = sorted({each.subject for each in before.values() if each.kind not in others})
    for some in batches(ids, BATCH):
        _sort(context.records.some(some), context, found, in_flight)
    if any(each.kind in OF_DATABASES for each in before.values()):
        found.update({each.key: each for each in _of_several(context)})
    for checks in services:
        if own := [each for each in before.values() if each.kind in checks.kinds]:
            found.update({each.key: each for each in checks.some(own, context)})
    confirmed = [each for key, each in found.items() if key in before and each.evidence == before[key].evidence]
    return command_guards.guarded(confirmed, context.records, services)


def _sort(
    subjects: Sequence[Subject],
    context: CheckContext,
    found: dict[tuple[str, str], Finding],
    in_flight: dict[str, InFlight],
) -> None:
    for subject in subjects:
        for each in judged(subject, context):
            if isinstance(each, Finding):
                found[each.key] = each
            else:
                in_flight[each.subject] = each


def _of_several(context: CheckContext) -> list[Finding]:
    records = context.records
    return [
        *device_checks.pci_devices(records.devices(), context),
        *device_checks.volumes(records.volume_uses(), context),
        *group_checks.groups(records.groups(), context),
        *provider_checks.lost(records.lost_providers(), context),
    ]
