"""A cell whose database is away, as the unmodified client shows it: UNKNOWN, and everybody else as ever."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.contracts.databases import own_postgres, postgres
from tests.live.running_cloud import HOST, RunningCloud, running_cloud
from tests.live.test_clients import ADMIN, boot
from tests.postgres_proxy import Proxy
from tests.processes import HANG_S

pytestmark = pytest.mark.long

__all__ = ["own_postgres", "postgres"]  # fixtures

HOSTS = HOST.format(name="n1", zone="nova")
SECOND = '[[cell]]\nname = "two"\ndatabase = "{}"\n' + HOST.format(name="m1", zone="nova")


class Doorkeeper:
    """Has a door, which lives on a thread of its own while the test waits for clients."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.endpoint = Proxy(url)
        self._loop = loop

    def have(self, deed: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(deed, self._loop).result(HANG_S)


@contextmanager
def proxy_before(url: str) -> Iterator[Doorkeeper]:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    keeper = Doorkeeper(url, loop)
    keeper.have(keeper.endpoint.open())
    try:
        yield keeper
    finally:
        keeper.have(keeper.endpoint.shut())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def statuses(cloud: RunningCloud, minor: int) -> list[str]:
    listed = cloud.openstack("--os-compute-api-version", f"2.{minor}", "server", "list", "--all-projects", cloud=ADMIN)
    return sorted(server["Status"] for server in listed)


@pytest.mark.parametrize("away", ["shut", "silent"])
def test_servers_of_a_cell_that_is_away_are_unknown_until_it_is_back(
    tmp_path: Path, own_postgres: str, away: str
) -> None:
    with (
        proxy_before(own_postgres) as keeper,
        running_cloud(tmp_path, hosts=HOSTS + SECOND.format(keeper.endpoint.url)) as cloud,
    ):
        ids = [boot(cloud, f"s{number}")["id"] for number in range(2)]
        homes = {id: cloud.openstack("server", "show", id, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"] for id in ids}
        there = next(id for id, host in homes.items() if host == "m1")
        assert statuses(cloud, 96) == ["ACTIVE", "ACTIVE"]
        keeper.have(keeper.endpoint.shut()) if away == "shut" else keeper.endpoint.silence()
        assert statuses(cloud, 96) == ["ACTIVE", "UNKNOWN"]
        assert statuses(cloud, 68) == ["ACTIVE"]
        assert "Cell two is not responding" in cloud.refusal("server", "reboot", "--hard", there)
        services = cloud.openstack("--os-compute-api-version", "2.96", "compute", "service", "list", cloud=ADMIN)
        computes = [one for one in services if one["Binary"] == "nova-compute"]
        assert {one["Host"]: one["Status"] for one in computes} == {"n1": "enabled", "m1": "UNKNOWN"}
        keeper.have(keeper.endpoint.open()) if away == "shut" else keeper.endpoint.talk()
        while statuses(cloud, 96) != ["ACTIVE", "ACTIVE"]:
            pass  # for as long as it takes
