"""What reaches a later move of a server: a conductor that slept through the first, or a call that was lost then."""

import asyncio
from contextlib import suppress
from typing import Any

from tests.stories.choosing import services
from tests.stories.living import Ask
from tools.scenarios.incarnations import Told, release_late_effects
from tools.scenarios.moves import Story, Telling
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
    """Tell of what one who sleeps just before it may still do: it has looked whether the run is his."""
    return changes(touch) and services(touch)


async def wakes_in_a_later_move(story: Story, touch: int) -> bool:
    """Have a conductor sleep at a touch until its move was reverted, and made again: it changes nothing, not even then.

    False: it does not come to that touch while the move is in its hands.
    """
    telling = Telling(story, {touch: Fault.SLEEP})
    await telling.set_the_scene()
    before = await books(telling.world)
    sleeper, cloud, engine = telling.next_life()
    acting = asyncio.create_task(_act(telling, sleeper, cloud, engine))
    asleep = asyncio.create_task(sleeper.asleep.wait())
    await asyncio.wait((acting, asleep), return_when=asyncio.FIRST_COMPLETED)
    asleep.cancel()
    is_in_hand = not acting.done() and await _is_in_hand(telling)
    if is_in_hand:
        await _go_back_and_move_again(telling)
    waiting = await _books(telling)
    sleeper.wake.set()
    await acting
    if is_in_hand:
        assert await _books(telling) == waiting, f"{story}: it woke at touch {touch}, and changed a later move"
        await telling.end()
        assert await books(telling.world) == before
    await telling.world.close()
    return is_in_hand


async def _act(telling: Telling, sleeper: Chaos, cloud: Cloud, engine: Engine) -> None:
    """Ask for the move and say what is wanted of it; who has slept says nothing any more."""
    for act in (telling.move, telling.say):
        if not sleeper.wake.is_set():
            with suppress(WorldError):
                await act(cloud, engine)


async def _is_in_hand(telling: Telling) -> bool:
    """Tell whether the sleeper drives a run; before it is written down, or a verdict of it is, it only asks for one."""
    run = await telling.world.cloud.journal.open_run(telling.server.id)
    return run is not None and run.state == "open"


async def _books(telling: Telling) -> dict[str, Any]:
    """Leave out attachments that are connected nowhere: the volume service knows no epochs, and they are let go."""
    held = await books(telling.world)
    return {**held, "attachments": [one for one in held["attachments"] if one[2] is not None]}


async def _go_back_and_move_again(telling: Telling) -> None:
    _, cloud, engine = telling.next_life()
    await telling.settle()
    await telling.end()
    await telling.move(cloud, engine)
    await telling.settle()
    assert (await lookup.find(cloud, telling.server.id)).vm_state == "resized"


async def late_in_a_later_move(story: Story, touch: int) -> None:
    """Have a lost call arrive when the move was reverted, made again and waits.

    What conductors look after once a minute gives the ports back to the target while it still waits, and it can be
    confirmed or reverted as if nothing had come.
    """
    telling = Telling(story, {touch: Fault.LATE})
    await telling.tell()
    await _go_back_and_move_again(telling)
    [late] = telling.lives[0].late
    undisturbed = await telling.world.copy()
    with suppress(WorldError):
        await late()
    tended = await telling.world.copy()
    await reconcile_slowly(tended.cloud, tended.engine("meanwhile"))
    await tended.settle(tended.engine("meanwhile"))
    assert active_at(tended) == active_at(undisturbed), f"{story}: touch {touch} cut a later move off"
    for judge in (requests.confirm, requests.revert):
        ends = [await _end(world, telling.server, judge) for world in (undisturbed, telling.world, tended)]
        assert ends[0] == ends[1] == ends[2], f"{story}: touch {touch} came in a later move"
    for world in (undisturbed, telling.world, tended):
        await world.close()


def active_at(world: World) -> dict[str, str]:
    """Give where each port's active binding is."""
    return {port.id: port.host for port in world.remains.network.everything()}


async def _end(there: World, server: Server, judge: Ask) -> dict[str, Any]:
    """Give the verdict in a copy of a world; give its books when all has come to its end."""
    world = await there.copy()
    engine = world.engine("at last")
    await judge(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)
    await release_late_effects(Told(world, {}, server, []))
    await Invariants(world).check()
    ended = await books(world)
    await world.close()
    return ended
