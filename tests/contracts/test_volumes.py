"""What every volume service does for servers and moves: in memory, and over HTTP.

A real Cinder is asked too where WHIMBREL_TEST_CINDER names its URL (.../v3, without a project), and
WHIMBREL_TEST_CINDER_TOKEN and WHIMBREL_TEST_CINDER_PROJECT give a token of an administrator and its project.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest

from tests.api.volume_cloud import volume_cloud
from whimbrel.adapters.openstack.service_client import HttpService
from whimbrel.adapters.openstack.volumes import HttpVolumes
from whimbrel.domain.errors import Conflict, NotFound, OverQuota, Refused, Unavailable
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.services.volumes import MARK, NewVolume, Volumes, VolumeUse
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.volumes import SimulatedVolumes

NOWHERE = "00000000-0000-4000-8000-000000000000"
CINDER = os.environ.get("WHIMBREL_TEST_CINDER", "")


@dataclass
class Opened:
    volumes: Volumes
    project: ProjectId
    settle: Callable[[], Awaitable[None]]
    """Finish the jobs that take time."""
    spoil: Callable[[str], Awaitable[None]] | None = None
    """Make a volume be in error, where somebody can."""

    async def made(self, **more: Any) -> str:
        """Make a volume, and return its id when it is there."""
        new = NewVolume(mark=f"{uuid4()}/0", project_id=self.project, size_gib=1, **more)
        volume_id = (await self.volumes.create_volume(new)).id
        await self.settle()
        while (volume := await self.volumes.volume(volume_id)).status in ("creating", "downloading"):
            await self.settle()
        assert volume.status == "available"
        return volume_id

    async def status(self, volume_id: str) -> str:
        return (await self.volumes.volume(volume_id)).status


Story = Callable[[Opened], Awaitable[None]]
Teller = Callable[[Story], None]


@asynccontextmanager
async def in_memory(directory: Path) -> AsyncIterator[Opened]:
    async def settle() -> None:
        pass

    volumes = SimulatedVolumes(SeededIds(1))

    async def spoil(volume_id: str) -> None:
        volumes.add_volume(msgspec.structs.replace(await volumes.volume(volume_id), status="error"))

    yield Opened(volumes, ProjectId("p1"), settle, spoil)


@asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[Opened]:
    async with volume_cloud(directory) as cloud:

        async def spoil(volume_id: str) -> None:
            await cloud.done("root", "POST", f"/volumes/{volume_id}/action", {"os-reset_status": {"status": "error"}})

        transport = cloud.client._transport
        headers = {"X-Auth-Token": "nova"}
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud/volume/v3", headers=headers) as client:
            yield Opened(HttpVolumes(HttpService(client, "volume")), ProjectId("p1"), cloud.worker.settle, spoil)


@asynccontextmanager
async def cinder(directory: Path) -> AsyncIterator[Opened]:
    async def settle() -> None:
        await asyncio.sleep(0.2)

    headers = {"X-Auth-Token": os.environ["WHIMBREL_TEST_CINDER_TOKEN"]}
    async with httpx.AsyncClient(base_url=CINDER, headers=headers, timeout=60) as client:
        yield Opened(
            HttpVolumes(HttpService(client, "volume")), ProjectId(os.environ["WHIMBREL_TEST_CINDER_PROJECT"]), settle
        )


SERVICES = {"memory": in_memory, "embedded": embedded, **({"cinder": cinder} if CINDER else {})}


@pytest.fixture(params=SERVICES)
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    async with SERVICES[request.param](tmp_path) as opened:
        yield opened


def server() -> ServerId:
    return ServerId(str(uuid4()))


def connector(host: str) -> dict[str, Any]:
    return {
        "host": host,
        "ip": "127.0.0.1",
        "platform": "x86_64",
        "os_type": "linux",
        "multipath": False,
        "initiator": f"iqn.2004-10.example:{host}",
    }


async def test_a_volume_is_made_once_for_a_mark(opened: Opened) -> None:
    new = NewVolume(mark=f"{server()}/0", project_id=opened.project, size_gib=1)
    first, again = [await opened.volumes.create_volume(new) for _ in range(2)]
    assert first.id == again.id
    assert (first.project_id, first.size_gib, first.metadata[MARK]) == (opened.project, 1, new.mark)
    assert [one.id for one in await opened.volumes.made(opened.project, [new.mark, "another"])] == [first.id]
    assert await opened.volumes.made(ProjectId("another"), [new.mark]) == []
    assert await opened.volumes.made(opened.project, []) == []


async def test_what_is_not_there_is_not_found(opened: Opened) -> None:
    volumes = opened.volumes
    for asked in (
        volumes.volume(NOWHERE),
        volumes.snapshot_volume(NOWHERE),
        volumes.attachment(NOWHERE),
        volumes.reserve(server(), NOWHERE, []),
        volumes.connect(NOWHERE, connector("n1")),
        volumes.complete(NOWHERE),
    ):
        with pytest.raises(NotFound):
            await asked
    await volumes.detach(NOWHERE)
    await volumes.delete_volume(NOWHERE)
    assert await volumes.attachments(server()) == []


async def test_a_volume_is_reserved_connected_completed_and_released(opened: Opened) -> None:
    volumes, mine, volume = opened.volumes, server(), await opened.made()
    held = await volumes.reserve(mine, volume, [])
    assert (held.server, held.volume_id, held.connection) == (mine, volume, {})
    assert await opened.status(volume) == "reserved"
    assert (await volumes.attachment(held.id)).connection == {}
    connected = await volumes.connect(held.id, connector("n1"))
    assert connected.connection["driver_volume_type"]
    assert isinstance(connected.connection["data"], dict)
    assert (await volumes.attachment(held.id)).connection == connected.connection
    await volumes.complete(held.id)
    assert await opened.status(volume) == "in-use"
    [listed] = await volumes.attachments(mine)
    assert (listed.id, listed.status, listed.connection) == (held.id, "attached", {})
    with pytest.raises(Refused):
        await volumes.delete_volume(volume)
    await volumes.detach(held.id)
    assert await opened.status(volume) == "available"
    assert await volumes.attachments(mine) == []


async def test_everything_may_be_asked_twice(opened: Opened) -> None:
    volumes, mine, volume = opened.volumes, server(), await opened.made()
    assert (await volumes.reserve(mine, volume, [])).id == (await volumes.reserve(mine, volume, [])).id
    [held] = await volumes.attachments(mine, volume)
    first, again = [await volumes.connect(held.id, connector("n1")) for _ in range(2)]
    assert first.connection == again.connection
    for _ in range(2):
        await volumes.complete(held.id)
    assert await opened.status(volume) == "in-use"
    for _ in range(2):
        await volumes.detach(held.id)
    for _ in range(2):
        await volumes.delete_volume(volume)
        await opened.settle()


async def test_a_server_holds_a_volume_twice_while_it_moves(opened: Opened) -> None:
    volumes, mine, volume = opened.volumes, server(), await opened.made()
    source = await volumes.reserve(mine, volume, [])
    await volumes.connect(source.id, connector("n1"))
    await volumes.complete(source.id)
    first, again = [await volumes.reserve(mine, volume, [source.id]) for _ in range(2)]
    assert first.id == again.id != source.id
    assert {one.id for one in await volumes.attachments(mine, volume)} == {source.id, first.id}
    await volumes.detach(source.id)
    assert await opened.status(volume) == "reserved"
    await volumes.connect(first.id, connector("n2"))
    await volumes.complete(first.id)
    assert await opened.status(volume) == "in-use"
    assert [one.id for one in await volumes.attachments(mine)] == [first.id]


async def test_a_volume_of_one_server_is_refused_to_another(opened: Opened) -> None:
    volumes, mine, other, volume = opened.volumes, server(), server(), await opened.made()
    held = await volumes.reserve(mine, volume, [])
    with pytest.raises(Refused):
        await volumes.reserve(other, volume, [])
    await volumes.connect(held.id, connector("n1"))
    await volumes.complete(held.id)
    with pytest.raises(Refused):
        await volumes.reserve(other, volume, [])
    assert await volumes.attachments(other) == []
    await volumes.detach(held.id)
    await volumes.reserve(other, volume, [])


async def test_a_volume_in_error_is_refused_and_can_be_deleted(opened: Opened) -> None:
    if opened.spoil is None:
        pytest.skip("nobody here can say that a volume is in error")
    volume = await opened.made()
    await opened.spoil(volume)
    with pytest.raises(Refused):
        await opened.volumes.reserve(server(), volume, [])
    await opened.volumes.delete_volume(volume)
    await opened.settle()
    with pytest.raises(NotFound):
        await opened.volumes.volume(volume)


async def test_attachments_of_one_volume_or_of_all(opened: Opened) -> None:
    mine, one, two = server(), await opened.made(), await opened.made()
    for volume in (one, two):
        await opened.volumes.reserve(mine, volume, [])
    await opened.volumes.reserve(server(), await opened.made(), [])
    assert {each.volume_id for each in await opened.volumes.attachments(mine)} == {one, two}
    assert [each.volume_id for each in await opened.volumes.attachments(mine, two)] == [two]


@pytest.mark.parametrize(
    "requested",
    [{"zone": "nowhere"}, {"volume_type": "no such"}, {"image_id": NOWHERE}, {"snapshot_id": NOWHERE}, {"size_gib": 0}],
)
async def test_a_volume_that_cannot_be_made_is_refused(tmp_path: Path, requested: dict[str, Any]) -> None:
    async with embedded(tmp_path) as opened:
        new = NewVolume(**{"mark": "m", "project_id": opened.project, "size_gib": 1, **requested})
        with pytest.raises(Refused):
            await opened.volumes.create_volume(new)


async def test_a_snapshot_leads_to_its_volume(tmp_path: Path) -> None:
    async with volume_cloud(tmp_path) as cloud:
        volume = await cloud.volume(name="origin")
        made = await cloud.done("ann", "POST", "/snapshots", {"snapshot": {"volume_id": volume}})
        cloud.client.headers["X-Auth-Token"] = "nova"
        cloud.client.base_url = httpx.URL("http://cloud/volume/v3")
        found = await HttpVolumes(HttpService(cloud.client, "volume")).snapshot_volume(made["snapshot"]["id"])
        assert (found.id, found.name, found.zone) == (volume, "origin", "nova")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Refused),
        (401, Unavailable),
        (403, Refused),
        (404, NotFound),
        (409, Conflict),
        (413, OverQuota),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_what_an_http_status_means(status: int, error: type[Exception]) -> None:
    said = {"kind": {"message": "so it is", "code": status}}
    transport = httpx.MockTransport(lambda request: httpx.Response(status, json=said))
    async with httpx.AsyncClient(transport=transport, base_url="http://volume") as client:
        with pytest.raises(error, match=f"{status}: so it is"):
            await HttpVolumes(HttpService(client, "volume")).volume(NOWHERE)


@pytest.mark.parametrize("answer", [None, b"<html>", b"{}", b'{"volume": 5}'])
async def test_no_answer_and_one_that_cannot_be_read_are_unavailable(answer: bytes | None) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        if answer is None:
            raise httpx.ReadError("connection reset")
        return httpx.Response(200, content=answer)

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond), base_url="http://volume") as client:
        with pytest.raises(Unavailable):
            await HttpVolumes(HttpService(client, "volume")).volume(NOWHERE)


async def test_the_attachments_of_all_servers_come_page_by_page(opened: Opened) -> None:
    held = [await opened.volumes.reserve(ServerId(str(uuid4())), await opened.made(), ()) for _ in range(3)]
    first = await opened.volumes.all_attachments(None, 2)
    assert (len(first.items), first.after) == (2, first.items[-1].id)
    second = await opened.volumes.all_attachments(first.after, 2)
    assert second.after is None
    told = {(one.id, one.volume_id, one.server) for one in [*first.items, *second.items]}
    assert {(one.id, one.volume_id, one.server) for one in held} <= told


async def test_a_volume_says_from_where_it_is_used(opened: Opened) -> None:
    volumes, free, used = opened.volumes, await opened.made(), await opened.made()
    held = await volumes.reserve(ServerId(str(uuid4())), used, ())
    await volumes.connect(held.id, connector("n1"))
    await volumes.complete(held.id)
    assert await volumes.volume_use(used) == VolumeUse(used, "in-use", {held.id: "n1"}, opened.project)
    assert (await volumes.volume_use(free)).hosts == {}
    first = await volumes.volume_uses(None, 1)
    assert first.after == first.items[0].id
    rest = await volumes.volume_uses(first.after, 100)
    assert {one.id: len(one.hosts) for one in [*first.items, *rest.items]}.items() >= {free: 0, used: 1}.items()
    with pytest.raises(NotFound):
        await volumes.volume_use(NOWHERE)
