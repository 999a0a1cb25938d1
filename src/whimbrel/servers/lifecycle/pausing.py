"""Pause and unpause, suspend and resume: the guest keeps its memory, in its host's memory or on a disk of the host.

An undo restores the power state that the server had.
"""

from whimbrel.domain.operation_facts import Operation
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Step
from whimbrel.servers import operation
from whimbrel.servers.lifecycle.power import line, power_as_before, settle


async def pause_guest(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).pause(run.order, operation.key(run))


async def suspend_guest(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).suspend(run.order, operation.key(run))


async def resume_guest(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).resume(run.order, operation.key(run))


async def settle_paused(run: Operation, cloud: Cloud) -> None:
    await settle(run, cloud, "paused")


async def settle_unpaused(run: Operation, cloud: Cloud) -> None:
    await settle(run, cloud, "unpaused")


async def settle_suspended(run: Operation, cloud: Cloud) -> None:
    await settle(run, cloud, "suspended")


async def settle_resumed(run: Operation, cloud: Cloud) -> None:
    await settle(run, cloud, "resumed")


PAUSE = line("pause", Step(pause_guest, undo=power_as_before, event="compute_pause_instance"), Step(settle_paused))
UNPAUSE = line(
    "unpause", Step(resume_guest, undo=power_as_before, event="compute_unpause_instance"), Step(settle_unpaused)
)
SUSPEND = line(
    "suspend", Step(suspend_guest, undo=power_as_before, event="compute_suspend_instance"), Step(settle_suspended)
)
RESUME = line("resume", Step(resume_guest, undo=power_as_before, event="compute_resume_instance"), Step(settle_resumed))


async def pause(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(cloud, engine, requester, server, PAUSE, "pause", "pausing", ("active",))


async def unpause(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(cloud, engine, requester, server, UNPAUSE, "unpause", "unpausing", ("paused",))


async def suspend(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(cloud, engine, requester, server, SUSPEND, "suspend", "suspending", ("active",))


async def resume(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(cloud, engine, requester, server, RESUME, "resume", "resuming", ("suspended",))
