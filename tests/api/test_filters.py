"""What operators say by aggregates and flavors reaches the choice of hosts, and owners read why there is none."""

from typing import Any

import pytest

from tests.api.front import Front
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.cloud import Rules

AGGREGATES = SchedulerRules(
    enabled_filters=("ComputeFilter", "AggregateMultiTenancyIsolation", "AggregateNumInstancesFilter")
)


async def gather(front: Front, name: str, *hosts: str, **metadata: str) -> None:
    answer = await front.ask("POST", "/os-aggregates", {"aggregate": {"name": name}}, who="admin")
    number = answer.json()["aggregate"]["id"]
    actions: list[dict[str, Any]] = [{"add_host": {"host": host}} for host in hosts]
    for action in [*actions, {"set_metadata": {"metadata": metadata}}]:
        answer = await front.ask("POST", f"/os-aggregates/{number}/action", action, who="admin")
        assert answer.status_code == 200, answer.text


async def home(front: Front, server: str) -> Any:
    return (await front.show(server, who="admin"))["OS-EXT-SRV-ATTR:host"]


@pytest.mark.cloud(Rules(scheduler=AGGREGATES))
async def test_aggregates_are_for_projects_and_hold_so_many_servers(front: Front) -> None:
    await gather(front, "theirs", "h1", "h2", filter_tenant_id="another project")
    await gather(front, "few", "h3", max_instances_per_host="1")
    assert await home(front, await front.boot()) == "h3"
    refused = await front.show(await front.boot())
    assert refused["status"] == "ERROR"
    assert refused["fault"]["message"] == (
        "No valid host was found. Of 3 hosts considered, 2: it is for other projects; 1: it has the maximum number"
        " of servers."
    )


async def test_an_aggregate_has_its_own_multiplier(front: Front) -> None:
    await gather(front, "last", "h1", "h3", num_instances_weight_multiplier="-1000")
    await gather(front, "first", "h2", num_instances_weight_multiplier="1000")
    assert await home(front, await front.boot()) in ("h1", "h2", "h3")  # all are empty
    await front.boot(host="h2", who="admin")
    assert [await home(front, await front.boot()) for _ in range(2)] == ["h2", "h2"]


async def test_a_flavor_asks_for_capabilities(front: Front) -> None:
    specs = {"extra_specs": {"capabilities:vcpus_total": ">= 5"}}
    answer = await front.ask("POST", "/flavors/1/os-extra_specs", specs, who="admin")
    assert answer.status_code == 200, answer.text
    refused = await front.show(await front.boot())
    assert "3: it does not fulfil the flavor's capabilities:vcpus_total >= 5" in refused["fault"]["message"]
