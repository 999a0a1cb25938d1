"""Representation of scheduling decisions: complete, or the part that the server's owner may see."""

import msgspec

from whimbrel.api.views.decisions import Considered, Count, Decision, Miss, Reason
from whimbrel.ports.stores.zones import Zones, name_of
from whimbrel.scheduling.advice import change_for_owner, smallest_change
from whimbrel.scheduling.decision import DecisionTrace


async def shown(record: DecisionTrace, zones: Zones, *, hosts: bool) -> Decision:
    """Return the representation. hosts: with all hosts and their names; else only the owner's part."""
    decision = owners_part(record, None if record.zone is None else await name_of(zones, record.zone))
    if hosts:
        considered = record.considered
        decision.change = smallest_change(record)
        decision.chosen = list(record.chosen)
        decision.overridden = msgspec.convert(record.overridden, list[Reason], from_attributes=True)
        decision.considered = msgspec.convert(considered, list[Considered], from_attributes=True)
        decision.untold = record.hosts - len(considered)
        decision.misses = msgspec.convert(record.misses, list[Miss], from_attributes=True)
    return decision


def owners_part(record: DecisionTrace, zone: str | None) -> Decision:
    """Return the owner's part: no host, aggregate or other server is named. zone: its name."""
    return Decision(
        found=bool(record.chosen),
        summary=record.summary(),
        change=change_for_owner(record),
        at=record.at,
        asked=dict(record.asked),
        availability_zone=zone,
        availability_zone_because=record.zone_because or None,
        hosts=record.hosts,
        counts=msgspec.convert(record.counts, list[Count], from_attributes=True),
    )


def refused(reason: str, at: float) -> Decision:
    """Return the decision of a request that was refused before hosts were considered."""
    return Decision(found=False, summary=reason, at=at)
