"""What is done about whose a server is said to be. Pure.

Law: it is of the project that two say who were told apart: its record and the directory, or where these differ one of
them and the journal's row of the creation. Placement's word is a copy of the record's.
"""

from collections.abc import Iterator

from whimbrel.domain.ids import ProjectId
from whimbrel.proof.evidence import Ground, Stake
from whimbrel.proof.violation import Violation
from whimbrel.repair import advice
from whimbrel.repair.actions import Mend, Said


def project_of(stake: Stake) -> ProjectId | None:
    """Give the project for which it was made; None: no two agree."""
    record, entry = stake.record, stake.entry
    assert record
    assert entry
    if record.project_id in (entry.project_id, stake.made_for):
        return record.project_id
    return entry.project_id if entry.project_id == stake.made_for else None


def disputed(stake: Stake) -> str | None:
    """Say who says what, where it cannot be told whose it is."""
    if project_of(stake):
        return None
    record, entry, made_for = stake.record, stake.entry, stake.made_for
    assert record
    assert entry
    placement = f"project {stake.owner.project}" if stake.owner else "nothing"
    journal = f"that it was made for project {made_for}" if made_for else "no creation of it"
    return (
        f"its record says project {record.project_id}, the directory {entry.project_id}, Placement {placement}, and the"
        f" journal has {journal}: ask whose it is, and have each of them say that"
    )


def agree(stake: Stake, ground: Ground, violation: Violation) -> Said:
    """Have the record and the directory say the same."""
    return disputed(stake) or list(_agreeing(stake))


def _agreeing(stake: Stake) -> Iterator[Mend]:
    project = project_of(stake)
    assert project
    assert stake.record
    assert stake.entry
    for_which = f"say that server {stake.id} is of project {project}, for which it was made"
    if stake.entry.project_id != project:
        yield Mend(kind="enter_project", thing=project, sentence=f"have the directory {for_which}")
    if stake.record.project_id != project:
        yield Mend(kind="record_project", thing=project, sentence=f"have the record {for_which}")
        yield from _naming(stake, project)  # Placement may have agreed with the record


def _naming(stake: Stake, project: ProjectId) -> Iterator[Mend]:
    if stake.own and (stake.owner is None or stake.owner.project != project):
        sentence = f"have Placement know that what server {stake.id} holds is of project {project}"
        yield Mend(kind="name_owner", thing=project, sentence=sentence)


def name_owner(stake: Stake, ground: Ground, violation: Violation) -> Said:
    if stake.record is None or stake.entry is None:
        return advice.left(violation)
    if words := disputed(stake):
        return words
    project = project_of(stake)
    assert project
    return list(_naming(stake, project))
