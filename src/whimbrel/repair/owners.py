"""Guards and actions for the project of a server. Pure.

Invariant: it is the project that two independent sources name: the record and the directory, or if these differ one
of them and the journal's row of the creation. Placement has a copy of the record's project, and does not count.
"""

from whimbrel.domain.ids import ProjectId
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import actions, advice
from whimbrel.repair.actions import RepairAction


def project_of(seen: ServerEvidence) -> ProjectId | None:
    """Return the project of a server, or None if no two sources agree."""
    record, entry = seen.record, seen.entry
    assert record
    assert entry
    if record.project_id in (entry.project_id, seen.made_for):
        return record.project_id
    return entry.project_id if entry.project_id == seen.made_for else None


def disputed(seen: ServerEvidence) -> str | None:
    """Return what each source says, if no two agree."""
    if project_of(seen):
        return None
    record, entry, made_for = seen.record, seen.entry, seen.made_for
    assert record
    assert entry
    placement = f"project {seen.owner.project}" if seen.owner else "nothing"
    journal = f"its creation for project {made_for}" if made_for else "no creation of it"
    return (
        f"its record says project {record.project_id}, the directory {entry.project_id}, Placement {placement}, and the"
        f" journal has {journal}: find out its project, and set each of them to it"
    )


def agree(seen: ServerEvidence) -> list[RepairAction]:
    """Return the actions that set the same project in the record and the directory."""
    project = project_of(seen)
    assert project
    assert seen.record
    assert seen.entry
    sentence = f"set the project of server {seen.id} in the {{}} to {project}, for which it was made"
    agreed: list[RepairAction] = []
    if seen.entry.project_id != project:
        agreed.append(actions.EnterProject(sentence=sentence.format("directory"), project=project))
    if seen.record.project_id != project:
        agreed.append(actions.RecordProject(sentence=sentence.format("record"), project=project))
        agreed += _naming(seen, project)  # Placement may have the record's former project
    return agreed


def owner_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    is_known = seen.record is not None and seen.entry is not None
    return disputed(seen) if is_known else advice.left(violation)


def name_owner(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    project = project_of(seen)
    assert project
    return _naming(seen, project)


def _naming(seen: ServerEvidence, project: ProjectId) -> list[RepairAction]:
    if not seen.own or (seen.owner and seen.owner.project == project):
        return []
    sentence = f"set the project of the claim of server {seen.id} to {project}"
    return [actions.NameOwner(sentence=sentence, project=project)]
