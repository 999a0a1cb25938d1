"""Repairs of what violates the invariants of the cloud: plans, and the runs that carry them out. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/repairs.
"""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.operator.proof import violation
from whimbrel.domain.ids import ServerId
from whimbrel.repair.service import Finding, repair, survey


async def index(call: Call) -> Any:
    """Prove the cloud and list the planned actions, and what is left and why."""
    proof, found = await survey(call.cloud)
    return {"repairs": [_shown(one) for one in found], "holds": proof.holds, "unseen": list(proof.unseen)}


async def create(call: Call) -> Any:
    """Begin the repair of one subject; its progress is that of the move `move_id`.

    A cell that does not answer prevents it only if the subject may be there; else it is listed under `unseen`.
    """
    subject = ServerId(call.body["repair"]["subject"])
    run, found = await repair(call.cloud, call.engine, call.requester, subject)
    return {"repair": {"move_id": run.id, **_shown(found), "unseen": list(found.unseen)}}


def _shown(one: Finding) -> dict[str, Any]:
    actions = [{"kind": action.kind, "sentence": action.sentence} for action in one.plan.actions]
    return {
        "subject": one.subject,
        "violations": [violation(each) for each in one.violations],
        "actions": actions,
        "mends": actions,  # deprecated: clients of 0.1 read this name
        "left": list(one.plan.left),
    }
