"""All checks of one subject, in the order that keeps work in flight out of the findings."""

from collections.abc import Iterator

from whimbrel.doctor import allocation_checks, instance_checks, owner_checks, stuck_checks
from whimbrel.doctor.check_context import CheckContext
from whimbrel.doctor.doctor_finding import Finding, InFlight
from whimbrel.doctor.nova_records import Subject
from whimbrel.doctor.server_findings import in_flight


def judged(subject: Subject, context: CheckContext) -> list[Finding | InFlight]:
    """Return what is wrong with a subject, and what is in flight.

    What has changed a moment ago is in flight, not wrong.
    """
    found = list(_judge(subject, context))
    if not context.has_changed(subject.touched):
        return found
    work = [each for each in found if isinstance(each, InFlight)]
    if work or not found:
        return list(work)
    return [in_flight(subject, "changed a moment ago")]


def _judge(subject: Subject, context: CheckContext) -> Iterator[Finding | InFlight]:
    server = subject.server
    if server is None:
        yield from instance_checks.rows(subject, context)
        if not subject.instances:
            yield from _of_no_server(subject, context)
        return
    if server.is_worked_on:
        stuck = list(stuck_checks.stuck_server(subject, server, context))
        yield from stuck
        if any(isinstance(each, InFlight) for each in stuck):
            return
        yield from instance_checks.mappings(subject, server, context.fleet)
        yield from allocation_checks.consumer(subject, server, context.fleet)
        return
    moves = list(stuck_checks.open_migrations(subject, server, context))
    yield from moves
    if any(isinstance(each, InFlight) for each in moves):
        return
    yield from stuck_checks.waits_for_nothing(subject, server, context.fleet)
    yield from instance_checks.build_request(subject, server, context)
    yield from instance_checks.rows(subject, context)
    yield from instance_checks.mappings(subject, server, context.fleet)
    yield from instance_checks.compute_node(subject, server, context.fleet)
    yield from allocation_checks.consumer(subject, server, context.fleet)
    yield from allocation_checks.of_server(subject, server, context.fleet)
    yield from allocation_checks.of_source(subject, server, context.fleet)
    yield from owner_checks.owner(subject, server, context.fleet)
    if not any(each.kind == "stuck_confirm" for each in moves if isinstance(each, Finding)):
        yield from instance_checks.spec(subject, server, context.fleet)


def _of_no_server(subject: Subject, context: CheckContext) -> Iterator[Finding | InFlight]:
    yield from instance_checks.request_of_gone(subject, context)
    yield from instance_checks.still_counted(subject, context)
    nowhere = list(instance_checks.nowhere(subject, context))
    yield from nowhere
    if subject.held and not nowhere:
        yield from allocation_checks.of_other(subject, context)
