"""What checks judge by: the records of one look, its time and the limits."""

from collections.abc import Iterable
from dataclasses import dataclass

from whimbrel.doctor.nova_records import Fleet, Instance, NovaRecords, Subject
from whimbrel.doctor.stuck_limits import DOWN_S, StuckLimits
from whimbrel.domain.batches import batches

BATCH = 500


@dataclass(frozen=True)
class CheckContext:
    """now: seconds since 1970."""

    records: NovaRecords
    now: float
    limits: StuckLimits

    @property
    def fleet(self) -> Fleet:
        return self.records.fleet

    def has_changed(self, *touched: float) -> bool:
        """Check whether one of these times is so recent that nothing is judged yet."""
        return self.now - max(touched) < self.limits.settle_s

    def awaits_message(self, subject: Subject) -> bool:
        """Check whether what is open about a subject may be ended by a message that is under way."""
        return self.now - subject.touched <= self.limits.message_s

    def is_down(self, cell: str, host: str | None) -> bool:
        """Check whether nova-compute of a host is known, and has not written for DOWN_S."""
        seen = self.fleet.seen.get((cell, host or ""))
        return seen is not None and self.now - seen > DOWN_S

    def at_rest(self, subject: Subject) -> Instance | None:
        """Return the server if nothing works on it, or did so a moment ago.

        What other services record of a server is judged only while it is at rest. One that waits for a verdict is. A
        migration record that never ended does not count: it is a finding by itself.
        """
        server = subject.server
        if server is None or server.is_worked_on or self.has_changed(subject.touched):
            return None
        waits = server.vm_state == "resized"
        works = [each for each in subject.open_migrations if not (waits and each.status == "finished")]
        return None if works and self.awaits_message(subject) else server

    def is_gone(self, subject: Subject) -> bool:
        """Check whether no cell has a server, and none is being created."""
        return not subject.instances and subject.build_request is None and not self.has_changed(subject.touched)

    def subjects(self, ids: Iterable[str]) -> dict[str, Subject]:
        """Return what is recorded under each id; an empty subject if that is nothing."""
        wanted = sorted(set(ids))
        known = {each.id: each for some in batches(wanted, BATCH) for each in self.records.some(some)}
        return {id: known.get(id) or Subject(id=id) for id in wanted}
