"""Repairs of what violates the invariants of the cloud: plans, and the runs that carry them out. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/repairs.
"""

from msgspec.structs import asdict

from whimbrel.api.http.call import Call
from whimbrel.api.operator.proof import violation
from whimbrel.api.views.repairs import Repair, RepairAction, RepairAnswer, RepairFinding, Repairs
from whimbrel.domain.ids import ServerId
from whimbrel.repair.service import Finding, repair, survey


async def index(call: Call) -> Repairs:
    """Prove the cloud and list the planned actions, and what is left and why."""
    proof, found = await survey(call.cloud)
    return Repairs(repairs=[_shown(one) for one in found], holds=proof.holds, unseen=list(proof.not_checked))


async def create(call: Call) -> RepairAnswer:
    """Begin the repair of one subject; its progress is that of the move `move_id`.

    A cell that does not answer prevents it only if the subject may be in it; else it is listed under `unseen`.
    """
    subject = ServerId(call.body["repair"]["subject"])
    run, found = await repair(call.cloud, call.engine, call.requester, subject)
    return RepairAnswer(Repair(**asdict(_shown(found)), move_id=run.id, unseen=list(found.not_checked)))


def _shown(one: Finding) -> RepairFinding:
    return RepairFinding(
        subject=one.subject,
        violations=[violation(each) for each in one.violations],
        actions=[RepairAction(kind=action.kind, sentence=action.sentence) for action in one.plan.actions],
        left=list(one.plan.left),
    )
