"""Scenarios of servers that are soft-deleted, restored and reclaimed."""

from msgspec.structs import replace

from tests.stories.lifecycle import RULES, Books, Scenario, gone, in_state, said_to_be_broken
from tools.scenarios.incarnations import Result
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.reconcilers.soft_deleted_servers import reclaim_soft_deleted
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import soft_delete
from whimbrel.sim.cloud.cloud import World

KEPT_S = 60
KEEPING = replace(RULES, reclaim_instance_interval_s=KEPT_S)


async def soft_deleted(world: World, server: Server) -> None:
    engine = world.engine("setup")
    await soft_delete.soft_delete(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)


async def let_its_time_pass(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await cloud.clock.sleep(KEPT_S)
    await reclaim_soft_deleted(cloud, engine)


async def kept(result: Result) -> Books:
    """Off, with all that it had, and counted in no quota."""
    off = await in_state("soft-delete", "stopped")(result)
    now = await lookup.find(result.world.cloud, result.server.id)
    assert now.soft_deleted_at
    was = result.before["servers"][result.server.id].vm_state
    marks = {"soft_deleted_at": now.soft_deleted_at, "soft_deleted_from": was}
    return {
        **off,
        "servers": {id: replace(record, **marks) for id, record in off["servers"].items()},
        "quota": dict.fromkeys(off["quota"], (0, 0)),
    }


async def restored(result: Result) -> Books:
    on = await in_state("active", "running")(result)
    marks = {"soft_deleted_at": None, "soft_deleted_from": None}
    return {
        **on,
        "servers": {id: replace(record, **marks) for id, record in on["servers"].items()},
        "quota": {id: record.counted for id, record in on["servers"].items()},
    }


SOFT_DELETES = (
    Scenario("soft delete", soft_delete.soft_delete, kept, devices=True),
    Scenario("soft delete of a broken one", soft_delete.soft_delete, kept, (said_to_be_broken,)),
    Scenario("restore", soft_delete.restore, restored, (soft_deleted,)),
    Scenario("reclaim", let_its_time_pass, gone, (soft_deleted,), insists=True, rules=KEEPING),
)
