"""Soft delete: what DELETE, restore and forceDelete do where servers are kept for a while."""

import pytest

from tests.api.front import Front, fault
from whimbrel.ports.cloud import Rules
from whimbrel.proof.proof import prove
from whimbrel.reconcilers.rounds import reconcile, reconcile_slowly

KEPT_S = 3600
RULES = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, reclaim_instance_interval_s=KEPT_S)
pytestmark = pytest.mark.cloud(rules=RULES)


async def delete(front: Front, server_id: str) -> None:
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await front.settle()


async def listed(front: Front, query: str = "", **more: str) -> list[str]:
    return [one["id"] for one in (await front.get(f"/servers{query}", **more))["servers"]]


async def test_a_deleted_server_is_kept_and_restored(front: Front) -> None:
    server_id = await front.boot()
    await delete(front, server_id)
    await delete(front, server_id)  # again: it stays
    server = await front.show(server_id)
    states = [server[key] for key in ("status", "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state")]
    assert states == ["SOFT_DELETED", "soft-delete", 4]
    assert await listed(front) == []
    for query in ("?deleted=True", "?soft_deleted=True", "?status=SOFT_DELETED"):
        assert await listed(front, query, who="admin") == [server_id]
    limits = (await front.get("/limits"))["limits"]["absolute"]
    assert (limits["totalInstancesUsed"], limits["totalCoresUsed"]) == (0, 0)
    for action in ({"os-start": None}, {"rescue": None}, {"migrate": None}, {"shelve": None}):
        fault(await front.act(server_id, action, who="admin"), "conflictingRequest", 409)
    fault(await front.act(server_id, {"restore": None}, who="reader"), "forbidden", 403)
    assert (await front.act(server_id, {"restore": None})).status_code == 202
    await front.settle()
    assert (await front.show(server_id))["status"] == "ACTIVE"
    fault(await front.act(server_id, {"restore": None}), "conflictingRequest", 409)
    actions = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    assert [action["action"] for action in actions] == ["restore", "delete", "create"]


async def test_a_restore_needs_quota(front: Front) -> None:
    kept, project = await front.boot(), front.world.requester().project_id
    await delete(front, kept)
    limit = {"quota_set": {"instances": 1}}
    assert (await front.ask("PUT", f"/os-quota-sets/{project}", limit, who="admin")).status_code == 200
    other = await front.boot()
    assert "instances" in fault(await front.act(kept, {"restore": None}), "forbidden", 403)
    assert (await front.show(kept))["status"] == "SOFT_DELETED"
    await front.act(other, {"forceDelete": None})
    await front.settle()
    assert (await front.act(kept, {"restore": None})).status_code == 202


@pytest.mark.parametrize("state", ["active", "error"])
async def test_a_reset_of_its_state_does_not_bring_it_back_past_the_quota(front: Front, state: str) -> None:
    server_id = await front.boot()
    await delete(front, server_id)
    answer = await front.act(server_id, {"os-resetState": {"state": state}}, who="admin")
    assert "restore or delete it" in fault(answer, "conflictingRequest", 409)
    assert not (await prove(front.world.cloud)).violations
    assert (await front.act(server_id, {"restore": None})).status_code == 202
    await front.settle()
    limits = (await front.get("/limits"))["limits"]["absolute"]
    assert (limits["totalInstancesUsed"], limits["totalCoresUsed"]) == (1, 1)


async def test_a_server_is_reclaimed_when_its_time_is_over(front: Front) -> None:
    server_id = await front.boot()
    await delete(front, server_id)
    await reconcile_slowly(front.world.cloud, front.engine)
    assert (await front.show(server_id))["status"] == "SOFT_DELETED"
    await front.world.cloud.clock.sleep(KEPT_S)
    await reconcile_slowly(front.world.cloud, front.engine)
    await front.settle()
    fault(await front.ask("GET", f"/servers/{server_id}"), "itemNotFound", 404)


async def test_force_delete_and_servers_without_a_guest_are_not_kept(front: Front) -> None:
    kept, building = await front.boot(), await front.boot(settle=False)
    await delete(front, building)
    await delete(front, kept)
    await front.act(kept, {"forceDelete": None})
    await reconcile(front.world.cloud, front.engine)
    await front.settle()
    for server_id in (kept, building):
        fault(await front.ask("GET", f"/servers/{server_id}"), "itemNotFound", 404)


@pytest.mark.parametrize(("action", "status"), [("rescue", "RESCUE"), ("shelve", "SHELVED")])
@pytest.mark.cloud(rules=Rules(reclaim_instance_interval_s=KEPT_S, shelved_offload_time_s=-1))
async def test_a_server_comes_back_rescued_or_shelved(front: Front, action: str, status: str) -> None:
    server_id = await front.boot()
    await front.act(server_id, {action: None})
    await front.settle()
    await delete(front, server_id)
    await front.act(server_id, {"restore": None})
    await front.settle()
    assert (await front.show(server_id))["status"] == status
