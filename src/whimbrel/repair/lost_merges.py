"""End the deletion of a snapshot whose files a host should merge: a restore has lost the run of it.

Invariant: nothing is merged here, and no file is deleted. The volume service keeps the snapshot and its files, so that
its deletion can be requested again. A host that has merged the files, or still does, answers that request by it.
"""

from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import actions
from whimbrel.repair.facts import Repair
from whimbrel.servers.devices import file_snapshots


def end_merge(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[actions.EndMerge]:
    snapshot_id = violation.about
    sentence = f"report to the volume service that snapshot {snapshot_id} is not deleted; delete it again then"
    return [actions.EndMerge(sentence=sentence, snapshot_id=snapshot_id, volume_id=seen.lost_merges[snapshot_id])]


async def end_merges(run: Repair, cloud: Cloud) -> None:
    for action in run.facts.of_kind(actions.EndMerge):
        await check_epoch(run, cloud)
        await file_snapshots.report_unmerged(action.snapshot_id, cloud)
