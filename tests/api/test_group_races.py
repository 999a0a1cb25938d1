"""Servers of a group that are created at once, on hosts that weigh alike: each finds a host by the group's rule."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.api.front import Front
from tests.api.test_server_groups import host_of, make
from whimbrel.ports.placement.placement import Placement
from whimbrel.sim.cloud.cloud import IMAGE

HOSTS = {"cell1": [f"h{number}" for number in range(1, 7)]}


class ClaimsAtOnce:
    """A placement whose first claims begin when all of them are due: each was chosen without knowing the others."""

    def __init__(self, placement: Placement, count: int) -> None:
        self._placement = placement
        self._missing = count
        self._all_due = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._placement, name)

    async def claim(self, *args: Any) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self._all_due.set()
        await self._all_due.wait()
        await self._placement.claim(*args)


async def boot_at_once(front: Front, group: str, count: int) -> list[str]:
    """Create servers by one request, and drive their runs concurrently. Return their ids."""
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", "min_count": count}
    body = {"server": server, "os:scheduler_hints": {"group": group}}
    assert (await front.ask("POST", "/servers", body)).status_code == 202
    journal, engine = front.world.cloud.journal, front.engine
    await front.world.cloud.clock.sleep(engine.lease_s + 1)
    runs = await journal.take(engine.name, front.world.cloud.clock.now(), engine.lease_s, 100)
    assert len(runs) == count
    cloud = front.world.cloud
    racing = front.world.engine(engine.name, replace(cloud, placement=ClaimsAtOnce(cloud.placement, count)))
    await asyncio.gather(*(racing.drive(run) for run in runs))
    await front.settle()
    listed: dict[str, Any] = await front.get("/servers/detail")
    assert {each["status"] for each in listed["servers"]} == {"ACTIVE"}
    return [each["id"] for each in listed["servers"]]


@pytest.mark.cloud(cells=HOSTS)
@pytest.mark.parametrize(
    ("policy", "count", "most"),
    [("affinity", 3, [3]), ("anti-affinity", 6, [1] * 6), ("soft-affinity", 3, None), ("soft-anti-affinity", 8, None)],
)
async def test_all_find_a_host_by_the_rule(front: Front, policy: str, count: int, most: list[int] | None) -> None:
    for _ in range(3):
        ids = await boot_at_once(front, await make(front, policy), count)
        hosts = Counter([await host_of(front, each) for each in ids])
        assert most is None or sorted(hosts.values()) == most
        for each in ids:
            await front.ask("DELETE", f"/servers/{each}")
        await front.settle()


@pytest.mark.cloud(cells=HOSTS)
async def test_one_more_than_there_are_hosts_is_in_error(front: Front) -> None:
    with pytest.raises(AssertionError, match="ERROR"):
        await boot_at_once(front, await make(front, "anti-affinity"), 7)
    listed = (await front.get("/servers/detail"))["servers"]
    assert Counter(each["status"] for each in listed) == {"ACTIVE": 6, "ERROR": 1}
