"""All checks of one subject, in the order that keeps work in flight out of the findings."""

from collections.abc import Iterator

from whimbrel.doctor import allocation_checks, instance_checks, owner_checks, stuck_checks
from whimbrel.doctor.doctor_finding import Finding, InFlight
from whimbrel.doctor.nova_records import Fleet, Subject
from whimbrel.doctor.stuck_limits import StuckLimits


def judged(subject: Subject, fleet: Fleet, now: float, limits: StuckLimits) -> list[Finding | InFlight]:
    """Return what is wrong with a subject, and what is in flight.

    What was written less than limits.settle_s ago is in flight, not wrong.
    """
    found = list(_judge(subject, fleet, now, limits))
    if now - subject.touched >= limits.settle_s:
        return found
    work = [each for each in found if isinstance(each, InFlight)]
    if work or not found:
        return list(work)
    name = next((each.name for each in subject.instances), "")
    return [InFlight(subject=subject.id, name=name, text="changed a moment ago", since=subject.touched)]


def _judge(subject: Subject, fleet: Fleet, now: float, limits: StuckLimits) -> Iterator[Finding | InFlight]:
    server = subject.server
    if server is None:
        yield from instance_checks.rows(subject, fleet, now, limits)
        if not subject.instances:
            yield from _of_no_server(subject, fleet, now, limits)
        return
    if server.is_worked_on:
        stuck = list(stuck_checks.stuck_server(subject, server, fleet, now, limits))
        yield from stuck
        if any(isinstance(each, InFlight) for each in stuck):
            return
        yield from instance_checks.mappings(subject, server, fleet)
        yield from allocation_checks.consumer(subject, server, fleet)
        return
    moves = list(stuck_checks.open_migrations(subject, server, fleet, now, limits))
    yield from moves
    if any(isinstance(each, InFlight) for each in moves):
        return
    yield from stuck_checks.waits_for_nothing(subject, server, fleet)
    yield from instance_checks.build_request(subject, server, fleet, now, limits)
    yield from instance_checks.rows(subject, fleet, now, limits)
    yield from instance_checks.mappings(subject, server, fleet)
    yield from instance_checks.compute_node(subject, server, fleet)
    yield from allocation_checks.consumer(subject, server, fleet)
    yield from allocation_checks.of_server(subject, server, fleet)
    yield from allocation_checks.of_source(subject, server, fleet)
    yield from owner_checks.owner(subject, server, fleet)
    if not any(each.kind == "stuck_confirm" for each in moves if isinstance(each, Finding)):
        yield from instance_checks.spec(subject, server, fleet)


def _of_no_server(subject: Subject, fleet: Fleet, now: float, limits: StuckLimits) -> Iterator[Finding | InFlight]:
    yield from instance_checks.request_of_gone(subject, fleet, now, limits)
    nowhere = list(instance_checks.nowhere(subject, fleet, now, limits))
    yield from nowhere
    if subject.held and not nowhere:
        yield from allocation_checks.of_other(subject, fleet, now, limits)
