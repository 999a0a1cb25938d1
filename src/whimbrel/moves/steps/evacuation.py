"""The record and the guest in an evacuation. The source is dead: nothing here needs its agent.

Until `arrive` the record names the source, where nothing is touched: whatever was built on the target may go.
"""

from whimbrel.domain import server_states
from whimbrel.domain.ids import ServerId
from whimbrel.moves.evacuation_facts import Evacuation, EvacuationFacts, starts
from whimbrel.moves.facts import Move, crosses_cells, key_at, source_of, target_of
from whimbrel.moves.steps import dead_source, guest, plugging, record, volumes
from whimbrel.moves.steps.home_cell import records_at_home, switch
from whimbrel.ports.cloud import Cloud


async def lock(move: Move, cloud: Cloud) -> None:
    """Lock the server, if it is idle and as it was at the request. Raises: WrongState: it is not."""
    await record.lock_for("rebuilding", move, cloud)


async def start_evacuated(move: Evacuation, cloud: Cloud) -> None:
    """Define the guest on the target with its devices, and start it unless it is to stay stopped.

    Raises: TurnedBack: the source has come back with its guest.
    """
    await dead_source.check_not_refuted(move, cloud)
    target = target_of(move)
    agent = guest.agent_at(cloud, target)
    await agent.define(move.order, await guest.equipped_target(move, cloud))
    if starts(move.facts):
        await plugging.start(move, target, cloud)


async def remove_from_target(move: Move, cloud: Cloud) -> None:
    """Ensure that nothing of the guest is on the target. It replaces nothing yet: the record names the source."""
    target = target_of(move)
    await guest.agent_at(cloud, target).destroy(move.order, key_at(move, target))


async def arrive(move: Evacuation, cloud: Cloud) -> None:
    """Write the target into the record. This row is the commit point."""
    source, target, now = source_of(move), target_of(move), cloud.clock.now()
    fields = {
        **move.facts.changes,
        "cell": target.cell,
        "host": target.host,
        "zone": target.zone,
        "slot": target.slot,
        "volumes": volumes.devices_at_target(move.facts),
        "launched_at": now,
        "updated_at": now,
    }
    if crosses_cells(move.facts):
        await switch(move, source.cell, target.cell, fields, cloud)
    else:
        await cloud.cell(target.cell).servers.change_by_run(move.order, ServerId(move.subject), fields)


async def unlock_evacuated(move: Evacuation, cloud: Cloud) -> None:
    fields = {"vm_state": state_after(move.facts), "fault": None, "updated_at": cloud.clock.now()}
    await (await records_at_home(move, cloud)).unlock(move.order, move.subject, fields)


def state_after(facts: EvacuationFacts) -> str:
    """Return the vm_state of an evacuated server."""
    return server_states.after(facts.was, "evacuated running" if starts(facts) else "evacuated stopped")
