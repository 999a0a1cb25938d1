"""The record and the images of a server that is unshelved on a new host."""

from typing import Any

from msgspec.structs import replace

from whimbrel.domain import server_states
from whimbrel.domain.errors import NotFound, WrongState
from whimbrel.domain.server import NOT_SHELVED
from whimbrel.moves.facts import Move, home_of, target_of
from whimbrel.moves.steps import guest, shelved_images, volumes
from whimbrel.moves.steps.home_cell import home_record, records_at_home
from whimbrel.moves.steps.record import live, location_fields
from whimbrel.ports.cloud import Cloud

OFFLOADED = "shelved_offloaded"


async def lock_shelved(move: Move, cloud: Cloud) -> None:
    """Lock the server, if it is idle and on no host. Raises: WrongState: it is not."""
    records = cloud.cell(home_of(move)).servers
    try:
        await records.lock(move.order, move.subject, "unshelving", OFFLOADED, None, cloud.clock.now())
    except NotFound:
        raise WrongState(f"Instance {move.subject} was unshelved meanwhile.") from None  # in another cell


async def unlock_shelved(move: Move, cloud: Cloud) -> None:
    fields = {"vm_state": OFFLOADED, "updated_at": cloud.clock.now()}
    await (await records_at_home(move, cloud)).unlock(move.order, move.subject, fields)


async def check_images(move: Move, cloud: Cloud) -> None:
    """Raises: Refused: an image is not there or not whole."""
    await shelved_images.check(move.facts.shelved_images, cloud)


async def record_host(move: Move, cloud: Cloud) -> None:
    """Write the new host, the volumes and the zone pin into the record. This row is the commit point.

    From here on the images are of no use; so the guest that replaces them is seen first.
    """
    await guest.check_target_whole(move, cloud)
    now, target, facts = cloud.clock.now(), target_of(move), move.facts
    fields: dict[str, Any] = {
        **location_fields(target),
        **NOT_SHELVED,
        **await _pin(move, cloud),
        "volumes": volumes.devices_at_target(facts),
        "vm_state": server_states.after(OFFLOADED, "unshelved"),
        "launched_at": now,
        "updated_at": now,
    }
    await live(move, home_of(move), target.cell, fields, cloud)


async def _pin(move: Move, cloud: Cloud) -> dict[str, Any]:
    """Return the requested change of the zone pin."""
    facts = move.facts
    if not (facts.asked_zone or facts.leaves_zone):
        return {}
    record = await home_record(move, cloud)
    return {"spec": replace(record.spec, zone_pin=facts.asked_zone)}


async def settle_unshelved(move: Move, cloud: Cloud) -> None:
    fields = {"updated_at": cloud.clock.now()}
    await (await records_at_home(move, cloud)).unlock(move.order, move.subject, fields)


async def drop_images(move: Move, cloud: Cloud) -> None:
    await shelved_images.delete(move.facts.shelved_images, cloud)
