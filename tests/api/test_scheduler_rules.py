"""Rules of the scheduler as users and operators meet them at the compute API: hints, NUMA nodes, load."""

from typing import Any

import pytest

from tests.api.front import Front, fault
from tests.api.test_flavor_requests import sized, wanted
from tests.api.test_plans import planned
from whimbrel.domain.ids import HostName
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.cloud import Rules
from whimbrel.sim.cloud.cloud import CELL

MORE = ("ComputeFilter", "JsonFilter", "NUMATopologyFilter")
FILTERED = Rules(cpu_allocation_ratio=16.0, scheduler=SchedulerRules(enabled_filters=MORE))
WEIGHED = Rules(
    cpu_allocation_ratio=16.0,
    scheduler=SchedulerRules(metrics_weight_setting=("cpu.percent=-1.0",), metrics_weight_multiplier=1000.0),
)


async def hinted(front: Front, query: Any) -> dict[str, Any]:
    body = wanted("1") | {"os:scheduler_hints": {"query": query}}
    answer = await front.ask("POST", "/servers", body)
    assert answer.status_code == 202, answer.text
    await front.settle()
    server: dict[str, Any] = await front.show(answer.json()["server"]["id"], who="admin")
    return server


@pytest.mark.cloud(rules=FILTERED)
async def test_a_query_in_a_hint_chooses_among_hosts_at_create_and_at_every_move(front: Front) -> None:
    server = await hinted(front, '["in", "$host", "h2", "h3"]')
    first = server["OS-EXT-SRV-ATTR:host"]
    assert first in ("h2", "h3")
    plan = await planned(front, server["id"], action="migrate")
    assert plan["chosen"] == [({"h2", "h3"} - {first}).pop()]
    [out] = [one for one in plan["considered"] if one["host"] == "h1"]
    assert (out["reason"]["constraint"], out["reason"]["words"]) == ("JsonFilter", "it does not fulfil the hint query")


@pytest.mark.cloud(rules=FILTERED)
async def test_a_query_that_nobody_understands_says_so(front: Front) -> None:
    server = await hinted(front, '["near", "$host"]')
    assert server["status"] == "ERROR"
    assert "the hint query cannot be understood: 'near' is none of the operations" in server["fault"]["message"]


@pytest.mark.cloud(rules=FILTERED)
async def test_numa_nodes_are_wanted_of_hosts_that_tell_theirs(front: Front) -> None:
    flavor = await sized(front, "two-nodes", hw__numa_nodes="1")
    server_id = await front.boot()
    plan = await planned(front, server_id, action="resize", flavor=flavor)
    assert not plan["found"]
    assert {"constraint": "NUMATopologyFilter", "words": "it does not report its NUMA nodes", "hosts": 2} in plan[
        "counts"
    ]


async def test_numa_nodes_that_are_said_wrongly_are_refused_by_the_app(front: Front) -> None:
    flavor = await sized(front, "odd", 85, hw__numa_nodes="2")
    said = fault(await front.ask("POST", "/servers", wanted(flavor)), "badRequest", 400)
    assert "1 CPUs and 512 MiB cannot be shared out evenly among 2 NUMA nodes" in said


@pytest.mark.cloud(rules=WEIGHED)
async def test_hosts_are_weighed_by_what_they_tell_of_their_load(front: Front) -> None:
    hosts = front.world.cloud.cell(CELL).hosts
    await hosts.tell({HostName("h1"): {"cpu.percent": 0.9}, HostName("h2"): {"cpu.percent": 0.2}})
    await front.world.cloud.clock.sleep(2.0)
    server_id = await front.boot()
    assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"] == "h2"
    plan = await planned(front, server_id, action="migrate")
    assert plan["chosen"] == ["h1"]
    [out] = [one for one in plan["considered"] if one["host"] == "h3"]
    assert out["reason"]["words"] == "it does not report the metric cpu.percent"
