"""Let a guest see that a volume of it was extended: the volume service reports it, when the volume has its new size.

A guest that is off sees the new size when it starts; for it the run records the action only. Whatever ends this run, a
repeated event or the next start of the guest makes up for it: nothing is undone, and a host is asked for the size that
the service has then.
Source: Nova's extend_volume; Cinder's os-extend, 3.42.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.hosts.agent import Agent
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.devices import device_turns
from whimbrel.servers.devices.volumes import VolumeFacts, check_attached, turn

OFF = ("stopped", "shelved")
STATES = ("active", "paused", "resized", *OFF)

ORDERS = {Agent.extend_volume.__name__}
"""The orders that an agent must know, if the guest may be live."""

VolumeExtension = Run[VolumeFacts]


def may_be_live(facts: VolumeFacts) -> bool:
    return facts.was not in OFF


# Steps


async def check_extendable(run: VolumeExtension, cloud: Cloud) -> VolumeFacts:
    """Raises: WrongState: the server has the volume no longer; Refused: the agent is too old."""
    if may_be_live(run.facts):
        await operation.check_agent(run, cloud, ORDERS)
    return await check_attached(run, cloud)


async def extend_in_guest(run: VolumeExtension, cloud: Cloud) -> None:
    """Let the guest see the size that the service has now. Raises: Refused, NotFound: it does not."""
    volume_id = run.facts.device.volume_id
    size_gib = (await cloud.volumes.volume(volume_id)).size_gib
    await operation.agent(run, cloud).extend_volume(run.order, operation.key(run), volume_id, size_gib)


async def end_extension(run: VolumeExtension, cloud: Cloud) -> None:
    await operation.unlock(run, cloud)


_EVENT = "compute_extend_volume"

EXTEND_VOLUME: Saga[VolumeFacts] = Saga(
    "extend_volume",
    1,
    VolumeFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, in_turn=True),
        Step(check_extendable, in_request=True),
        Step(extend_in_guest, only_if=may_be_live, event=_EVENT),
    ),
    forward_only=(Step(end_extension, event=_EVENT),),
)


# Requests


async def extend(cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice) -> None:
    """Start to let a guest see the new size of a volume, behind what is under way on the server's devices.

    Raises: Refused: the agent is too old; WrongState; Conflict; Unavailable.
    """
    if server.vm_state not in OFF:
        await operation.check_agent_of(server, cloud, ORDERS)  # so that nothing is recorded

    wanted = replace(device, attachment_id="")  # a swap before it gives the volume another one

    async def accept(record: Server, before: Sequence[Run]) -> None:
        await operation.accept(
            cloud, engine, requester, record, EXTEND_VOLUME, "extend_volume", None, STATES,
            **{**await turn(cloud, record, before), "oldest": 1}, device=wanted, at_once=False, devices=True,
        )  # fmt: skip

    await device_turns.take(cloud, server, accept)
