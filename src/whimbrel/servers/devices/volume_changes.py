"""Changes of whether a volume is deleted with its server, behind the operations on its devices that are under way.

Invariant: nothing else writes the server's volumes between the read and the write of this.
"""

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import edit, operation
from whimbrel.servers.devices import device_turns, volumes


class ChangeFacts(volumes.VolumeFacts, frozen=True, kw_only=True, omit_defaults=True):
    delete_on_termination: bool


VolumeChange = Run[ChangeFacts]


async def check_still_attached(run: VolumeChange, cloud: Cloud) -> ChangeFacts:
    """Raises: WrongState: the volume was not attached, or has been detached."""
    return await volumes.check_attached(run, cloud)


async def record_change(run: VolumeChange, cloud: Cloud) -> None:
    facts = run.facts
    record = await operation.records(run, cloud).get(run.subject)
    now = [
        _changed(held, facts.delete_on_termination) if held.id == facts.device.id else held for held in record.volumes
    ]
    await operation.settle(run, cloud, {"volumes": tuple(now)})


def _changed(device: BlockDevice, wanted: bool) -> BlockDevice:
    return replace(device, delete_on_termination=wanted)


CHANGE_VOLUME: Saga[ChangeFacts] = Saga(
    "change_volume",
    1,
    ChangeFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, in_turn=True),
        Step(check_still_attached, in_request=True),
    ),
    forward_only=(Step(record_change),),
)


async def with_changes(cloud: Cloud, server: Server) -> list[BlockDevice]:
    """List the devices of a server, also those that are being attached, as they will be."""
    devices = await volumes.with_arriving(cloud, server)
    wanted = {
        run.facts.device.id: run.facts.delete_on_termination
        for run in await device_turns.before_next(cloud, server.id)
        if run.saga == CHANGE_VOLUME.name and run.way == "forward" and has_facts(run, ChangeFacts)
    }
    return [_changed(one, wanted[one.id]) if one.id in wanted else one for one in devices]


async def change(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice, wanted: bool
) -> None:
    """Set whether a volume is deleted with its server: at once, or behind what is under way on its devices.

    Raises: Conflict: something else is under way.
    """
    run = await cloud.journal.open_run(server.id)
    if device in server.volumes and (run is None or run.state != "open"):
        with suppress(Conflict):  # something began meanwhile
            now = [_changed(held, wanted) if held == device else held for held in server.volumes]
            await edit.change(cloud, server, {"volumes": tuple(now)})
            return

    await in_turn(cloud, engine, requester, server, device, wanted)


async def in_turn(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice, wanted: bool
) -> None:
    """Accept the change behind what is under way on the server's devices. Raises: Conflict."""

    async def accept(record: Server, before: Sequence[Run]) -> None:
        turn = await volumes.turn(cloud, record, before)
        await operation.accept(
            cloud, engine, requester, record, CHANGE_VOLUME, "update_volume_attachment", None, volumes.STATES,
            **{**turn, "oldest": CHANGE_VOLUME.version}, device=device, delete_on_termination=wanted, devices=True,
        )  # fmt: skip

    await device_turns.take(cloud, server, accept, look_first=True)
