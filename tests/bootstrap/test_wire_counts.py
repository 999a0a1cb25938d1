"""What a boot, and a resize with its confirm, cost PostgreSQL: statements, round trips and commits, as they are sent.

The counts are exact and the same on every machine: nothing else is under way in the process, and what it does now and
then (polls, heartbeats, leases) is not due.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
import psycopg
import pytest

from tests.bootstrap.test_process_factory import CELL, Home
from tests.bootstrap.wire_counts import Counts, counting
from tests.contracts.databases import own_postgres, postgres
from whimbrel.bootstrap import apps, http_server
from whimbrel.bootstrap.process import Process
from whimbrel.conductor.conductor import Conductor, Pace
from whimbrel.conductor.parts import engine_parts
from whimbrel.embedded import tick_guest
from whimbrel.embedded.identity.initial_accounts import bootstrap
from whimbrel.embedded.image.in_process import seed_id, seed_image
from whimbrel.ports.services.images import Image
from whimbrel.scheduling import fleet

__all__ = ["own_postgres", "postgres"]

HOST = '[[cell.host]]\nname = "n{}"\nzone = "z"\nvcpus = 64\nmemory_mib = 65536\ndisk_gib = 900\ndriver = "simulated"\n'
RULES = "[rules]\nlease_s = 100000.0\n"
HOSTS = CELL.format("one") + "".join(HOST.format(number) for number in range(2)) + RULES
NEVER = Pace(poll_s=1e6, reconcile_s=1e6)
WARM_UP = 3
"""How many moves come before the counted ones: statements are prepared once on each connection."""

MOST = {"statements": 87, "round_trips": 46, "commits": 30, "writes": 21}
"""The most that one resize and its confirm may cost, without the stores of agents and simulated hosts."""

MOST_OF_BOOT = {"statements": 49, "round_trips": 28, "commits": 18, "writes": 12}

MOST_OF_HOSTS = {"statements": 17, "writes": 14}
"""The most in the stores of the agents and simulated hosts, source and target together.

Of the writes 6 are of the ledgers: the first order of each epoch on a host, and each order with more progress. 8 are of
guests and disks: reserved, copied, defined, started; stopped, offered, withdrawn, destroyed.
"""


class Cloud:
    def __init__(self, client: httpx.AsyncClient, url: str, image: str) -> None:
        self._client = client
        self._database = psycopg.connect(url, autocommit=True)
        self._image = image

    def close(self) -> None:
        self._database.close()

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._client.request(method, f"/compute/v2.1{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def make_flavors(self) -> None:
        for flavor, ram in (("a", 512), ("b", 1024)):
            made = {"id": flavor, "name": f"test.{flavor}", "vcpus": 1, "ram": ram, "disk": 1}
            await self.ask("POST", "/flavors", {"flavor": made})

    async def boot(self) -> str:
        server = {"name": "one", "flavorRef": "a", "imageRef": self._image, "networks": "none"}
        server_id = str((await self.ask("POST", "/servers", {"server": server}))["server"]["id"])
        await self.until(server_id, "done")
        return server_id

    async def resize(self, server_id: str, flavor: str) -> None:
        await self.ask("POST", f"/servers/{server_id}/action", {"resize": {"flavorRef": flavor}})
        await self.until(server_id, "parked")

    async def confirm(self, server_id: str) -> None:
        await self.ask("POST", f"/servers/{server_id}/action", {"confirmResize": None})
        await self.until(server_id, "done")

    async def until(self, server_id: str, state: str) -> None:
        """Wait until all runs of a server are in this state or done; asked on a connection of the test's own."""
        query = "SELECT bool_and(state = 'done' OR state = %s) FROM global.runs WHERE subject = %s"
        while self._database.execute(query, (state, server_id)).fetchone() != (True,):  # noqa: ASYNC110
            await asyncio.sleep(0)  # the database tells nobody


@asynccontextmanager
async def opened(path: Path, url: str) -> AsyncIterator[Cloud]:
    """Open a whole cloud in this process on an empty PostgreSQL database; its conductor looks for runs if told to."""
    home = Home(path)
    process = await home.start(HOSTS, url)
    registration = process.registration
    parts = engine_parts(process.cloud, registration.record.id, Random(0), known_to_all=registration.known_to_all)
    conductor = Conductor(process.cloud, parts, pace=NEVER)
    process.engine = conductor.engine
    image = await furnish(process, home)
    front = http_server.front(apps.endpoints(process, home.data, None))
    serving = asyncio.create_task(conductor.serve())
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://cloud") as client:
            client.headers.update({"x-auth-token": await token(client, home), "openstack-api-version": "compute 2.96"})
            cloud = Cloud(client, url, image)
            await cloud.make_flavors()
            yield cloud
            cloud.close()
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        await conductor.close()
        await process.close()


async def furnish(process: Process, home: Home) -> str:
    """Make an image and the first accounts; give the image's id."""
    image = Image(
        id=seed_id("one"),
        name="one",
        status="queued",
        disk_format="raw",
        size_bytes=0,
        checksum=None,
        visibility="public",
    )
    await seed_image(process.cloud.images, image, tick_guest.image())

    async def nothing_more(_: object) -> None: ...

    await bootstrap(process.accounts, process.cloud.ids, write_down=home.data.write_passwords, prepare=nothing_more)
    return str(image.id)


async def token(client: httpx.AsyncClient, home: Home) -> str:
    domain = {"id": "default"}
    user = {"name": "admin", "domain": domain, "password": home.data.passwords()["admin"]}
    identity = {"methods": ["password"], "password": {"user": user}}
    scope = {"project": {"name": "admin", "domain": domain}}
    answer = await client.post("/identity/v3/auth/tokens", json={"auth": {"identity": identity, "scope": scope}})
    return answer.headers["x-subject-token"]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing is read or renewed because time passes."""
    monkeypatch.setattr(fleet, "MAX_AGE_S", 1e6)  # hosts are read again now and then, whatever moves
    monkeypatch.setattr("whimbrel.bootstrap.registration.LEASE_S", 1e6)  # so is the lease of the process renewed
    monkeypatch.setattr("whimbrel.bootstrap.registration.RENEW_S", 1e6)
    return monkeypatch


def check(counts: Counts, bound: dict[str, int]) -> None:
    figures = counts.figures()
    print("\n".join(f"{store}: {' '.join(text.split())[:120]}" for store, text in counts.log))  # shown on failure
    assert all(figures[kind] <= most for kind, most in bound.items()), figures


async def test_a_boot_stays_below_its_bounds(tmp_path: Path, own_postgres: str, quiet: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path, own_postgres) as cloud:
        for _ in range(WARM_UP):
            await cloud.boot()
        with counting(quiet) as counts:
            await cloud.boot()
    check(counts, MOST_OF_BOOT)


async def test_resize_and_confirm_stay_below_their_bounds(
    tmp_path: Path, own_postgres: str, quiet: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, own_postgres) as cloud:
        server = await cloud.boot()

        async def resize_and_confirm(flavor: str) -> None:
            await cloud.resize(server, flavor)
            await cloud.confirm(server)

        for number in range(WARM_UP):
            await resize_and_confirm("ba"[number % 2])
        with counting(quiet) as counts:
            await resize_and_confirm("ba"[WARM_UP % 2])
    check(counts, MOST)
    of_hosts = {kind: getattr(counts, kind)["keep"] for kind in MOST_OF_HOSTS}
    assert of_hosts == MOST_OF_HOSTS
