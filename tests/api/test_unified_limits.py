"""Quotas by the limits of Keystone, as Nova's clients see them with its unified limits driver."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.api.front import OTHER_PROJECT, PROJECT, Front, fault, opened
from whimbrel.adapters.openstack.keystone_quotas import TRUSTED_S, UnifiedQuotas
from whimbrel.domain.ids import ProjectId
from whimbrel.domain.quota_settings import QuotaRules
from whimbrel.sim.cloud.cloud import IMAGE
from whimbrel.sim.world.clock import JumpingClock

MINE = f"/os-quota-sets/{PROJECT}"
ENOUGH = {"servers": 10, "class:VCPU": 20, "class:MEMORY_MB": 51200}


class Limits:
    """Implements ports.services.unified_limits.UnifiedLimits in memory."""

    def __init__(self, registered: dict[str, int]) -> None:
        self.all = registered
        self.own: dict[str, dict[str, int]] = {}
        self.readings = 0

    async def registered(self) -> dict[str, int]:
        self.readings += 1
        return dict(self.all)

    async def of_project(self, project_id: ProjectId) -> dict[str, int]:
        return dict(self.own.get(project_id, {}))


@asynccontextmanager
async def unified(registered: dict[str, int], **rules: Any) -> AsyncIterator[tuple[Front, Limits, JumpingClock]]:
    limits, clock = Limits(dict(registered)), JumpingClock()
    async with opened(ports={"quotas": UnifiedQuotas(limits, QuotaRules(driver="unified", **rules), clock)}) as front:
        yield front, limits, clock


async def create(front: Front, **fields: Any) -> Any:
    server = {"name": "x", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **fields}
    return await front.ask("POST", "/servers", {"server": server})


async def test_the_limits_of_a_project_come_from_keystone() -> None:
    async with unified(ENOUGH | {"server_key_pairs": 3}) as (front, limits, _):
        limits.own[PROJECT] = {"class:VCPU": 1, "server_key_pairs": 9}
        shown = (await front.get(MINE))["quota_set"]
        expected = {"instances": 10, "cores": 1, "ram": 51200, "key_pairs": 3, "server_groups": 0, "metadata_items": 0}
        assert {name: shown[name] for name in expected} == expected
        assert (await front.get(f"{MINE}/defaults"))["quota_set"]["cores"] == 20
        assert (await front.get("/limits"))["limits"]["absolute"]["maxTotalCores"] == 1
        await front.boot()
        detail = (await front.get(f"{MINE}/detail"))["quota_set"]
        assert detail["cores"] == {"limit": 1, "in_use": 1, "reserved": 0}
        assert "Quota exceeded for cores" in fault(await create(front), "forbidden", 403)
        assert (await front.get(f"/os-quota-sets/{OTHER_PROJECT}", who="admin"))["quota_set"]["cores"] == 20
        assert (await front.get(f"{MINE}?user_id=one"))["quota_set"]["cores"] == 1


async def test_what_is_set_here_changes_nothing() -> None:
    async with unified(ENOUGH) as (front, _, _clock):
        await front.boot()
        answer = await front.ask("PUT", MINE, {"quota_set": {"cores": 0}}, who="admin")
        assert (answer.status_code, answer.json()["quota_set"]["cores"]) == (200, 20)
        assert (await front.ask("DELETE", MINE, who="admin")).status_code == 202
        path = "/os-quota-class-sets/default"
        answer = await front.ask("PUT", path, {"quota_class_set": {"cores": 0}}, who="admin")
        assert (answer.status_code, answer.json()["quota_class_set"]["cores"]) == (200, 20)
        assert (await front.get(path, who="admin"))["quota_class_set"]["cores"] == 20
        assert (await front.get(MINE))["quota_set"]["cores"] == 20


async def test_servers_need_a_registered_limit_and_others_are_unlimited_without() -> None:
    async with unified({}) as (front, limits, clock):
        assert "Quota exceeded for instances" in fault(await create(front), "forbidden", 403)
        limits.all = {"servers": 1}
        clock.advance(TRUSTED_S)
        await front.boot(metadata={"a": "b"})
        assert (await front.get(MINE))["quota_set"]["cores"] == 0  # as Nova shows it
        group = {"server_group": {"name": "g", "policy": "affinity"}}
        assert (await front.ask("POST", "/os-server-groups", group)).status_code == 200


@pytest.mark.parametrize(
    ("rules", "registered"),
    [
        ({"unified_limits_resource_list": ("servers", "class:VCPU")}, {"servers": 10}),
        ({"unified_limits_resource_list": ("class:DISK_GB",)}, ENOUGH),
        ({"unified_limits_resource_strategy": "ignore"}, {"class:VCPU": 20, "class:DISK_GB": 9}),
        ({}, ENOUGH | {"class:DISK_GB": 0}),
    ],
)
async def test_a_resource_that_the_rules_require_is_refused_without_a_limit(
    rules: dict[str, Any], registered: dict[str, int]
) -> None:
    async with unified(registered, **rules) as (front, _, _clock):
        assert "Quota exceeded" in fault(await create(front), "forbidden", 403)


async def test_disk_is_counted_by_placement_also_for_moves() -> None:
    async with unified(ENOUGH | {"class:DISK_GB": 2}) as (front, limits, clock):
        server = await front.boot()
        refused = fault(await create(front, min_count=2), "forbidden", 403)
        assert "Quota exceeded for class:DISK_GB: Requested 2, but already used 1 of 2" in refused
        resize = {"resize": {"flavorRef": "2"}}
        fault(await front.act(server, resize), "forbidden", 403)
        limits.all["class:DISK_GB"] = 3
        clock.advance(TRUSTED_S)
        assert (await front.act(server, resize)).status_code == 202
        await front.settle()
        fault(await create(front), "forbidden", 403)  # both claims of the server that moves count
        assert (await front.act(server, {"confirmResize": None})).status_code == 204
        await front.settle()
        assert (await create(front)).status_code == 202


async def test_a_resize_needs_cores() -> None:
    async with unified(ENOUGH | {"class:VCPU": 1}) as (front, _, _clock):
        server = await front.boot()
        message = fault(await front.act(server, {"resize": {"flavorRef": "2"}}), "forbidden", 403)
        assert "Quota exceeded for cores" in message


async def test_limits_are_read_again_after_ten_seconds() -> None:
    async with unified(ENOUGH) as (front, limits, clock):
        for _ in range(3):
            await front.get(MINE)
        assert limits.readings == 1
        limits.all["servers"] = 7
        clock.advance(TRUSTED_S - 1)
        assert (await front.get(MINE))["quota_set"]["instances"] == 10
        clock.advance(1)
        assert (await front.get(MINE))["quota_set"]["instances"] == 7
