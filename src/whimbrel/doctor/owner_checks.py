"""For which project and user quotas count a server: by its instance mapping, and by its consumer in Placement."""

from collections.abc import Iterator

from whimbrel.doctor import repairs
from whimbrel.doctor.doctor_finding import Command, Finding
from whimbrel.doctor.nova_records import Allocations, CellMapping, Fleet, Instance, Owner, Subject
from whimbrel.doctor.server_findings import evidence_of


def owner(subject: Subject, server: Instance, fleet: Fleet) -> Iterator[Finding]:
    """Compare owners. What is not recorded is right: Nova has had users in mappings since Train only."""
    mapped = [each for each in subject.mappings if _differs(each.owner, server.owner)]
    held = subject.held if fleet.node_of(server) in fleet.roots(subject.held) else None
    has_wrong = held is not None and (held.generation is None or _differs(held.owner, server.owner))
    if not mapped and not has_wrong:
        return
    texts = [f"its instance mapping names {_words(each.owner)}" for each in mapped]
    if held and has_wrong:
        texts.append(
            "its allocation has no record of its consumer: Placement's API does not show it"
            if held.generation is None
            else f"Placement counts what it holds for {_words(held.owner)}"
        )
    yield Finding(
        kind="wrong_owner",
        subject=server.uuid,
        name=server.name,
        since=subject.touched,
        text=f"server {server.uuid} ({server.name}) belongs to {_words(server.owner)}, and {'; '.join(texts)}",
        cause="the allocation is from before Rocky or was made by hand, or a database was restored or changed by hand",
        evidence={
            **evidence_of(subject, fleet),
            "owner": _words(server.owner),
            "owners_of_mappings": [_words(each.owner) for each in subject.mappings],
            "owner_of_allocations": _words(held.owner) if held else None,
        },
        commands=[*(_map_to(server, each) for each in mapped), *(_heal(server, held) if has_wrong else [])],
    )


def _differs(counted: Owner, right: Owner) -> bool:
    pairs = ((counted.project, right.project), (counted.user, right.user))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _words(owner: Owner) -> str:
    return f"project {owner.project} and user {owner.user}"


def _map_to(server: Instance, mapping: CellMapping) -> Command:
    seen = (
        repairs.equals("project_id", mapping.owner.project),
        repairs.equals("user_id", mapping.owner.user),
    )
    where = " AND ".join((f"instance_uuid = '{server.uuid}'", *seen))
    to = f"project_id = '{server.owner.project}', user_id = '{server.owner.user}'"
    return repairs.sql(repairs.API, f"UPDATE instance_mappings SET {to} WHERE {where};")


def _heal(server: Instance, held: Allocations | None) -> list[Command]:
    """A consumer that Placement has no record of is made anew, with all that it holds; else only its owner changes."""
    return repairs.heal(server.uuid, held if held and held.generation is None else None)
