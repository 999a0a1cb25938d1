"""What can be done about what does not hold of the cloud, and having it done. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/repairs.
"""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.operator.proof import violation
from whimbrel.domain.ids import ServerId
from whimbrel.repair.service import Finding, repair, survey


async def index(call: Call) -> Any:
    """Prove the cloud, and list what would be done about what does not hold, and what is left and why."""
    proof, found = await survey(call.cloud)
    return {"repairs": [_shown(one) for one in found], "holds": proof.holds, "unseen": list(proof.unseen)}


async def create(call: Call) -> Any:
    """Begin to repair what does not hold under an id; the move of this id tells how far it is.

    A cell that does not answer is in the way only if the server may be there; else it is named under `unseen`.
    """
    subject = ServerId(call.body["repair"]["subject"])
    run, found = await repair(call.cloud, call.engine, call.requester, subject)
    return {"repair": {"move_id": run.id, **_shown(found), "unseen": list(found.unseen)}}


def _shown(one: Finding) -> dict[str, Any]:
    return {
        "subject": one.subject,
        "violations": [violation(each) for each in one.violations],
        "mends": [{"kind": action.kind, "sentence": action.sentence} for action in one.plan.actions],
        "left": list(one.plan.left),
    }
