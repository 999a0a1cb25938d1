"""A sleeping conductor, or a lost call, of one move of a server takes effect during its next move."""

import asyncio
from contextlib import suppress
from typing import Any

from tests.stories.choosing import services
from tests.stories.lifecycle import Ask
from tools.scenarios.incarnations import Result, release_late_effects
from tools.scenarios.moves import Story, Trial
from whimbrel.domain.errors import WorldError
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers.rounds import reconcile_slowly
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import Invariants, books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Chaos, Fault, changes


def knows_no_epochs(touch: str) -> bool:
    """Return what a conductor that slept just before may still do: it has checked that the run is its own."""
    return changes(touch) and services(touch)


async def wakes_in_a_later_move(story: Story, touch: int) -> bool:
    """Make a conductor sleep at a touch until its move was reverted, and made again: it changes nothing, not even then.

    False: it does not come to that touch while the move is in its hands.
    """
    trial = Trial(story, {touch: Fault.SLEEP})
    await trial.set_the_scene()
    before = await books(trial.world)
    sleeper, cloud, engine = trial.next_incarnation()
    acting = asyncio.create_task(_act(trial, sleeper, cloud, engine))
    asleep = asyncio.create_task(sleeper.asleep.wait())
    await asyncio.wait((acting, asleep), return_when=asyncio.FIRST_COMPLETED)
    asleep.cancel()
    is_in_hand = not acting.done() and await _is_in_hand(trial)
    if is_in_hand:
        await _go_back_and_move_again(trial)
    waiting = await _books(trial)
    sleeper.wake.set()
    await acting
    if is_in_hand:
        assert await _books(trial) == waiting, f"{story}: it woke at touch {touch}, and changed a later move"
        await trial.end()
        assert await books(trial.world) == before
    await trial.world.close()
    return is_in_hand


async def _act(trial: Trial, sleeper: Chaos, cloud: Cloud, engine: Engine) -> None:
    """Ask for the move and say what is wanted of it; who has slept says nothing any more."""
    for act in (trial.move, trial.say):
        if not sleeper.wake.is_set():
            with suppress(WorldError):
                await act(cloud, engine)


async def _is_in_hand(trial: Trial) -> bool:
    """Return whether the sleeper drives a run; before the run or its verdict is recorded, it only sends a request."""
    run = await trial.world.cloud.journal.open_run(trial.server.id)
    return run is not None and run.state == "open"


async def _books(trial: Trial) -> dict[str, Any]:
    """Leave out attachments that are connected nowhere: the volume service knows no epochs, and they are let go."""
    held = await books(trial.world)
    return {**held, "attachments": [one for one in held["attachments"] if one[2] is not None]}


async def _go_back_and_move_again(trial: Trial) -> None:
    _, cloud, engine = trial.next_incarnation()
    await trial.settle()
    await trial.end()
    await trial.move(cloud, engine)
    await trial.settle()
    assert (await lookup.find(cloud, trial.server.id)).vm_state == "resized"


async def late_in_a_later_move(story: Story, touch: int) -> None:
    """Deliver a lost call after the move was reverted, repeated and is parked.

    What conductors look after once a minute gives the ports back to the target while it still waits, and it can be
    confirmed or reverted as if nothing had come.
    """
    trial = Trial(story, {touch: Fault.LATE})
    await trial.play()
    await _go_back_and_move_again(trial)
    [late] = trial.incarnations[0].late
    undisturbed = await trial.world.copy()
    with suppress(WorldError):
        await late()
    tended = await trial.world.copy()
    await reconcile_slowly(tended.cloud, tended.engine("meanwhile"))
    await tended.settle(tended.engine("meanwhile"))
    assert active_at(tended) == active_at(undisturbed), f"{story}: touch {touch} cut a later move off"
    for judge in (requests.confirm, requests.revert):
        ends = [await _end(world, trial.server, judge) for world in (undisturbed, trial.world, tended)]
        assert ends[0] == ends[1] == ends[2], f"{story}: touch {touch} came in a later move"
    for world in (undisturbed, trial.world, tended):
        await world.close()


def active_at(world: World) -> dict[str, str]:
    """Return where each port's active binding is."""
    return {port.id: port.host for port in world.remains.network.everything()}


async def _end(there: World, server: Server, judge: Ask) -> dict[str, Any]:
    """Return the verdict in a copy of a world; return its books when all has come to its end."""
    world = await there.copy()
    engine = world.engine("at last")
    await judge(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)
    await release_late_effects(Result(world, {}, server, []))
    await Invariants(world).check()
    ended = await books(world)
    await world.close()
    return ended
