"""What is done about whose a server is said to be. Pure.

Law: it is of the project that two say who were told apart: its record and the directory, or where these differ one of
them and the journal's row of the creation. Placement's word is a copy of the record's.
"""

from collections.abc import Iterator

from whimbrel.domain.ids import ProjectId
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import advice
from whimbrel.repair.actions import Mend, Said


def project_of(seen: ServerEvidence) -> ProjectId | None:
    """Give the project for which it was made; None: no two agree."""
    record, entry = seen.record, seen.entry
    assert record
    assert entry
    if record.project_id in (entry.project_id, seen.made_for):
        return record.project_id
    return entry.project_id if entry.project_id == seen.made_for else None


def disputed(seen: ServerEvidence) -> str | None:
    """Say who says what, where it cannot be told whose it is."""
    if project_of(seen):
        return None
    record, entry, made_for = seen.record, seen.entry, seen.made_for
    assert record
    assert entry
    placement = f"project {seen.owner.project}" if seen.owner else "nothing"
    journal = f"that it was made for project {made_for}" if made_for else "no creation of it"
    return (
        f"its record says project {record.project_id}, the directory {entry.project_id}, Placement {placement}, and the"
        f" journal has {journal}: ask whose it is, and have each of them say that"
    )


def agree(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    """Have the record and the directory say the same."""
    return disputed(seen) or list(_agreeing(seen))


def _agreeing(seen: ServerEvidence) -> Iterator[Mend]:
    project = project_of(seen)
    assert project
    assert seen.record
    assert seen.entry
    for_which = f"say that server {seen.id} is of project {project}, for which it was made"
    if seen.entry.project_id != project:
        yield Mend(kind="enter_project", thing=project, sentence=f"have the directory {for_which}")
    if seen.record.project_id != project:
        yield Mend(kind="record_project", thing=project, sentence=f"have the record {for_which}")
        yield from _naming(seen, project)  # Placement may have agreed with the record


def _naming(seen: ServerEvidence, project: ProjectId) -> Iterator[Mend]:
    if seen.own and (seen.owner is None or seen.owner.project != project):
        sentence = f"have Placement know that what server {seen.id} holds is of project {project}"
        yield Mend(kind="name_owner", thing=project, sentence=sentence)


def name_owner(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    if seen.record is None or seen.entry is None:
        return advice.left(violation)
    if words := disputed(seen):
        return words
    project = project_of(seen)
    assert project
    return list(_naming(seen, project))
