"""Rescue: the guest is restarted from a rescue disk, with its own disk beside it; unrescue: as if it had never been.

Invariant: the guest's own disks and devices are not changed. The rescue disk exists from the rescue to the unrescue.
"""

from functools import partial

from whimbrel.domain import server_states
from whimbrel.domain.operation_facts import Operation, OperationFacts
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.server import Server
from whimbrel.moves.loose_volumes import check_connected
from whimbrel.moves.steps.disk import finished
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.lifecycle.power import power_as_before, power_off, power_on, see_power, settle

RESCUABLE = ("active", "stopped", "error")


async def build_rescue_disk(run: Operation, cloud: Cloud) -> None:
    assert run.facts.rescue, "it is saved when the rescue is accepted"
    agent, key = operation.agent(run, cloud), operation.key(run)
    await finished(partial(agent.build_rescue_disk, run.order, key, run.facts.rescue))


async def discard_rescue_disk(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).discard_rescue_disk(run.order, operation.key(run))


async def enter_rescue(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).enter_rescue(run.order, operation.key(run))


async def leave_rescue(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).leave_rescue(run.order, operation.key(run))


async def stop_started(run: Operation, cloud: Cloud) -> None:
    """Switch the guest off that the run has started."""
    await operation.agent(run, cloud).stop(run.order, operation.key(run), 0.0)


async def settle_rescued(run: Operation, cloud: Cloud) -> None:
    await settle(run, cloud, "rescued")


async def settle_unrescued(run: Operation, cloud: Cloud) -> None:
    await settle(run, cloud, "unrescued")


_RESCUE_EVENT, _UNRESCUE_EVENT = "compute_rescue_instance", "compute_unrescue_instance"

RESCUE = Saga(
    "rescue",
    1,
    OperationFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(power_off,)),
        Step(see_power),
        Step(build_rescue_disk, undo=discard_rescue_disk, event=_RESCUE_EVENT, after=(enter_rescue,)),
        # The guest is down from here until power_on.
        Step(power_off, undo=power_as_before, event=_RESCUE_EVENT, after=(enter_rescue,)),
        Step(enter_rescue, undo=leave_rescue, event=_RESCUE_EVENT, after=(power_on,)),
        Step(power_on, undo=stop_started, event=_RESCUE_EVENT),
        Step(settle_rescued),
    ),
)

UNRESCUE = Saga(
    "unrescue",
    1,
    OperationFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(power_off,)),
        Step(see_power),
        Step(power_off, undo=power_as_before, event=_UNRESCUE_EVENT, after=(leave_rescue,)),
        Step(leave_rescue, undo=enter_rescue, event=_UNRESCUE_EVENT, after=(power_on,)),
        Step(power_on, undo=stop_started, event=_UNRESCUE_EVENT),
    ),
    forward_only=(
        Step(discard_rescue_disk, event=_UNRESCUE_EVENT),  # what was written to it is lost, so nothing is undone after
        Step(settle_unrescued, event=_UNRESCUE_EVENT),
    ),
)


async def rescue(cloud: Cloud, engine: Engine, requester: Requester, server: Server, disk: RescueDisk) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await check_connected(cloud, server)
    await operation.accept(cloud, engine, requester, server, RESCUE, "rescue", "rescuing", RESCUABLE, rescue=disk)


async def unrescue(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(
        cloud, engine, requester, server, UNRESCUE, "unrescue", "unrescuing", (server_states.RESCUED,)
    )
