"""The server's record: its lock, its states, and its host."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from whimbrel.domain import server_states
from whimbrel.domain.errors import LockLost, NotFound, WrongState
from whimbrel.domain.ids import CellName
from whimbrel.domain.run import Run, has_facts
from whimbrel.moves.facts import Location, Move, MoveFacts, source_of, target_of
from whimbrel.moves.steps import volumes
from whimbrel.moves.steps.home_cell import home_record, records_at_home, switch
from whimbrel.ports.cloud import Cloud


async def show(run: Run, task_state: str, cloud: Cloud) -> None:
    """Set the task state of a server on a host while a move works on it."""
    assert has_facts(run, MoveFacts), "only lines of moves show something"
    facts = run.facts
    if facts.source or facts.home or facts.target:
        has_record = facts.source or facts.home
        records = await records_at_home(run, cloud) if has_record else cloud.cell(target_of(run).cell).servers
        await records.show_task(run.order, run.subject, task_state, cloud.clock.now())


async def lock(move: Move, cloud: Cloud) -> None:
    """Lock the server, if it is idle and as it was at the request. Raises: WrongState: it is not."""
    await lock_for("resize_prep", move, cloud)


async def lock_migrating(move: Move, cloud: Cloud) -> None:
    """Lock the server for a live migration, as `lock` does."""
    await lock_for("migrating", move, cloud)


async def lock_for(task_state: str, move: Move, cloud: Cloud) -> None:
    """Lock the server as `lock` does; it shows this task_state."""
    source, now = source_of(move), cloud.clock.now()
    records = cloud.cell(source.cell).servers
    try:
        await records.lock(move.order, move.subject, task_state, move.facts.was, source.slot, now)
    except NotFound:
        raise WrongState(f"Instance {move.subject} was moved meanwhile.") from None  # to another cell


async def unlock(move: Move, cloud: Cloud) -> None:
    """Unlock the server, in its vm_state before the move."""
    fields = {"vm_state": move.facts.was, "updated_at": cloud.clock.now()}
    await (await records_at_home(move, cloud)).unlock(move.order, move.subject, fields)


async def switch_home(move: Move, cloud: Cloud) -> None:
    """Write the new host and flavor into the record. This row is the commit point."""
    facts = move.facts
    now = cloud.clock.now()
    fields = {
        **location_fields(target_of(move)),
        "flavor": facts.new_flavor,
        "volumes": volumes.devices_at_target(facts),
        "vm_state": server_states.after(facts.was, "moved"),
        "task_state": None,
        "launched_at": now,
        "updated_at": now,
    }
    await live(move, source_of(move).cell, target_of(move).cell, fields, cloud)


async def move_home(move: Move, cloud: Cloud) -> None:
    """Write the new host and the zone pin into the record of a server that arrived live. Its state stays as it was."""
    fields = {
        **location_fields(target_of(move)),
        **await _pin(move, cloud),
        "volumes": volumes.devices_at_target(move.facts),
        "updated_at": cloud.clock.now(),
    }
    await live(move, source_of(move).cell, target_of(move).cell, fields, cloud)


async def switch_home_back(move: Move, cloud: Cloud) -> None:
    """Restore the source as the server's host, and the old flavor. `unlock` restores the vm_state."""
    facts = move.facts
    fields = {**location_fields(source_of(move)), "flavor": facts.old_flavor, "launched_at": facts.launched_at}
    await live(move, target_of(move).cell, source_of(move).cell, fields, cloud)


async def switch_home_again(move: Move, cloud: Cloud) -> None:
    """Make the target the server's host again after `switch_home_back`. Volumes stay as they are: the owner may have
    changed them before the verdict.
    """
    facts, now = move.facts, cloud.clock.now()
    fields = {
        **location_fields(target_of(move)),
        "flavor": facts.new_flavor,
        "vm_state": server_states.after(facts.was, "moved"),
        "task_state": None,
        "launched_at": now,
        "updated_at": now,
    }
    await live(move, source_of(move).cell, target_of(move).cell, fields, cloud)


async def live(move: Move, was: CellName, to: CellName, fields: Mapping[str, Any], cloud: Cloud) -> None:
    """Set these fields in the record, which goes from one cell to the other if they differ."""
    if was == to:
        await cloud.cell(to).servers.change_by_run(move.order, move.subject, fields)
    else:
        await switch(move, was, to, fields, cloud)


async def unlock_resized(move: Move, cloud: Cloud) -> None:
    """Unlock the confirmed server, running or stopped as before, and update its pin if it was moved past it."""
    settled = server_states.after("resized", "settled stopped" if move.facts.was == "stopped" else "settled running")
    fields = {"vm_state": settled, "updated_at": cloud.clock.now(), **await _pin(move, cloud)}
    await (await records_at_home(move, cloud)).unlock(move.order, move.subject, fields)


async def _pin(move: Move, cloud: Cloud) -> dict[str, Any]:
    """Return the change of the zone pin: only a finished move to a zone, or out of one, changes it."""
    facts = move.facts
    if facts.zone_pin is None or not (facts.asked_zone or facts.leaves_zone):
        return {}
    record = await home_record(move, cloud)
    return {"spec": replace(record.spec, zone_pin=target_of(move).zone)}


async def await_verdict(move: Move, cloud: Cloud) -> None:
    """Park in VERIFY_RESIZE until confirm or revert. The engine never calls this."""


async def show_reverting(move: Move, cloud: Cloud) -> None:
    with suppress(LockLost):  # as a debt it may be paid after the unlock: nothing to show
        await show(move, "resize_reverting", cloud)


def location_fields(location: Location) -> dict[str, Any]:
    return {"cell": location.cell, "host": location.host, "zone": location.zone, "slot": location.slot}
