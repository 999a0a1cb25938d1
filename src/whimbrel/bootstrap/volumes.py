"""Creates the volume service of a process: the embedded one or a client of it, for servers and moves.

In the process that has it, the cloud's own calls use the same protocol as all clients, to a separate application that
is not mounted: there is one volume adapter, and nothing between it and the service that could fail. Other processes
use HTTP.
"""

import asyncio
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from whimbrel.adapters.openstack.server_events import HttpServerEvents
from whimbrel.adapters.openstack.volumes import HttpVolumes
from whimbrel.adapters.qemu.convert import QemuConverter
from whimbrel.adapters.qemu.storage_daemon import StorageDaemon
from whimbrel.adapters.qemu.volume_exports import NbdExports
from whimbrel.adapters.sql.volumes import SqlVolumes
from whimbrel.bootstrap.service_login import ServiceClients, ServiceLogin, inside
from whimbrel.embedded.volume import VolumeService, volume_app
from whimbrel.embedded.volume.file_store import VolumeFiles
from whimbrel.embedded.volume.worker import VolumeWorker
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.embedded.volume_backing import VolumeExports
from whimbrel.ports.services.identity import Identity
from whimbrel.ports.services.images import Images
from whimbrel.ports.services.volume_users import VolumeUsers
from whimbrel.ports.services.volumes import Volumes
from whimbrel.ports.stores.zones import Zones
from whimbrel.settings import CloudConfig, LibvirtHost
from whimbrel.settings.datadir import DataDir
from whimbrel.sim.world.volume_exports import SimulatedExports

if TYPE_CHECKING:
    from whimbrel.bootstrap.external_services import ExternalServices

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class EmbeddedVolumes:
    """The service in this process. client: its client for servers and moves."""

    client: Volumes
    service: VolumeService
    events: HttpServerEvents

    @property
    def app(self) -> ASGIApp:
        """Return the application to be mounted at /volume."""
        return volume_app(self.service)

    async def start(self) -> None:
        """Ensure that the directory of files exists, and remove what a crash left in it."""
        await self.service.files.prepare()

    async def run(self) -> None:
        """Run the worker and deliver events, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(VolumeWorker(self.service).run())
            group.create_task(self.events.run())

    def hear(self, compute: ASGIApp) -> None:
        """Send the events of volumes to the compute API of this process. compute: an application that admits every
        request.
        """
        self.events.reach(inside(compute, "/v2.1"))


async def embedded_volumes(
    config: CloudConfig, data: DataDir, store: SqlVolumes, images: Images, identity: Identity, clients: ServiceClients,
    clock: Clock, ids: IdSource, users: VolumeUsers, zones: Zones,
) -> EmbeddedVolumes:  # fmt: skip
    """Create the service. zones: of the cloud. clients: of the compute API, for processes without one."""

    async def list_zones() -> tuple[str, ...]:
        default = config.rules.default_availability_zone
        return config.volume_zones([zone.name for zone in await zones.all() if zone.id != default])

    compute = await clients.service("compute", "/v2.1", TIMEOUT_S)
    events = HttpServerEvents(compute, clock, Random(), "volumes")
    service = VolumeService(
        store=store,
        files=VolumeFiles(data.volumes, reserved_bytes=config.storage.reserved_bytes),
        identity=identity,
        images=images,
        exports=_exports(config, data),
        converter=QemuConverter(),
        clock=clock,
        ids=ids,
        events=events,
        users=users,
        zones=list_zones,
        limits=config.volumes.limits,
    )
    own = inside(volume_app(replace(service, identity=ServiceLogin())), "/v3")
    return EmbeddedVolumes(HttpVolumes(own), service, events)


async def distant_volumes(clients: ServiceClients, external: "ExternalServices | None" = None) -> HttpVolumes:
    """Return the client of another process's service, or of one that others run."""
    if external and "volume" in external.names:
        return HttpVolumes(external.service("volume", "/v3"), external.volumes_of)
    return HttpVolumes(await clients.service("volume", "/v3", TIMEOUT_S))


def _exports(config: CloudConfig, data: DataDir) -> VolumeExports:
    """Return the exports: as the settings say, else over NBD unless all hosts are simulated."""
    hosts = [host for _, host in config.hosts()]
    only_simulated = bool(hosts) and not any(isinstance(host, LibvirtHost) for host in hosts)
    if config.volumes.exports == "simulated" or (config.volumes.exports is None and only_simulated):
        return SimulatedExports()
    return NbdExports(StorageDaemon(data.path / "nbd", config.volumes.nbd_address, config.volumes.nbd_port))
