"""Cores and ram of quotas that are counted from Placement, as with Nova's quota.count_usage_from_placement."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.api.front import IMAGE, PROJECT, USER, Front, fault, opened
from tests.api.test_unified_limits import ENOUGH, Limits
from whimbrel.adapters.openstack.keystone_quotas import UnifiedQuotas
from whimbrel.domain.quota_settings import QuotaRules
from whimbrel.ports.cloud import Rules
from whimbrel.sim.world.clock import JumpingClock

COUNTED = QuotaRules(count_usage_from_placement=True)
MINE = f"/os-quota-sets/{PROJECT}"
LARGER = "2"  # two cores

pytestmark = pytest.mark.cloud(
    rules=Rules(quota=COUNTED, cpu_allocation_ratio=1.0, step_timeout_s=20.0, reclaim_instance_interval_s=3600)
)


async def limit(front: Front, **limits: int) -> None:
    answer = await front.ask("PUT", MINE, {"quota_set": {**limits, "force": True}}, who="admin")
    assert answer.status_code == 200, answer.text


async def create(front: Front, **fields: Any) -> Any:
    server = {"name": "x", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **fields}
    return await front.ask("POST", "/servers", {"server": server})


async def used(front: Front) -> tuple[int, int]:
    """Return instances and cores; all that show a usage show the same."""
    absolute = (await front.get("/limits"))["limits"]["absolute"]
    detail = (await front.get(f"{MINE}/detail"))["quota_set"]
    of_user = (await front.get(f"{MINE}/detail?user_id={USER}"))["quota_set"]
    of_nobody = (await front.get(f"{MINE}/detail?user_id=nobody"))["quota_set"]
    for name, shown in (("instances", "totalInstancesUsed"), ("cores", "totalCoresUsed"), ("ram", "totalRAMUsed")):
        assert detail[name]["in_use"] == of_user[name]["in_use"] == absolute[shown]
        assert of_nobody[name]["in_use"] == 0
    return absolute["totalInstancesUsed"], absolute["totalCoresUsed"]


async def test_a_server_that_is_resized_counts_with_both_claims_until_its_verdict(front: Front) -> None:
    server = await front.boot()
    assert await used(front) == (1, 1)
    await limit(front, cores=2)
    assert (
        await front.act(server, {"resize": {"flavorRef": LARGER}})
    ).status_code == 202  # one more, as Nova checks it
    await front.settle()
    assert await used(front) == (1, 3)
    refused = fault(await create(front), "forbidden", 403)
    assert refused == "Quota exceeded for cores: Requested 1, but already used 3 of 2 cores"
    assert (await front.act(server, {"revertResize": None})).status_code == 202
    await front.settle()
    assert await used(front) == (1, 1)
    await limit(front, cores=1)
    assert "cores" in fault(await front.act(server, {"resize": {"flavorRef": LARGER}}), "forbidden", 403)


async def test_an_offloaded_server_counts_as_an_instance_only_and_needs_its_cores_again(front: Front) -> None:
    server = await front.boot()
    await front.act(server, {"shelve": None})
    await front.settle()
    assert (await front.show(server))["status"] == "SHELVED_OFFLOADED"
    assert await used(front) == (1, 0)
    await limit(front, cores=1)
    other = await front.boot()
    unshelve = {"unshelve": None}
    assert "Quota exceeded for cores" in fault(await front.act(server, unshelve), "forbidden", 403)
    await front.act(other, {"forceDelete": None})
    await front.settle()
    assert (await front.act(server, unshelve)).status_code == 202
    await front.settle()
    assert await used(front) == (1, 1)


async def test_servers_count_before_they_have_a_claim(front: Front) -> None:
    await limit(front, cores=2)
    assert (await create(front)).status_code == 202  # nothing settles in between
    assert await used(front) == (1, 1)
    assert "already used 1 of 2" in fault(await create(front, min_count=2), "forbidden", 403)
    assert (await create(front)).status_code == 202
    assert "already used 2 of 2" in fault(await create(front), "forbidden", 403)
    await front.settle()
    assert await used(front) == (2, 2)


async def test_a_server_that_no_host_can_have_counts_as_an_instance_only(front: Front) -> None:
    flavor = {"name": "huge", "vcpus": 1000, "ram": 64, "disk": 1, "id": "huge"}
    assert (await front.ask("POST", "/flavors", {"flavor": flavor}, who="admin")).status_code == 200
    await limit(front, cores=1000)
    server = await front.boot(flavorRef="huge")
    assert (await front.show(server))["status"] == "ERROR"
    assert await used(front) == (1, 0)
    assert (await create(front)).status_code == 202


async def test_a_soft_deleted_server_has_its_cores_still(front: Front) -> None:
    server = await front.boot()
    await front.ask("DELETE", f"/servers/{server}")
    await front.settle()
    assert (await front.show(server))["status"] == "SOFT_DELETED"
    assert await used(front) == (0, 1)
    await limit(front, cores=1)
    fault(await create(front), "forbidden", 403)
    assert (await front.act(server, {"restore": None})).status_code == 202
    await front.settle()
    assert await used(front) == (1, 1)


async def test_no_limit_below_what_is_used(front: Front) -> None:
    server = await front.boot()
    await front.act(server, {"resize": {"flavorRef": LARGER}})
    await front.settle()
    answer = await front.ask("PUT", MINE, {"quota_set": {"cores": 2}}, who="admin")
    assert "already used 3" in fault(answer, "badRequest", 400)


async def test_as_many_servers_as_the_quota_allows(front: Front) -> None:
    await front.boot()
    await limit(front, cores=3)
    assert (await create(front, min_count=1, max_count=5)).status_code == 202
    await front.settle()
    assert await used(front) == (3, 3)


@asynccontextmanager
async def unified(registered: dict[str, int]) -> AsyncIterator[Front]:
    rules = QuotaRules(driver="unified", count_usage_from_placement=True)
    quotas = UnifiedQuotas(Limits(registered), rules, JumpingClock())
    async with opened(
        Rules(quota=rules, cpu_allocation_ratio=1.0, step_timeout_s=20.0), ports={"quotas": quotas}
    ) as front:
        yield front


@pytest.mark.parametrize(("cores", "is_enough"), [(3, True), (2, False)])
async def test_under_unified_limits_a_resize_needs_room_for_both_claims(cores: int, is_enough: bool) -> None:
    async with unified(ENOUGH | {"class:VCPU": cores}) as front:
        server = await front.boot()
        answer = await front.act(server, {"resize": {"flavorRef": LARGER}})
        if is_enough:
            assert answer.status_code == 202, answer.text
        else:
            assert "Requested 2, but already used 1 of 2 cores" in fault(answer, "forbidden", 403)
