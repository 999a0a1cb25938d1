"""End a migration of a volume under a server that no run carries out: its run was lost, or closed, by a restore.

Invariant: the guest decides. Its host ends a copy that is under way, or says that the guest uses the new volume for
good: only then the old one is detached, and only else the new one.
"""

from msgspec.structs import replace

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.moves.steps import volumes
from whimbrel.moves.steps.disk import finished
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import actions, guards
from whimbrel.repair.facts import Repair
from whimbrel.servers import operation
from whimbrel.servers.devices.volume_swaps import ORDERS


def refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    swap, home = seen.swaps[violation.about], seen.home
    if home is None or home.host is None:
        return "its server has no host: detach the volume from the server"
    guest = seen.guest(home.host, seen.key)
    if guest is None:
        return guards.not_checked(snapshot, [home.host]) or "its guest is not where its record says"
    if swap.volume_id not in guest.volumes:
        return f"its guest on {home.host} does not have the volume: detach it from the server and attach it again"
    if not swap.is_awaited:
        return (
            "the volume service does not wait for its end, and the guest may use either volume: see in the guest's"
            " definition on its host which one, and end the migration in the volume service"
        )
    return None


def end_swap(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[actions.EndSwap]:
    swap = seen.swaps[violation.about]
    volume_id, target_id = swap.volume_id, swap.target_id
    sentence = f"end the migration of volume {volume_id} to {target_id} with the one that the guest uses"
    return [actions.EndSwap(sentence=sentence, attachment_id=violation.about, volume_id=volume_id, target_id=target_id)]


async def end_swaps(run: Repair, cloud: Cloud) -> None:
    """Raises: Refused: the agent is too old, or it is unknown which volume the guest uses; nothing is changed."""
    await operation.check_agent(run, cloud, ORDERS)
    for action in run.facts.of_kind(actions.EndSwap):
        record = await operation.records(run, cloud).get(run.subject)
        held = next((one for one in record.volumes if one.volume_id == action.volume_id), None)
        if held and held.attachment_id != action.attachment_id:
            await _end(run, action, record, held, cloud)


async def _end(run: Repair, action: actions.EndSwap, record: Server, held: BlockDevice, cloud: Cloud) -> None:
    if not await _uses_new(run, action, held, cloud):
        await check_epoch(run, cloud)
        await cloud.volumes.detach(action.attachment_id)
        try:
            await cloud.volumes.complete_migration(action.volume_id, action.target_id, failed=True)
        except Refused as refusal:  # the attachment that told of the migration is gone: go on until it is ended
            raise Unavailable(f"the migration of volume {action.volume_id} is not ended: {refusal}") from refusal
        return
    await check_epoch(run, cloud)
    await cloud.volumes.complete(action.attachment_id)
    await cloud.volumes.detach(held.attachment_id)
    await check_epoch(run, cloud)
    volume_id = await cloud.volumes.complete_migration(action.volume_id, action.target_id)
    if volume_id != action.volume_id:
        raise Unavailable(f"volume {action.volume_id} was migrated, and is said to be volume {volume_id} now")
    now = replace(held, attachment_id=action.attachment_id)
    fields = {"volumes": tuple(now if one.id == held.id else one for one in record.volumes)}
    await operation.records(run, cloud).change_by_run(run.order, run.subject, fields)


async def _uses_new(run: Repair, action: actions.EndSwap, held: BlockDevice, cloud: Cloud) -> bool:
    """End a copy that is under way. Return whether the guest uses the new volume for good.

    A host that refuses to end the copy is asked to swap, which it has done already if it refuses for that reason.
    Raises: Refused, NotFound: it is unknown.
    """
    agent, key = operation.agent(run, cloud), operation.key(run)
    try:
        await agent.end_volume_swap(run.order, key, action.volume_id, action.attachment_id)
    except Refused:
        new = replace(held, volume_id=action.target_id, attachment_id=action.attachment_id)
        [volume] = await volumes.guest_volumes([new], cloud)
        await finished(lambda: agent.swap_volume(run.order, key, action.volume_id, volume))
        return True
    return False
