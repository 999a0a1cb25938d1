"""Creates the processes of single services: `whimbrel image` and `whimbrel volume`.

Invariant: a cloud has one process of each embedded service, which owns files; its role lease is checked before its
files or records are changed. A relay of images owns none, and there may be any number.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from starlette.types import ASGIApp

from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.clock import RandomIds
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.adapters.sql.global_.directory import SqlDirectory
from whimbrel.adapters.sql.global_.zones import SqlZones
from whimbrel.adapters.sql.volumes import SqlVolumes
from whimbrel.bootstrap.cells import OpenCell, OpenCells
from whimbrel.bootstrap.cloud_agreement import grant_secret
from whimbrel.bootstrap.health import Health
from whimbrel.bootstrap.identity import authentication
from whimbrel.bootstrap.images import distant_images, embedded_images, image_relay
from whimbrel.bootstrap.process_base import ProcessBase, Start, registered
from whimbrel.bootstrap.registration import Registration
from whimbrel.bootstrap.volumes import embedded_volumes
from whimbrel.embedded.image.app import image_app
from whimbrel.servers.devices.recorded_volumes import RecordedVolumes


@dataclass
class ServiceProcess:
    """A process with one service. name: the path of its application."""

    name: str
    app: ASGIApp
    registration: Registration
    health: Health
    work: Sequence[Callable[[], Awaitable[None]]] = ()
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)  # all resources, closed in reverse order

    async def run(self) -> None:
        """Do the background work until cancelled. Raises: Superseded: another process has the role."""
        async with asyncio.TaskGroup() as group:
            for work in (self.registration.run, *self.work):
                group.create_task(_awaited(work))

    async def close(self) -> None:
        await self.closing.aclose()


async def open_service(start: Start) -> ServiceProcess:
    """Open the image or the volume service, whichever the role has, or a relay of images.

    On any failure, all open resources are closed.

    Raises: Refused: another process has the role, or the databases have another version; Unavailable.
    """
    async with AsyncExitStack() as opened:
        base = await registered(start, opened)
        process = await _opened(base)
        process.closing = opened.pop_all()
    return process


async def _opened(base: ProcessBase) -> ServiceProcess:
    role = base.start.role
    if role.has_images:
        return await _image(base)
    return await (_volume(base) if role.has_volumes else _relay(base))


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


async def _image(base: ProcessBase) -> ServiceProcess:
    service = embedded_images(base)
    await service.sweep()
    app = image_app(service, authentication(base).identity, RandomIds(), await grant_secret(base.keep))
    return ServiceProcess("image", app, base.registration, base.health)


async def _relay(base: ProcessBase) -> ServiceProcess:
    [(path, app)] = image_relay(authentication(base).external, base.clock, await grant_secret(base.keep)).items()
    return ServiceProcess(path, app, base.registration, base.health)


async def _volume(base: ProcessBase) -> ServiceProcess:
    config, clock, ids = base.start.config, base.clock, RandomIds()
    auth = authentication(base)
    no_agents = LocalAgents({})
    cells = OpenCells(
        SqlCells(base.global_), base.start.url, lambda _: no_agents, clock, base.databases, migrates=False
    )
    base.opened.push_async_callback(cells.close)
    await cells.open()
    users = RecordedVolumes(SqlDirectory(base.global_), cells)
    images = await distant_images(auth.clients, auth.external)
    store = SqlVolumes(base.database("volumes"))
    service = await embedded_volumes(
        config, base.start.home, store, images, auth.identity, auth.clients, clock, ids, users, SqlZones(base.global_)
    )
    await service.start()

    async def watch() -> None:
        await cells.watch(_nothing)

    return ServiceProcess("volume", service.app, base.registration, base.health, (service.run, watch))


async def _nothing(_cell: OpenCell) -> None:
    """Register nothing: this process only reads the cells."""
