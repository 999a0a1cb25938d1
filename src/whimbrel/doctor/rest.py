"""Whether anything works on a server: what other services say of it is judged only while nothing does."""

from whimbrel.doctor.nova_records import Instance, Subject
from whimbrel.doctor.stuck_limits import StuckLimits


def at_rest(subject: Subject, now: float, limits: StuckLimits) -> Instance | None:
    """Return the server if nothing works on it, or did so a moment ago. A server that waits for a verdict is at rest.

    A migration record that never ended does not count: it is a finding by itself.
    """
    server = subject.server
    if server is None or server.is_worked_on or now - subject.touched < limits.settle_s:
        return None
    waits = server.vm_state == "resized"
    works = [each for each in subject.open_migrations if not (waits and each.status == "finished")]
    return None if works and now - subject.touched <= limits.message_s else server


def is_gone(subject: Subject, now: float, limits: StuckLimits) -> bool:
    """Check whether no cell has a server, and none is being created."""
    return not subject.instances and subject.build_request is None and now - subject.touched >= limits.settle_s
