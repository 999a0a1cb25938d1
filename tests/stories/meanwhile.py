"""Observations of a world during a faulty run: the server's state whenever it is unlocked, and its guest's devices."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

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


def releases_a_port(touch: str) -> bool:
    return lets_go_a_port(touch) or touch == "network.unbind"


async def no_guest_is_misbound(world: World) -> None:
    for host, guest in world.simulated.guests():
        if guest.power == "running":
            there = {port.id for port in await world.cloud.network.ports_of([guest.key.server]) if port.host}
            if loose := set(guest.ports) - there:
                raise Violation(f"it runs on {host} with {loose}, which was let go")


async def runs_with_its_network(world: World) -> None:
    """Check that the ports of guests that run are active on their hosts."""
    for host, guest in world.simulated.running():
        for port in await world.cloud.network.ports_of([guest.key.server]):
            if port.id in guest.ports and port.host != host:
                raise Violation(f"it runs on {host}, and port {port.id} is active on {port.host}")


async def has_its_devices(world: World) -> None:
    """Check that guests, except those that are off, have the bindings and attachments that they were given."""
    for host, hypervisor in world.hypervisors.items():
        for guest in (one for one in hypervisor._guests.all() if one.power != "stopped"):
            for nic in guest.spec.nics:
                if host not in {one.host for one in await world.cloud.network.bindings(nic.port_id)}:
                    raise Violation(f"port {nic.port_id} of a guest on {host} is not bound there any more")
            attached = {one.id for one in await world.cloud.volumes.attachments(guest.key.server)}
            if lost := {volume.attachment_id for volume in guest.spec.volumes} - attached:
                raise Violation(f"attachments of a guest on {host} were deleted: {lost}")


async def no_volume_is_written(world: World) -> None:
    if written := world.remains.volumes.written():
        raise Violation(f"volumes are let go or connected while images are written into them: {written}")


async def no_image_lacks_its_snapshots(world: World) -> None:
    """Check that images of volumes name snapshots that exist."""
    snapshots = {one.id for one in world.remains.volumes.snapshots()}
    for image in await world.images.with_properties({"bdm_v2": "True"}):
        devices = msgspec.json.decode(image.properties["block_device_mapping"])
        if gone := {one["snapshot_id"] for one in devices} - snapshots:
            raise Violation(f"image {image.id} names snapshots that are gone: {gone}")
