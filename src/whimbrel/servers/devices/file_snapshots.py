"""Snapshots of attached volumes that are files of a share: the volume service asks the guest's host to take its part.

It makes the file to which the guest writes from then on, and deletes files that the host has merged into others.
Invariants: the service waits for a report, which it gets however a request ends. While it has not ended a snapshot, the
server stays locked: until then the service would connect another host to the file before. A late report changes
nothing, so that none asks whether its run is still in hand.
Source: Cinder's drivers of remote file systems; Nova's os-assisted-volume-snapshots.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.operation_facts import Operation
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.domain.volume_merge import Merge
from whimbrel.moves.steps.disk import finished
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.hosts.agent import Agent
from whimbrel.ports.services.volume_snapshots import HOST_IS_DONE
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.backoff import PollDelay
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.devices import device_turns
from whimbrel.servers.devices.volumes import VolumeFacts, check_attached, turn

STATES = ("active", "paused", "stopped", "resized")

SNAPSHOT_ORDERS, MERGE_ORDERS = {Agent.take_volume_snapshot.__name__}, {Agent.merge_volume_files.__name__}
"""The orders that an agent must know."""


class FileSnapshotFacts(VolumeFacts, frozen=True, kw_only=True, omit_defaults=True):
    """file: to which the guest writes from the snapshot on. is_wanted: whether the service still waits for it."""

    snapshot_id: str
    file: str
    is_wanted: bool = True


class FileMergeFacts(VolumeFacts, frozen=True, kw_only=True, omit_defaults=True):
    """merge: by which the snapshot is deleted."""

    snapshot_id: str
    merge: Merge


FileSnapshot = Run[FileSnapshotFacts]
FileMerge = Run[FileMergeFacts]


def is_wanted(facts: FileSnapshotFacts) -> bool:
    return facts.is_wanted


# Steps of a snapshot


async def give_up_snapshot(run: FileSnapshot, cloud: Cloud) -> None:
    """Report that the host does not take its part, and unlock the server."""
    await cloud.volumes.report_snapshot(run.facts.snapshot_id, "creating", "error")
    await operation.unlock(run, cloud)


async def check_switchable(run: FileSnapshot, cloud: Cloud) -> FileSnapshotFacts:
    """Raises: WrongState: the server has the volume no longer; Refused: the agent is too old."""
    await operation.check_agent(run, cloud, SNAPSHOT_ORDERS)
    return await check_attached(run, cloud)


async def check_wanted(run: FileSnapshot, cloud: Cloud) -> FileSnapshotFacts:
    """Raises: Refused: the service has given it up, so that it does not count with the file."""
    status = await _status(run.facts.snapshot_id, cloud)
    if status not in ("creating", "available"):
        raise Refused(f"snapshot {run.facts.snapshot_id} is not being made any more: it is {status}")
    return replace(run.facts, is_wanted=status == "creating")  # else createImage has done it before


async def switch_file(run: FileSnapshot, cloud: Cloud) -> None:
    """Let the guest write to the new file. Raises: Refused: it does not."""
    await _switch(run, run.facts, cloud)


async def report_switched(run: FileSnapshot, cloud: Cloud) -> None:
    await _report_switched(run.facts.snapshot_id, cloud)


async def await_snapshot(run: FileSnapshot, cloud: Cloud) -> None:
    """Wait until the service has ended the snapshot, well or badly, and connects hosts to the new file."""
    await _ended(run.facts.snapshot_id, cloud)


async def settle_snapshot(run: FileSnapshot, cloud: Cloud) -> None:
    await operation.unlock(run, cloud)


async def _switch(run: Operation, facts: FileSnapshotFacts, cloud: Cloud) -> None:
    """run: that gives the order."""
    volume_id = facts.device.volume_id
    await operation.agent(run, cloud).take_volume_snapshot(run.order, operation.key(run), volume_id, facts.file)


async def report_and_await(snapshot_id: str, cloud: Cloud) -> str:
    """Report that the guest writes to the new file. Return the status of the snapshot when the service has ended it."""
    await _report_switched(snapshot_id, cloud)
    return await _ended(snapshot_id, cloud)


async def _report_switched(snapshot_id: str, cloud: Cloud) -> None:
    await cloud.volumes.report_snapshot(snapshot_id, "creating", "creating", HOST_IS_DONE)


async def _ended(snapshot_id: str, cloud: Cloud) -> str:
    delay = PollDelay(cloud.clock)
    while (status := await _status(snapshot_id, cloud)) == "creating":
        await delay.wait()
    return status


async def _status(snapshot_id: str, cloud: Cloud) -> str:
    try:
        return (await cloud.volumes.snapshot_details(snapshot_id)).status
    except NotFound:
        return "not there"


async def take_waiting(run: Operation, cloud: Cloud) -> None:
    """Take the part of the host in the snapshots for which `run` waits: their runs wait behind it, as it has the lock.

    They find it done when it is their turn. Repeatable.
    """
    found = await cloud.journal.find(RunFilter(subject=run.subject, only_open=True))
    for waiting in found:
        if not (waiting.queued and waiting.way == "forward" and has_facts(waiting, FileSnapshotFacts)):
            continue
        facts = waiting.facts
        if await _status(facts.snapshot_id, cloud) != "creating":
            continue
        try:
            await operation.check_agent(run, cloud, SNAPSHOT_ORDERS)
            await _switch(run, facts, cloud)
        except (Refused, NotFound):
            await cloud.volumes.report_snapshot(facts.snapshot_id, "creating", "error")
        else:
            await _report_switched(facts.snapshot_id, cloud)


# Steps of a merge


async def give_up_merge(run: FileMerge, cloud: Cloud) -> None:
    """Report that the files are not merged, and unlock the server."""
    await report_unmerged(run.facts.snapshot_id, cloud)
    await operation.unlock(run, cloud)


async def report_unmerged(snapshot_id: str, cloud: Cloud) -> None:
    await cloud.volumes.report_snapshot(snapshot_id, "deleting", "error_deleting")


async def check_mergeable(run: FileMerge, cloud: Cloud) -> FileMergeFacts:
    """Raises: WrongState: the server has the volume no longer; Refused: the agent is too old."""
    await operation.check_agent(run, cloud, MERGE_ORDERS)
    return await check_attached(run, cloud)


async def check_unwanted(run: FileMerge, cloud: Cloud) -> None:
    """Raises: Refused: the service does not delete it any more, and counts with its file."""
    if (status := await _status(run.facts.snapshot_id, cloud)) != "deleting":
        raise Refused(f"snapshot {run.facts.snapshot_id} is not being deleted any more: it is {status}")


async def merge_files(run: FileMerge, cloud: Cloud) -> None:
    """Merge the files. Raises: Refused: they are not merged, and the guest has its data."""
    agent, key, facts = operation.agent(run, cloud), operation.key(run), run.facts
    await finished(lambda: agent.merge_volume_files(run.order, key, facts.device.volume_id, facts.merge))


async def report_merged(run: FileMerge, cloud: Cloud) -> None:
    await cloud.volumes.report_snapshot(run.facts.snapshot_id, "deleting", "deleting", HOST_IS_DONE)


async def settle_merge(run: FileMerge, cloud: Cloud) -> None:
    await operation.unlock(run, cloud)


_TAKE, _MERGE = "compute_volume_snapshot_create", "compute_volume_snapshot_delete"

TAKE_VOLUME_SNAPSHOT = Saga(
    "take_volume_snapshot",
    1,
    FileSnapshotFacts,
    undoable=(
        Step(operation.lock, undo=give_up_snapshot, in_request=True, in_turn=True),
        Step(check_switchable, in_request=True),
        Step(check_wanted, event=_TAKE),
        Step(switch_file, only_if=is_wanted, event=_TAKE, settles=True),  # refused, it has changed nothing
    ),
    forward_only=(
        Step(report_switched, only_if=is_wanted, event=_TAKE),
        Step(await_snapshot, only_if=is_wanted, event=_TAKE),
        Step(settle_snapshot, event=_TAKE),
    ),
)

MERGE_VOLUME_FILES = Saga(
    "merge_volume_files",
    1,
    FileMergeFacts,
    undoable=(
        Step(operation.lock, undo=give_up_merge, in_request=True, in_turn=True),
        Step(check_mergeable, in_request=True),
        Step(check_unwanted, event=_MERGE),
        Step(merge_files, event=_MERGE, settles=True),
    ),
    forward_only=(
        Step(report_merged, event=_MERGE),  # the service deletes the file that was merged
        Step(settle_merge, event=_MERGE),
    ),
)


# Requests


async def take(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice, snapshot_id: str, file: str
) -> None:
    """Start to take the host's part in a snapshot. Raises: WrongState; Conflict; Unavailable."""

    async def accept(record: Server, before: Sequence[Run]) -> None:
        await operation.accept(
            cloud, engine, requester, record, TAKE_VOLUME_SNAPSHOT, "volume_snapshot_create", None, STATES,
            **{**await turn(cloud, record, before), "oldest": 1},
            device=device, at_once=False, devices=True, snapshot_id=snapshot_id, file=file,
        )  # fmt: skip

    await device_turns.take(cloud, server, accept, also_behind=device_turns.ASKING_FOR_SNAPSHOTS)


async def merge(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice, snapshot_id: str, by: Merge
) -> None:
    """Start to merge the files of a volume. Raises: WrongState; Conflict; Unavailable."""
    states = ("active",) if by.top else STATES

    async def accept(record: Server, before: Sequence[Run]) -> None:
        await operation.accept(
            cloud, engine, requester, record, MERGE_VOLUME_FILES, "volume_snapshot_delete", None, states,
            **{**await turn(cloud, record, before), "oldest": 1},
            device=device, at_once=False, devices=True, snapshot_id=snapshot_id, merge=by,
        )  # fmt: skip

    await device_turns.take(cloud, server, accept, also_behind=device_turns.ASKING_FOR_SNAPSHOTS)
