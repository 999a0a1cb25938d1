"""What every volume service does for servers and moves: in memory, the embedded one over HTTP, and a real Cinder.

The real one is asked where WHIMBREL_TEST_OPENSTACK names it, see tests/openstack_services.py.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest

from tests.api.volume_cloud import IMAGE, volume_cloud
from tests.contracts.http_statuses import EVERYWHERE
from tests.httpx_service import HttpxService
from tests.openstack_services import REAL, real_services
from whimbrel.adapters.openstack.volumes import HttpVolumes
from whimbrel.domain.errors import Conflict, NotFound, OverQuota, Refused, Unavailable
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.services.volume_proxies import SnapshotDetails, VolumeDetails
from whimbrel.ports.services.volume_snapshots import NewSnapshot
from whimbrel.ports.services.volumes import MARK, Attachment, NewVolume, Volumes, VolumeUse
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.volumes import SimulatedVolumes

NOWHERE = "00000000-0000-4000-8000-000000000000"
TYPE = "block-storage"


@dataclass
class Opened:
    volumes: Volumes
    project: ProjectId
    settle: Callable[[], Awaitable[None]]
    """Finish the jobs that take time."""
    spoil: Callable[[str], Awaitable[None]] | None = None
    """Make a volume be in error, where somebody can."""
    image: str | None = None
    """A public image."""
    private_type: Callable[[str], Awaitable[str]] | None = None
    """Make a type of volumes that is only for this project, and return its name."""
    snapshots_in_use: bool = True
    """Whether a volume in use can have snapshots: Cinder's drivers of files need a hypervisor for it."""
    marks: list[str] = field(default_factory=list)
    servers: list[ServerId] = field(default_factory=list)

    def server(self) -> ServerId:
        self.servers.append(ServerId(str(uuid4())))
        return self.servers[-1]

    def new(self, **more: Any) -> NewVolume:
        self.marks.append(f"{uuid4()}/0")
        return NewVolume(**{"mark": self.marks[-1], "project_id": self.project, "size_gib": 1, **more})

    async def made(self, **more: Any) -> str:
        """Make a volume, and return its id when it is there."""
        volume_id = (await self.volumes.create_volume(self.new(**more))).id
        await self.settle()
        while (volume := await self.volumes.volume(volume_id)).status in ("creating", "downloading"):
            await self.settle()
        assert volume.status == "available"
        return volume_id

    async def status(self, volume_id: str) -> str:
        return (await self.volumes.volume(volume_id)).status

    async def gone(self, volume_id: str) -> None:
        """Wait until a volume that is deleted is gone."""
        with suppress(NotFound):
            while await self.status(volume_id) != "error_deleting":
                await self.settle()

    async def snapshot(self, new: NewSnapshot) -> str:
        """Make a snapshot, and return its id when it is there."""
        made = await self.volumes.create_snapshot(new)
        while (found := await self.volumes.made_snapshots(new.volume_id, new.mark))[0].status == "creating":
            await self.settle()
        assert [(one.id, one.status) for one in found] == [(made.id, "available")]
        return made.id

    async def gone_snapshot(self, new: NewSnapshot) -> None:
        while await self.volumes.made_snapshots(new.volume_id, new.mark):
            await self.settle()

    async def remove(self) -> None:
        """Remove what was made: a real service keeps it."""
        for server in self.servers:
            for held in await self.volumes.attachments(server):
                await self.volumes.detach(held.id)
        for volume in await self.volumes.made(self.project, self.marks):
            while (await self.volumes.volume(volume.id)).status in ("creating", "downloading"):
                await self.settle()
            with suppress(Refused):
                await self.volumes.delete_volume(volume.id)


@dataclass
class Served(Opened):
    """A service over HTTP."""

    alone: Volumes = field(kw_only=True)
    """The service as this cloud's own login without a service token and without users."""
    asks_compute: bool = False
    """Whether it asks a compute service which attachments its servers use."""
    shared_type: Callable[[], Awaitable[str]] | None = field(kw_only=True)
    """Make a type of volumes that several servers may have, where a backend has such."""


Story = Callable[[Opened], Awaitable[None]]
Teller = Callable[[Story], None]
SHARED = {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}


@asynccontextmanager
async def in_memory(directory: Path) -> AsyncIterator[Opened]:
    async def settle() -> None:
        pass

    volumes = SimulatedVolumes(SeededIds(1))

    async def spoil(volume_id: str) -> None:
        volumes.add_volume(msgspec.structs.replace(await volumes.volume(volume_id), status="error"))

    async def private_type(project: str) -> str:
        volumes.private_types[f"of {project}"] = {ProjectId(project)}
        return f"of {project}"

    yield Opened(volumes, ProjectId("p1"), settle, spoil, IMAGE, private_type)


@asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[Served]:
    async with volume_cloud(directory) as cloud:

        async def spoil(volume_id: str) -> None:
            await cloud.done("root", "POST", f"/volumes/{volume_id}/action", {"os-reset_status": {"status": "error"}})

        async def shared_type() -> str:
            return str((await cloud.done("root", "POST", "/types", {"volume_type": SHARED}))["volume_type"]["id"])

        async def private_type(project: str) -> str:
            name = f"of {project}"
            sent = {"name": name, "os-volume-type-access:is_public": False}
            made = (await cloud.done("root", "POST", "/types", {"volume_type": sent}))["volume_type"]["id"]
            await cloud.done("root", "POST", f"/types/{made}/action", {"addProjectAccess": {"project": project}})
            return name

        def service(token: str, **more: str) -> HttpxService:
            headers = {"X-Auth-Token": token, **more}
            transport = cloud.client._transport
            client = httpx.AsyncClient(transport=transport, base_url="http://cloud/volume/v3", headers=headers)
            return HttpxService(client, "volume")

        settle = cloud.worker.settle
        volumes = HttpVolumes(service("nova", **{"X-Service-Token": "nova"}), lambda project, grant: service("ann"))
        alone = HttpVolumes(service("nova"))
        project = ProjectId("p1")
        more: dict[str, Any] = {"image": IMAGE, "private_type": private_type, "shared_type": shared_type}
        yield Served(volumes, project, settle, spoil, alone=alone, **more)


@asynccontextmanager
async def cinder(directory: Path) -> AsyncIterator[Served]:
    services = real_services()
    service, demo, admin = (services.cloud(name) for name in ("service", "demo", "admin"))

    async def settle() -> None:
        await asyncio.sleep(0.2)

    async with service.service(TYPE) as own, service.service(TYPE, as_user=demo) as member:
        with service.client("image") as images, admin.client(TYPE) as administrator:

            async def spoil(volume_id: str) -> None:
                sent = {"os-reset_status": {"status": "error"}}
                assert administrator.post(f"volumes/{volume_id}/action", json=sent).is_success

            [image] = images.get("v2/images?name=tick").json()["images"]
            alone = httpx.AsyncClient(base_url=service.url(TYPE), headers={"X-Auth-Token": service.token}, timeout=60)
            opened = Served(
                HttpVolumes(own, lambda project, grant: member),
                ProjectId(demo.project_id),
                settle,
                spoil,
                snapshots_in_use=False,
                asks_compute=True,
                alone=HttpVolumes(HttpxService(alone, "volume")),
                image=image["id"],
                shared_type=None,
            )
            try:
                yield opened
            finally:
                await opened.remove()


OPENERS: dict[str, Any] = {"memory": in_memory, "embedded": embedded, "real": cinder}
SERVED = ("embedded", REAL)


@pytest.fixture(params=SERVED)
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    async with OPENERS[request.param](tmp_path) as served:
        yield served


@pytest.fixture(params=("memory", *SERVED))
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    async with OPENERS[request.param](tmp_path) as opened:
        yield opened


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
    new = opened.new()
    first, again = [await opened.volumes.create_volume(new) for _ in range(2)]
    assert first.id == again.id
    assert (first.project_id, first.size_gib, first.metadata[MARK]) == (opened.project, 1, new.mark)
    assert [one.id for one in await opened.volumes.made(opened.project, [new.mark, "another"])] == [first.id]
    assert await opened.volumes.made(ProjectId("another"), [new.mark]) == []
    assert await opened.volumes.made(opened.project, []) == []


async def test_types_are_known_by_name(opened: Opened) -> None:
    for project in (opened.project, ProjectId("another"), None):
        assert await opened.volumes.has_type("__DEFAULT__", project)
        assert not await opened.volumes.has_type("no such", project)


async def test_a_private_type_is_for_its_projects_and_for_administrators(opened: Opened) -> None:
    if opened.private_type is None:
        pytest.skip("a real service keeps the types that a test makes")
    mine, theirs = await opened.private_type(opened.project), await opened.private_type("another")
    for grant in ("", "grant of a member"):
        assert await opened.volumes.has_type(mine, opened.project, grant)
        assert not await opened.volumes.has_type(theirs, opened.project, grant)
    assert await opened.volumes.has_type(theirs, ProjectId("another"))
    assert not await opened.volumes.has_type(mine, ProjectId("another"))
    assert await opened.volumes.has_type(mine, None)
    assert await opened.volumes.has_type(theirs, None)


async def test_what_is_not_there_is_not_found(opened: Opened) -> None:
    volumes = opened.volumes
    for asked in (
        volumes.volume(NOWHERE),
        volumes.snapshot_volume(NOWHERE),
        volumes.attachment(NOWHERE),
        volumes.reserve(opened.server(), NOWHERE, []),
        volumes.connect(NOWHERE, connector("n1")),
        volumes.complete(NOWHERE),
    ):
        with pytest.raises(NotFound):
            await asked
    await volumes.detach(NOWHERE)
    await volumes.delete_volume(NOWHERE)
    assert await volumes.attachments(opened.server()) == []


async def test_a_volume_is_reserved_connected_completed_and_released(opened: Opened) -> None:
    volumes, mine, volume = opened.volumes, opened.server(), await opened.made()
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


async def test_a_volume_of_a_server_on_no_host_is_in_use(opened: Opened) -> None:
    volumes, mine, volume = opened.volumes, opened.server(), await opened.made()
    kept = await volumes.reserve(mine, volume, [])
    for _ in range(2):
        await volumes.complete(kept.id)
    assert await opened.status(volume) == "in-use"
    assert (await volumes.attachment(kept.id)).status == "attached"
    unshelved = await volumes.reserve(mine, volume, [kept.id])
    await volumes.detach(kept.id)
    assert await opened.status(volume) == "reserved"
    await volumes.connect(unshelved.id, connector("n1"))
    await volumes.complete(unshelved.id)
    assert await opened.status(volume) == "in-use"


async def test_everything_may_be_asked_twice(opened: Opened) -> None:
    volumes, mine, volume = opened.volumes, opened.server(), await opened.made()
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
    await opened.gone(volume)
    await volumes.delete_volume(volume)


async def test_a_server_holds_a_volume_twice_while_it_moves(opened: Opened) -> None:
    volumes, mine, volume = opened.volumes, opened.server(), await opened.made()
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
    volumes, mine, other, volume = opened.volumes, opened.server(), opened.server(), await opened.made()
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
        await opened.volumes.reserve(opened.server(), volume, [])
    await opened.volumes.delete_volume(volume)
    await opened.gone(volume)
    with pytest.raises(NotFound):
        await opened.volumes.volume(volume)


async def test_a_volume_that_one_attachment_reserves_is_made_anew(opened: Opened) -> None:
    if opened.image is None:
        pytest.skip("there is no image to make volumes of")
    volumes, mine, volume = opened.volumes, opened.server(), await opened.made()
    first = await volumes.reserve(mine, volume, [])
    second = await volumes.reserve(mine, volume, [first.id])
    with pytest.raises(Conflict):
        await volumes.reimage(volume, opened.image)
    await volumes.detach(first.id)
    await volumes.reimage(volume, opened.image)
    with pytest.raises(Refused):
        await volumes.reimage(volume, opened.image)
    while await opened.status(volume) == "downloading":
        await opened.settle()
    made = await volumes.volume(volume)
    assert (made.status, made.image_metadata["image_id"]) == ("reserved", opened.image)
    await volumes.connect(second.id, connector("n1"))
    for _ in range(2):
        with pytest.raises(Refused):
            await volumes.reimage(volume, opened.image)
        await volumes.complete(second.id)
    with pytest.raises(NotFound):
        await volumes.reimage(NOWHERE, opened.image)
    await volumes.detach(second.id)


async def test_users_see_volumes_and_snapshots_of_their_project(opened: Opened) -> None:
    volumes, project = opened.volumes, opened.project
    wanted = VolumeDetails(id="", project_id=project, status="", size_gib=1, name="mine", metadata={"a": "b"})
    made = await volumes.new_volume(wanted)
    await opened.settle()
    while (shown := await volumes.volume_details(made.id)).status == "creating":
        await opened.settle()
    assert (shown.project_id, shown.size_gib, shown.name) == (project, 1, "mine")
    assert (shown.status, shown.metadata, shown.held_by) == ("available", {"a": "b"}, ())
    assert shown in await volumes.project_volumes(project)
    assert shown not in await volumes.project_volumes(ProjectId("another"))
    mine = opened.server()
    held = await volumes.reserve(mine, made.id, [])
    await volumes.connect(held.id, connector("n1"))
    await volumes.complete(held.id)
    assert [one for one, _ in (await volumes.volume_details(made.id)).held_by] == [mine]
    new = SnapshotDetails(id="", project_id=project, volume_id=made.id, status="", size_gib=0)
    with pytest.raises(Refused):
        await volumes.new_snapshot(new, force=False)
    taken = await volumes.new_snapshot(new, force=True)
    await opened.settle()
    while (snapshot := await volumes.snapshot_details(taken.id)).status == "creating":
        await opened.settle()
    assert (snapshot.volume_id, snapshot.project_id, snapshot.size_gib) == (made.id, project, 1)
    assert snapshot in await volumes.project_snapshots(project)
    assert await volumes.project_snapshots(ProjectId("another")) == []
    await volumes.remove_snapshot(taken.id)
    await opened.settle()
    for missing in (
        volumes.snapshot_details(NOWHERE),
        volumes.remove_snapshot(NOWHERE),
        volumes.volume_details(NOWHERE),
    ):
        with pytest.raises(NotFound):
            await missing


async def test_attachments_of_one_volume_or_of_all(opened: Opened) -> None:
    mine, one, two = opened.server(), await opened.made(), await opened.made()
    for volume in (one, two):
        await opened.volumes.reserve(mine, volume, [])
    await opened.volumes.reserve(opened.server(), await opened.made(), [])
    assert {each.volume_id for each in await opened.volumes.attachments(mine)} == {one, two}
    assert [each.volume_id for each in await opened.volumes.attachments(mine, two)] == [two]


@pytest.mark.parametrize(
    "requested",
    [
        {"zone": "nowhere"},
        {"volume_type": "no such"},
        {"image_id": NOWHERE},
        {"snapshot_id": NOWHERE},
        {"source_volume_id": NOWHERE},
        {"size_gib": 0},
    ],
)
async def test_a_volume_that_cannot_be_made_is_refused(served: Served, requested: dict[str, Any]) -> None:
    new = served.new(**requested)
    with pytest.raises(Refused):
        await served.volumes.create_volume(new)
    assert await served.volumes.made(served.project, [new.mark]) == []


async def test_a_volume_is_made_of_an_image_of_a_volume_and_of_a_snapshot(served: Served) -> None:
    volumes = served.volumes
    of_image = await volumes.volume(await served.made(image_id=served.image))
    assert (of_image.is_bootable, of_image.image_metadata["image_id"]) == (True, served.image)
    await served.made(source_volume_id=of_image.id)
    new = NewSnapshot(mark=served.new().mark, project_id=served.project, volume_id=of_image.id, name="s")
    snapshot = await served.snapshot(new)
    copy = await volumes.volume(await served.made(snapshot_id=snapshot))
    assert (copy.is_bootable, copy.size_gib) == (True, 1)
    await volumes.delete_snapshot(snapshot)
    await served.gone_snapshot(new)


async def test_only_its_project_makes_a_volume(served: Served) -> None:
    new = served.new()
    with pytest.raises(Refused, match="400"):
        await served.alone.create_volume(new)
    with pytest.raises(Refused, match="400"):
        await served.alone.create_snapshot(
            NewSnapshot(mark="m", project_id=served.project, volume_id=await served.made(), name="s")
        )
    assert await served.volumes.made(served.project, [new.mark]) == []


async def test_only_a_service_deletes_a_connected_attachment(served: Served) -> None:
    """Source: CVE-2023-2088: an administrator's token is not enough."""
    volumes, mine, volume = served.volumes, served.server(), await served.made()
    held = await volumes.reserve(mine, volume, ())
    await volumes.connect(held.id, connector("n1"))
    for _ in range(2):
        try:
            await served.alone.detach(held.id)
        except (Conflict, Unavailable):  # Unavailable: it cannot ask the compute service
            await volumes.complete(held.id)
        else:
            assert served.asks_compute, "only a service deletes it"
            pytest.skip("the compute service of this cloud knows no such server")
    assert [one.id for one in await volumes.attachments(mine)] == [held.id]
    await volumes.detach(held.id)
    held = await volumes.reserve(mine, volume, ())
    await served.alone.detach(held.id)
    assert await served.status(volume) == "available"


async def test_a_volume_is_connected_from_a_second_host_only_by_a_new_attachment(opened: Opened) -> None:
    volumes, mine, volume = opened.volumes, opened.server(), await opened.made()
    source = await volumes.reserve(mine, volume, ())
    await volumes.connect(source.id, connector("n1"))
    await volumes.complete(source.id)
    reserved = await volumes.reserve(mine, volume, [source.id])
    with pytest.raises(Conflict):
        await volumes.connect(reserved.id, connector("n2"))
    first, again = [await volumes.connect_another(mine, volume, [source.id], connector("n2")) for _ in range(2)]
    assert first.id == again.id
    assert first.connection["driver_volume_type"]
    assert {one.id for one in await volumes.attachments(mine, volume)} == {source.id, first.id}
    with pytest.raises(Refused):
        await volumes.connect_another(opened.server(), volume, (), connector("n3"))
    await volumes.complete(first.id)
    await volumes.detach(source.id)
    assert (await volumes.volume_use(volume)).hosts == {first.id: "n2"}
    assert await opened.status(volume) == "in-use"


async def test_a_connection_that_was_never_completed_does_not_keep_a_server_from_its_volume(opened: Opened) -> None:
    volumes, mine, volume = opened.volumes, opened.server(), await opened.made()
    target = await volumes.reserve(mine, volume, ())
    await volumes.connect(target.id, connector("n2"))
    assert await opened.status(volume) == "attaching"
    source = await volumes.reserve(mine, volume, [target.id])
    assert source.id != target.id
    await volumes.detach(target.id)
    await volumes.connect(source.id, connector("n1"))
    await volumes.complete(source.id)
    assert (await volumes.volume_use(volume)).hosts == {source.id: "n1"}


async def test_servers_share_a_volume_that_allows_it(served: Served) -> None:
    if served.shared_type is None:
        pytest.skip("no backend here has volumes that several servers may have")
    volumes, one, two = served.volumes, served.server(), served.server()
    volume = await served.made(volume_type=await served.shared_type())
    assert (await volumes.volume(volume)).is_multiattach
    for server in (one, two):
        held = await volumes.reserve(server, volume, ())
        if server == one:
            with pytest.raises(Refused):
                await volumes.reserve(two, volume, ())  # until the first is complete
        await volumes.connect(held.id, connector("n1"))
        await volumes.complete(held.id)
    [first], [second] = [await volumes.attachments(server) for server in (one, two)]
    moved = await volumes.reserve(one, volume, [first.id])
    await volumes.connect(moved.id, connector("n2"))
    await volumes.complete(moved.id)
    await volumes.detach(first.id)
    assert (await volumes.volume_use(volume)).hosts == {moved.id: "n2", second.id: "n1"}
    await volumes.detach(second.id)
    assert await served.status(volume) == "in-use"
    await volumes.detach(moved.id)
    assert await served.status(volume) == "available"


async def test_a_snapshot_is_made_once_for_a_mark_also_of_a_volume_in_use(opened: Opened) -> None:
    volume_id, volumes = await opened.made(), opened.volumes
    if opened.snapshots_in_use:
        attachment = await volumes.reserve(opened.server(), volume_id, [])
        await volumes.connect(attachment.id, connector("h1"))
        await volumes.complete(attachment.id)
    new = NewSnapshot(mark="run/0", project_id=opened.project, volume_id=volume_id, name="s")
    first, again = [await volumes.create_snapshot(new) for _ in range(2)]
    assert (first.id, first.volume_id, first.size_gib) == (again.id, volume_id, 1)
    assert await opened.snapshot(new) == first.id
    assert await volumes.made_snapshots(volume_id, "another") == []
    assert [one.id for one in await volumes.snapshots_of(volume_id)] == [first.id]
    assert await volumes.snapshots_of(NOWHERE) == []
    assert (await volumes.snapshot_volume(first.id)).id == volume_id
    if opened.snapshots_in_use:
        await volumes.detach(attachment.id)
    with pytest.raises(Refused):
        await volumes.delete_volume(volume_id)
    for _ in range(2):
        with suppress(Refused):  # it is being deleted already
            await volumes.delete_snapshot(first.id)
    await opened.gone_snapshot(new)
    await volumes.delete_snapshot(first.id)
    with pytest.raises((Refused, NotFound)):
        await volumes.create_snapshot(msgspec.structs.replace(new, volume_id=NOWHERE))


async def test_a_late_report_of_a_snapshot_changes_nothing(opened: Opened) -> None:
    volume_id = await opened.made()
    new = NewSnapshot(mark=f"{uuid4()}/{volume_id}", project_id=opened.project, volume_id=volume_id, name="s")
    snapshot_id = await opened.snapshot(new)
    for was, status in (("creating", "creating"), ("creating", "error"), ("deleting", "error_deleting")):
        for each in (snapshot_id, NOWHERE):
            await opened.volumes.report_snapshot(each, was, status, "90%")
    assert (await opened.volumes.snapshot_details(snapshot_id)).status == "available"
    await opened.volumes.delete_snapshot(snapshot_id)
    await opened.gone_snapshot(new)


async def test_a_snapshot_leads_to_its_volume(tmp_path: Path) -> None:
    async with volume_cloud(tmp_path) as cloud:
        volume = await cloud.volume(name="origin")
        made = await cloud.done("ann", "POST", "/snapshots", {"snapshot": {"volume_id": volume}})
        cloud.client.headers["X-Auth-Token"] = "nova"
        cloud.client.base_url = httpx.URL("http://cloud/volume/v3")
        found = await HttpVolumes(HttpxService(cloud.client, "volume")).snapshot_volume(made["snapshot"]["id"])
        assert (found.id, found.name, found.zone) == (volume, "origin", "nova")


@pytest.mark.parametrize(("status", "error"), [*EVERYWHERE, (409, Conflict), (413, OverQuota)])
async def test_what_an_http_status_means(status: int, error: type[Exception]) -> None:
    said = {"kind": {"message": "so it is", "code": status}}
    transport = httpx.MockTransport(lambda request: httpx.Response(status, json=said))
    async with httpx.AsyncClient(transport=transport, base_url="http://volume") as client:
        with pytest.raises(error, match=f"{status}: so it is"):
            await HttpVolumes(HttpxService(client, "volume")).volume(NOWHERE)


@pytest.mark.parametrize("answer", [None, b"<html>", b"{}", b'{"volume": 5}'])
async def test_no_answer_and_one_that_cannot_be_read_are_unavailable(answer: bytes | None) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        if answer is None:
            raise httpx.ReadError("connection reset")
        return httpx.Response(200, content=answer)

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond), base_url="http://volume") as client:
        with pytest.raises(Unavailable):
            await HttpVolumes(HttpxService(client, "volume")).volume(NOWHERE)


async def test_the_attachments_of_all_servers_come_page_by_page(opened: Opened) -> None:
    held = [await opened.volumes.reserve(opened.server(), await opened.made(), ()) for _ in range(3)]
    told: list[Attachment] = []
    after: str | None = None
    while True:
        page = await opened.volumes.all_attachments(after, 2)
        assert len(page.items) <= 2
        told += page.items
        if (after := page.after) is None:
            break
    assert {(one.id, one.volume_id, one.server) for one in held} <= {
        (one.id, one.volume_id, one.server) for one in told
    }


async def test_a_volume_says_from_where_it_is_used(opened: Opened) -> None:
    volumes, free, used = opened.volumes, await opened.made(), await opened.made()
    held = await volumes.reserve(opened.server(), used, ())
    await volumes.connect(held.id, connector("n1"))
    await volumes.complete(held.id)
    assert await volumes.volume_use(used) == VolumeUse(used, "in-use", {held.id: "n1"}, opened.project)
    assert (await volumes.volume_use(free)).hosts == {}
    told: list[VolumeUse] = []
    after: str | None = None
    while (page := await volumes.volume_uses(after, 1)).after:
        told, after = [*told, *page.items], page.after
    assert {one.id: len(one.hosts) for one in told}.items() >= {free: 0, used: 1}.items()
    with pytest.raises(NotFound):
        await volumes.volume_use(NOWHERE)


async def test_a_migrated_volume_says_by_what_its_files_are_named() -> None:
    """Source: Cinder's VolumeMigStatusAttribute; the id is that of the migration's target."""
    shown = {"id": "v", "status": "in-use", "size": 1, "os-vol-mig-status-attr:name_id": "t"}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json={"volume": shown}))
    async with httpx.AsyncClient(transport=transport, base_url="http://volume") as client:
        assert (await HttpVolumes(HttpxService(client, "volume")).volume_use("v")).named_by == "t"
