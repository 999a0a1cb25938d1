"""Start, stop, reboot: an undo restores the guest's power state. Also updates the record of a guest that went off."""

from msgspec.structs import replace

from whimbrel.domain import server_states
from whimbrel.domain.operation_facts import Operation, OperationFacts
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation


async def see_power(run: Operation, cloud: Cloud) -> OperationFacts:
    """Save whether the guest runs: the record of a server in error does not say, or is not reliable."""
    facts = run.facts
    guest = await operation.agent(run, cloud).look(operation.key(run))
    return replace(facts, ran=guest is not None and guest.power == "running")


async def power_on(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).start(run.order, operation.key(run))


async def power_off(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).stop(run.order, operation.key(run), cloud.rules.shutdown_timeout_s)


async def restart(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).reboot(run.order, operation.key(run), run.facts.hard)


async def power_as_before(run: Operation, cloud: Cloud) -> None:
    ran = run.facts.was == "active" or run.facts.ran
    await (power_on if ran else power_off)(run, cloud)


async def settle_started(run: Operation, cloud: Cloud) -> None:
    await _settle(run, cloud, "started")


async def settle_stopped(run: Operation, cloud: Cloud) -> None:
    await _settle(run, cloud, "stopped")


async def settle_rebooted(run: Operation, cloud: Cloud) -> None:
    await _settle(run, cloud, "rebooted")


async def settle_as_seen(run: Operation, cloud: Cloud) -> None:
    await _settle(run, cloud, "started" if run.facts.ran else "stopped")


async def _settle(run: Operation, cloud: Cloud, event: str) -> None:
    fields = {"vm_state": server_states.after(run.facts.was, event), "updated_at": cloud.clock.now()}
    await operation.records(run, cloud).unlock(run.order, run.subject, fields)


def is_broken(facts: OperationFacts) -> bool:
    return facts.was == "error"


def _line(name: str, do: Step, settle: Step) -> Saga:
    lines = (
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(do.do,)),
        Step(see_power, only_if=is_broken),
        do,
        settle,
    )
    return Saga(name, 1, OperationFacts, lines)


START = _line("start", Step(power_on, undo=power_as_before, event="compute_start_instance"), Step(settle_started))
STOP = _line("stop", Step(power_off, undo=power_as_before, event="compute_stop_instance"), Step(settle_stopped))
REBOOT = _line("reboot", Step(restart, undo=power_as_before, event="compute_reboot_instance"), Step(settle_rebooted))

FOLLOW_POWER = Saga(
    "follow_power",
    1,
    OperationFacts,
    (
        Step(operation.lock, undo=operation.unlock, in_request=True),  # from here on no other run powers the guest
        Step(see_power),
        Step(settle_as_seen),
    ),
)


async def start(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(cloud, engine, requester, server, START, "start", "powering-on", ("stopped",))


async def stop(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(cloud, engine, requester, server, STOP, "stop", "powering-off", ("active", "error"))


async def reboot(cloud: Cloud, engine: Engine, requester: Requester, server: Server, hard: bool) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    allowed = ("active", "stopped", "error") if hard else ("active",)
    shows = "rebooting_hard" if hard else "rebooting"
    await operation.accept(cloud, engine, requester, server, REBOOT, "reboot", shows, allowed, hard=hard)


async def follow(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Update the record of a server recorded as running to the power state of its guest.
    Raises: WrongState; Conflict; Unavailable.
    """
    await operation.accept(cloud, engine, requester, server, FOLLOW_POWER, "stop", "powering-off", ("active",))
