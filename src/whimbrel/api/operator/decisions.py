"""How a decision about a host is shown: all of it, or the part of the server's owner."""

from typing import Any

import msgspec

from whimbrel.ports.stores.zones import Zones, name_of
from whimbrel.scheduling.advice import owners_part, smallest_change
from whimbrel.scheduling.decision import Considered, Record

NOTHING: dict[str, Any] = {"chosen": [], "considered": [], "untold": 0, "misses": []}


async def shown(record: Record, zones: Zones, *, hosts: bool) -> dict[str, Any]:
    """hosts: with all hosts and their names; else only what an owner may know."""
    part = owners_part(record)
    body = {
        "found": part.found,
        "summary": part.summary,
        "change": smallest_change(record) if hosts else part.change,
        "at": part.at,
        "asked": part.asked,
        "availability_zone": None if part.zone is None else await name_of(zones, part.zone),
        "availability_zone_because": part.zone_because or None,
        "hosts": part.hosts,
        "counts": msgspec.to_builtins(part.counts),
    }
    return body | (_of_hosts(record) if hosts else NOTHING)


def refused(reason: str, at: float) -> dict[str, Any]:
    """Show that it never came to a choice of hosts."""
    nobody: dict[str, Any] = {"hosts": 0, "counts": [], "asked": {}, "availability_zone": None}
    return {"found": False, "summary": reason, "change": None, "at": at, "availability_zone_because": None} | (
        nobody | NOTHING
    )


def _of_hosts(record: Record) -> dict[str, Any]:
    considered = record.considered
    return {
        "chosen": list(record.chosen),
        "considered": [_considered(one) for one in considered],
        "untold": record.hosts - len(considered),
        "misses": [
            {
                "host": miss.host,
                "reasons": [msgspec.structs.asdict(reason) for reason in miss.reasons],
                "remedies": list(miss.remedies),
            }
            for miss in record.misses
        ],
    }


def _considered(one: Considered) -> dict[str, Any]:
    """Show what became of a host. verdict: in, with its weight and what each weigher gave; or out, and why."""
    if one.reason is None:
        return {"host": one.host, "verdict": "in", "weight": one.weight, "weights": dict(one.weights), "reason": None}
    reason = msgspec.structs.asdict(one.reason)
    return {"host": one.host, "verdict": "out", "weight": None, "weights": {}, "reason": reason}
