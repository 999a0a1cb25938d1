"""Start, stop, reboot: an undo restores the guest's power state. Also updates the record of a guest that went off."""

from msgspec.structs import replace

from whimbrel.domain import server_states
from whimbrel.domain.operation_facts import Operation, OperationFacts
from whimbrel.domain.server import Server
from whimbrel.moves.loose_volumes import check_connected
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation

HARD_REBOOT = ("active", "paused", "suspended", "stopped", "error")
"""The states from which a server is rebooted hard."""


async def see_power(run: Operation, cloud: Cloud) -> OperationFacts:
    """Save the guest's power: the record of a server in error does not say it, or is not reliable."""
    facts = run.facts
    guest = await operation.agent(run, cloud).look(operation.key(run))
    return replace(facts, ran=guest is not None and guest.power == "running", power=guest.power if guest else None)


async def power_on(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).start(run.order, operation.key(run))


async def power_off(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).stop(run.order, operation.key(run), cloud.rules.shutdown_timeout_s)


async def restart(run: Operation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).reboot(run.order, operation.key(run), run.facts.hard)


async def power_as_before(run: Operation, cloud: Cloud) -> None:
    """Ensure the power state that the server had. Memory that is lost by now is made by a boot."""
    agent, key = operation.agent(run, cloud), operation.key(run)
    facts = run.facts
    due = server_states.POWER_OF.get(facts.was) or facts.power or ("running" if facts.ran else "stopped")
    if due not in ("running", "paused", "suspended"):
        await power_off(run, cloud)
        return
    guest = await agent.look(key)
    if guest and guest.has_memory and guest.power not in ("running", due):
        await agent.resume(run.order, key)
    elif due == "running" or not (guest and guest.has_memory):
        await agent.start(run.order, key)
    if due == "paused":
        await agent.pause(run.order, key)
    elif due == "suspended":
        await agent.suspend(run.order, key)


async def settle_started(run: Operation, cloud: Cloud) -> None:
    await settle(run, cloud, "started")


async def settle_stopped(run: Operation, cloud: Cloud) -> None:
    await settle(run, cloud, "stopped")


async def settle_rebooted(run: Operation, cloud: Cloud) -> None:
    await settle(run, cloud, "rebooted")


async def settle_as_seen(run: Operation, cloud: Cloud) -> None:
    """Keep the state of a guest that has the power of its record; else it is off."""
    if is_as_recorded(run.facts):
        await operation.unlock(run, cloud)
    else:
        await settle(run, cloud, "stopped")


async def settle(run: Operation, cloud: Cloud, event: str) -> None:
    fields = {"vm_state": server_states.after(run.facts.was, event), "updated_at": cloud.clock.now()}
    await operation.records(run, cloud).unlock(run.order, run.subject, fields)


def is_as_recorded(facts: OperationFacts) -> bool:
    """Check whether the guest had the power of its record, when it was read."""
    return bool(facts.ran) or facts.power == server_states.POWER_OF.get(facts.was)


def is_broken(facts: OperationFacts) -> bool:
    return facts.was == "error"


def line(name: str, do: Step, settle: Step) -> Saga:
    lines = (
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(do.do,)),
        Step(see_power, only_if=is_broken),
        do,
        settle,
    )
    return Saga(name, 1, OperationFacts, lines)


START = line("start", Step(power_on, undo=power_as_before, event="compute_start_instance"), Step(settle_started))
STOP = line("stop", Step(power_off, undo=power_as_before, event="compute_stop_instance"), Step(settle_stopped))
REBOOT = line("reboot", Step(restart, undo=power_as_before, event="compute_reboot_instance"), Step(settle_rebooted))

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
    await check_connected(cloud, server)
    await operation.accept(cloud, engine, requester, server, START, "start", "powering-on", ("stopped",))


async def stop(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await operation.accept(cloud, engine, requester, server, STOP, "stop", "powering-off", ("active", "error"))


async def reboot(cloud: Cloud, engine: Engine, requester: Requester, server: Server, hard: bool) -> None:
    """Raises: WrongState; Conflict; Unavailable."""
    await check_connected(cloud, server)
    allowed = HARD_REBOOT if hard else ("active",)
    shows = "rebooting_hard" if hard else "rebooting"
    await operation.accept(cloud, engine, requester, server, REBOOT, "reboot", shows, allowed, hard=hard)


async def follow(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    """Update the record of a server recorded as running or paused to the power state of its guest.
    Raises: WrongState; Conflict; Unavailable.
    """
    await operation.accept(cloud, engine, requester, server, FOLLOW_POWER, "stop", "powering-off", ("active", "paused"))
