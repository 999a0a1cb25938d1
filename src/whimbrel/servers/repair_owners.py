"""What is done about whose a server is said to be. Pure.

Law: what its record says is right if another that was written apart from it says so too: the directory, or where these
two differ the journal's row of the creation. Placement's word is a copy of the record's.
"""

from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation
from whimbrel.servers import repair_advice as advice
from whimbrel.servers.mend import Mend, Said


def disputed(stake: Stake) -> str | None:
    """Say why it may not be of the project that its record says; None: it is."""
    record, entry, made_for = stake.record, stake.entry, stake.made_for
    assert record
    assert entry
    if record.project_id in (entry.project_id, made_for):
        return None
    if made_for == entry.project_id:
        return f"it was made for project {made_for}, as the directory says: have the cell's row say that"
    placement = f"project {stake.owner.project}" if stake.owner else "nothing"
    journal = f"that it was made for project {made_for}" if made_for else "no creation of it"
    return (
        f"its record says project {record.project_id}, the directory {entry.project_id}, Placement {placement}, and the"
        f" journal has {journal}: ask whose it is, and have each of them say that"
    )


def enter_project(stake: Stake, ground: Ground, violation: Violation) -> Said:
    if words := disputed(stake):
        return words
    assert stake.record
    project = stake.record.project_id
    sentence = f"have the directory say that server {stake.id} is of project {project}, for which it was made"
    return [Mend(kind="enter_project", sentence=sentence)]


def name_owner(stake: Stake, ground: Ground, violation: Violation) -> Said:
    if stake.record is None or stake.entry is None:
        return advice.left(violation)
    if words := disputed(stake):
        return words
    sentence = f"have Placement know that what server {stake.id} holds is of project {stake.record.project_id}"
    return [Mend(kind="name_owner", sentence=sentence)]
