"""Findings about servers, with their records as evidence.

Evidence is plain values, with the times that show whether anything changed between two looks.
"""

from collections.abc import Sequence
from typing import Any

from whimbrel.doctor.doctor_finding import Command, Finding, InFlight
from whimbrel.doctor.nova_records import Allocations, Fleet, Instance, Migration, Subject


def held_words(held: Allocations | None, fleet: Fleet) -> str:
    """Return what a consumer holds as a phrase: 1 VCPU, 512 MEMORY_MB on n1."""
    if held is None or not held.rows:
        return "nothing"
    places: dict[str, list[str]] = {}
    for row in sorted(held.rows):
        node = fleet.node(row.root)
        places.setdefault(node.name if node else row.provider, []).append(f"{row.used} {row.resource_class}")
    return "; ".join(f"{', '.join(rows)} on {place}" for place, rows in sorted(places.items()))


def finding(
    kind: str, subject: Subject, fleet: Fleet, text: str, cause: str, commands: Sequence[Command] = (), note: str = ""
) -> Finding:
    """Return a finding about a server. text: what follows the server's id and name."""
    return Finding(
        kind=kind,
        subject=subject.id,
        name=subject.name,
        since=subject.touched,
        text=f"server {subject.id}{f' ({subject.name})' if subject.name else ''} {text}",
        cause=cause,
        evidence=evidence_of(subject, fleet),
        commands=commands,
        note=note,
    )


def in_flight(subject: Subject, text: str) -> InFlight:
    return InFlight(subject=subject.id, name=subject.name, text=text, since=subject.touched)


def evidence_of(subject: Subject, fleet: Fleet) -> dict[str, Any]:
    """Return all rows of a subject, as the evidence of a finding."""
    found: dict[str, Any] = {}
    if subject.instances or subject.deleted:
        found["instances"] = [_instance(each) for each in (*subject.instances, *subject.deleted)]
    if rows := [*subject.migrations, *subject.ended, *subject.migration]:
        found["migrations"] = [_migration(each) for each in rows]
    if subject.mappings:
        found["instance_mappings"] = [each.cell for each in subject.mappings]
    if subject.held:
        found["allocations"] = {"holds": held_words(subject.held, fleet), "generation": subject.held.generation}
    if subject.held_by:
        found["held_by_migrations"] = {id: held_words(held, fleet) for id, held in sorted(subject.held_by.items())}
    if subject.action:
        found["action"] = {
            "name": subject.action.name,
            "request_id": subject.action.request_id,
            "last_event": subject.action.last_event,
            "open_event": subject.action.open_event,
            "on": subject.action.open_host,
        }
    found["last_write"] = subject.touched
    return found


def _instance(row: Instance) -> dict[str, Any]:
    return {
        "cell": row.cell,
        "host": row.host,
        "node": row.node,
        "vm_state": row.vm_state,
        "task_state": row.task_state,
        "hidden": row.is_hidden,
        "deleted": row.is_deleted,
        "written": row.touched,
    }


def _migration(row: Migration) -> dict[str, Any]:
    return {
        "uuid": row.uuid,
        "cell": row.cell,
        "type": row.type,
        "status": row.status,
        "source": row.source,
        "target": row.target,
        "written": row.touched,
    }
