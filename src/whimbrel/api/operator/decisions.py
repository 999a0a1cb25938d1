"""How a decision about a host is shown: all of it, or the part of the server's owner."""

import msgspec

from whimbrel.api.views.decisions import Considered, Decision, Miss
from whimbrel.ports.stores.zones import Zones, name_of
from whimbrel.scheduling.advice import owners_part, smallest_change
from whimbrel.scheduling.decision import Record


async def shown(record: Record, zones: Zones, *, hosts: bool) -> Decision:
    """hosts: with all hosts and their names; else only what an owner may know."""
    part = owners_part(record)
    decision = msgspec.convert(part, Decision, from_attributes=True)
    decision.availability_zone = None if part.zone is None else await name_of(zones, part.zone)
    decision.availability_zone_because = part.zone_because or None
    if hosts:
        considered = record.considered
        decision.change = smallest_change(record)
        decision.chosen = list(record.chosen)
        decision.considered = msgspec.convert(considered, list[Considered], from_attributes=True)
        decision.untold = record.hosts - len(considered)
        decision.misses = msgspec.convert(record.misses, list[Miss], from_attributes=True)
    return decision


def refused(reason: str, at: float) -> Decision:
    """Show that no hosts were considered."""
    return Decision(found=False, summary=reason, at=at)
