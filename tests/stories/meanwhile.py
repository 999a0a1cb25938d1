"""Observations of a world during a faulty run: the server's state whenever it is unlocked, and its guest's devices."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tools.scenarios.incarnations import Incarnations
from whimbrel.sim.checks.invariants import Violation, books
from whimbrel.sim.cloud.cloud import World

Books = dict[str, Any]
Seen = TypeVar("Seen")


def watch(trial: Incarnations, when: Callable[[str], bool], look: Callable[[], Awaitable[Seen]]) -> list[Seen]:
    """Read the world after each such touch; return what was read."""
    seen: list[Seen] = []
    each = trial.after_each

    async def after_each(touch: str) -> None:
        await each(touch)
        if when(touch):
            seen.append(await look())

    trial.after_each = after_each  # type: ignore[method-assign]
    return seen


async def held_by(world: World) -> Books:
    """Return the books of what a server has: whoever comes next finds it so."""
    guests = sorted((host, guest.key, guest.ports, guest.volumes) for host, guest in world.simulated.guests())
    return {**held(await books(world)), "has": guests}


def held(found: Books) -> Books:
    homes = {id: (server.host, server.slot) for id, server in found["servers"].items()}
    return {"homes": homes, **{key: found[key] for key in ("claims", "ports", "attachments", "guests")}}


def lets_go_a_port(touch: str) -> bool:
    return touch in ("network.delete_port", "network.free_port")


async def no_guest_is_misbound(world: World) -> None:
    for host, guest in world.simulated.guests():
        if guest.power == "running":
            there = {port.id for port in await world.cloud.network.ports_of([guest.key.server])}
            if loose := set(guest.ports) - there:
                raise Violation(f"it runs on {host} with {loose}, which was let go")
