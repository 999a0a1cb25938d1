"""The embedded volume service behind a client, with images to make volumes of, and a workshop that works when told."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.api.network_service import Events
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.volumes import SqlVolumes
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.volume import VolumeService, volume_app
from whimbrel.embedded.volume.file_store import VolumeFiles
from whimbrel.embedded.volume.worker import VolumeWorker
from whimbrel.ports.embedded.volume_store import DEFAULT_LIMITS
from whimbrel.ports.services.identity import Principal, with_implied
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.images import MemoryImages
from whimbrel.sim.world.volume_exports import SimulatedExports

PEOPLE = {
    "ann": ("p1", "member"),
    "bob": ("p2", "member"),
    "eve": ("p1", "reader"),
    "root": ("p0", "admin"),
    "nova": ("services", "service"),
}
LATEST = "latest"
IMAGE = "6a09e667-f3bc-4908-b2fb-1366ea957d3e"
SERVERS = ("11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002")


class TokenNames:
    """An identity service in which everybody's token is his name."""

    async def principal(self, token: str) -> Principal | None:
        if token not in PEOPLE:
            return None
        project, role = PEOPLE[token]
        return Principal(
            user_id=UserId(f"id-of-{token}"),
            user_name=token,
            project_id=ProjectId(project),
            roles=with_implied([role]),
        )


async def on_the_spot(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@dataclass
class VolumeCloud:
    client: httpx.AsyncClient
    service: VolumeService
    worker: VolumeWorker
    exports: SimulatedExports
    clock: JumpingClock
    events: Events

    async def ask(
        self, who: str, method: str, path: str, body: Any = None, *, version: str = LATEST, **query: str
    ) -> httpx.Response:
        headers = {"X-Auth-Token": who, "OpenStack-API-Version": f"volume {version}"}
        if who == "nova":
            headers["X-Service-Token"] = who
        return await self.client.request(method, f"/v3{path}", json=body, headers=headers, params=query or None)

    async def done(self, who: str, method: str, path: str, body: Any = None, **more: str) -> Any:
        """Ask for what is not refused, and have the work done that follows; return the answer."""
        answer = await self.ask(who, method, path, body, **more)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        await self.worker.settle()
        return answer.json() if answer.content else None

    async def refused(self, status: int, who: str, method: str, path: str, body: Any = None, **more: str) -> str:
        """Ask for what is refused, in this way; return what is said."""
        answer = await self.ask(who, method, path, body, **more)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        [fault] = answer.json().values()
        assert fault["code"] == status
        return str(fault["message"])

    async def volume(self, who: str = "ann", **fields: Any) -> str:
        """Make a volume and give its id."""
        made = await self.done(who, "POST", "/volumes", {"volume": {"size": 1, **fields}})
        return str(made["volume"]["id"])

    async def show(self, volume_id: str, who: str = "ann") -> Any:
        return (await self.done(who, "GET", f"/volumes/{volume_id}"))["volume"]

    async def status(self, volume_id: str) -> str:
        return str((await self.show(volume_id, "root"))["status"])

    async def status_now(self, volume_id: str) -> str:
        """Return a volume's status without running its job."""
        return str((await self.ask("root", "GET", f"/volumes/{volume_id}")).json()["volume"]["status"])

    def content(self, volume_id: str) -> bytes:
        """Read the beginning of a volume."""
        with self.service.files.volume(volume_id).open("rb") as file:
            return file.read(64)

    def write(self, volume_id: str, content: bytes) -> None:
        """Do as a guest does."""
        with self.service.files.volume(volume_id).open("r+b") as file:
            file.write(content)


async def two_zones() -> tuple[str, ...]:
    return ("nova", "north")


@asynccontextmanager
async def volume_cloud(directory: Path, url: str = "sqlite://", **more: Any) -> AsyncIterator[VolumeCloud]:
    """Open a cloud whose volumes lie in the directory. more: fields of the service."""
    database = open_database(url, "volumes")
    await create_all(database, "volumes")
    exports, clock, events = SimulatedExports(), JumpingClock(), Events()
    fields: dict[str, Any] = {
        "store": SqlVolumes(database),
        "files": VolumeFiles(directory, on_the_spot),
        "identity": TokenNames(),
        "images": MemoryImages({IMAGE: b"tick" * 1000}),
        "exports": exports,
        "converter": None,
        "clock": clock,
        "ids": SeededIds(1),
        "events": events,
        "zones": two_zones,
        "limits": {**DEFAULT_LIMITS, "volumes": 20},
        **more,
    }
    service = VolumeService(**fields)
    await service.files.prepare()
    app = Starlette(routes=[Mount("/volume", volume_app(service))])
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud/volume") as client:
        yield VolumeCloud(client, service, VolumeWorker(service), exports, clock, events)
    await database.close()


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[VolumeCloud]:
    async with volume_cloud(tmp_path) as cloud:
        yield cloud
