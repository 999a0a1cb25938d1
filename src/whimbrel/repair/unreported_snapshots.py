"""Report a snapshot for which a guest has switched to another file of its volume: a restore has lost the run of it.

Invariant: the guest decides. Only what its host says that it uses is reported, and the server stays locked until the
volume service connects hosts to that file.
"""

from whimbrel.domain.errors import Refused
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import actions
from whimbrel.repair.facts import Repair
from whimbrel.servers import operation
from whimbrel.servers.devices import file_snapshots


def refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    if seen.file_snapshots[violation.about].is_awaited:
        return None
    return (
        "the volume service has given the snapshot up, and connects hosts to the file below: before the server is"
        " moved or started anew, commit the file into that one on its host: virsh blockcommit --active --pivot"
    )


def report_snapshot(
    seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation
) -> list[actions.ReportSnapshot]:
    snapshot_id, volume_id = violation.about, seen.file_snapshots[violation.about].volume_id
    sentence = f"report to the volume service that the guest uses the file of snapshot {snapshot_id}"
    return [actions.ReportSnapshot(sentence=sentence, snapshot_id=snapshot_id, volume_id=volume_id)]


async def report_snapshots(run: Repair, cloud: Cloud) -> None:
    """Raises: Refused: the guest does not use the file any more, or the service has given the snapshot up."""
    for action in run.facts.of_kind(actions.ReportSnapshot):
        guest = await operation.agent(run, cloud).look(operation.key(run))
        if guest is None or action.snapshot_id not in guest.file_snapshots:
            raise Refused(f"the guest does not use the file of snapshot {action.snapshot_id}; nothing is reported")
        await check_epoch(run, cloud)
        if await file_snapshots.report_and_await(action.snapshot_id, cloud) != "available":
            raise Refused(f"the volume service has given snapshot {action.snapshot_id} up")
