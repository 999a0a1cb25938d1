"""A conductor sleeps through an operation and wakes after the server was changed again: it changes nothing."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.stories import attaching, breaking, test_heal
from tests.stories.choosing import chosen, of, services
from tests.stories.lifecycle import Ask, Set, resized
from tests.stories.shelving import shelved, unshelve
from tests.stories.test_repair_crashes import Repairing
from tools.scenarios.incarnations import Incarnations
from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import RequestedNic
from whimbrel.moves import requests
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.allocations import healing
from whimbrel.sim.checks.invariants import Violation, books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan, changes
from whimbrel.sim.world.equipment import PORT, VOLUME


@dataclass(frozen=True)
class Later:
    """then: what its owner does when the operation is over. is_refused: its last call is, so it is undone."""

    name: str
    saga: str
    begin: Callable[..., Incarnations]
    then: Set
    is_refused: bool = False

    def __str__(self) -> str:
        return self.name


# What happens later


def asked(ask: Ask) -> Set:
    async def act(world: World, server: Server) -> None:
        engine = world.engine("later")
        with suppress(WorldError):  # he has it already: it was not refused
            await ask(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
        await world.settle(engine)

    return act


async def moved(world: World, server: Server) -> None:
    """Make it live on another host."""
    await resized(world, server)
    await asked(requests.confirm)(world, server)


def migrated(*hosts: str) -> Set:
    """Make it move from host to host; the last move waits for its verdict."""

    async def act(world: World, server: Server) -> None:
        for number, host in enumerate(hosts):
            if number:
                await asked(requests.confirm)(world, server)
            await asked(partial(requests.migrate, host=HostName(host)))(world, server)
            assert (await lookup.find(world.cloud, server.id)).vm_state == "resized"

    return act


async def healed(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await healing.heal(cloud, engine, requester, server)


AGAIN = {
    "detach a volume": attaching.attach(at_once=True, volume=VOLUME),
    "unplug a port with bandwidth": attaching.plug(RequestedNic(port_id=PORT)),
}
"""How that comes back which an operation took away."""


def _of_operation(scenario: attaching.Scenario) -> list[Later]:
    begin = partial(attaching.Operation, scenario)
    if scenario.saga.startswith("attach"):
        again = Later(
            f"{scenario}, refused and asked for again", scenario.saga, begin, asked(scenario.ask), is_refused=True
        )
        then = asked(unshelve) if shelved in scenario.scene else moved
        return [Later(f"{scenario}, and it moves", scenario.saga, begin, then), again]
    return (
        [Later(f"{scenario}, and it comes back", scenario.saga, begin, asked(AGAIN[str(scenario)]))]
        if str(scenario) in AGAIN
        else []
    )


def _of_heal(scenario: test_heal.Scenario) -> list[Later]:
    begin = partial(test_heal.Healing, scenario)
    again = Later(f"{scenario.name}, refused and healed again", "heal_ports", begin, asked(healed), is_refused=True)
    return [Later(f"{scenario.name}, healed, and it moves", "heal_ports", begin, moved), again]


REPAIRED: dict[str, Set] = {
    "a port is bound to another host": migrated("h3"),
    "a port is bound to another host too": migrated("h3", "h1"),  # where it came from it is bound, and not active
    "a server has a port that it does not know": asked(attaching.plug(RequestedNic(port_id=breaking.FREE_PORT))),
}
"""What its owner does when that is repaired: what was too much is then due."""


def _of_repair(broken: breaking.Break) -> Later:
    return Later(f"{broken}, repaired, and due later", "repair", partial(Repairing, broken), REPAIRED[broken.name])


LATER = (
    *(later for scenario in attaching.SCENARIOS if resized not in scenario.scene for later in _of_operation(scenario)),
    *(later for scenario in (*test_heal.SCENARIOS, *test_heal.MORE) for later in _of_heal(scenario)),
    *(_of_repair(broken) for broken in breaking.MENDED if broken.name in REPAIRED),
)


# Telling


async def every_look(later: Later) -> str | None:
    """Make one sleep at each call to services that know no epochs, and at each look before one; say what is wrong."""
    undisturbed = await _touches(later.begin())
    refusal: Plan = {_last_call(undisturbed): Fault.REFUSED} if later.is_refused else {}
    for touch, name in chosen(await _touches(later.begin(refusal)), _may_wake_late):
        if touch not in refusal:
            try:
                await wakes_late(later, refusal, touch)
            except (AssertionError, Violation) as error:
                return f"{later}, SLEEP at {touch} {name}: {error}"
    return None


def _may_wake_late(touch: str) -> bool:
    """Leave out what names a binding and no revision: of a move that waits it takes one, and the way back makes it."""
    names_it_again = touch == "network.delete_bindings"
    return touch == "journal.get" or (services(touch) and not names_it_again)


async def wakes_late(later: Later, refusal: Plan, touch: int) -> None:
    """Make one sleep at a touch until its server was changed again: it finds nothing to change.

    refusal: what is refused. Who sleeps before it never comes so far: then others are refused.
    """
    plan: Plan = {touch: Fault.SLEEP}
    if touch > max(refusal, default=-1):
        await _woken(later, later.begin({**refusal, touch: Fault.SLEEP}))
        return
    others = (await _woken(later, later.begin(plan))).incarnations[1:]
    if others:
        await _woken(later, later.begin(plan, {_last_call(others[0].touches): Fault.REFUSED}))


async def _woken(later: Later, trial: Incarnations) -> Incarnations:
    await trial.set_the_scene()
    trial.after_each = _nobody_looks  # type: ignore[method-assign]
    sleeper, cloud, engine = trial.next_incarnation()
    acting = asyncio.create_task(_act(trial, cloud, engine))
    asleep = asyncio.create_task(sleeper.asleep.wait())
    await asyncio.wait((acting, asleep), return_when=asyncio.FIRST_COMPLETED)
    asleep.cancel()
    is_in_hand = not acting.done() and await trial.has_begun()
    if is_in_hand:
        trial.next_incarnation()
        await trial.settle()
        await later.then(trial.world, trial.server)
    waiting = await _books(trial.world)
    sleeper.wake.set()
    await acting
    if is_in_hand:
        now = await _books(trial.world)
        wrong = [f"{key} was {waiting[key]} and is {now[key]}" for key in now if now[key] != waiting[key]]
        assert not wrong, f"it woke, and changed what came later: {'; '.join(wrong)}"
    await trial.world.close()
    return trial


async def _act(trial: Incarnations, cloud: Cloud, engine: Engine) -> None:
    with suppress(WorldError):
        await trial.move(cloud, engine)


async def _touches(trial: Incarnations) -> list[str]:
    ended = await trial.play()
    await ended.world.close()
    return ended.incarnations[0].touches


def _last_call(names: list[str]) -> int:
    """Return the last call that can be refused."""
    return chosen(names, lambda name: changes(name) and _may_be_refused(name))[-1][0]


_may_be_refused = of("agent", "placement", "network", "volumes")


async def _nobody_looks(touch: str) -> None:
    """Shorter stories did."""


async def _books(world: World) -> dict[str, Any]:
    """Leave out attachments that are connected nowhere, and ports that are bound nowhere: they are let go."""
    held = await books(world)
    connected = [one for one in held["attachments"] if one[2] is not None]
    return {**held, "attachments": connected, "ports": [one for one in held["ports"] if one[3]]}
