"""What a host may do with a grant: what it says, with one image, for a short time."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from whimbrel.adapters.openstack.granted_images import GrantedImages
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.image_store import SqlImages
from whimbrel.domain.errors import Refused
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.ids import HostName
from whimbrel.domain.image_grant import LIFETIME_S, Grant, ImageAccess, granted
from whimbrel.embedded.image import ImageService, LocalImages, image_app
from whimbrel.embedded.image.file_store import FileStore
from whimbrel.embedded.image.relay import relay_app
from whimbrel.embedded.image.storage_limit import Allowance
from whimbrel.ports.hosts.control_plane import AgentHello, Beat, BeatAnswer, ImageGrant, Welcome
from whimbrel.ports.services.images import Image
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.ids import SeededIds

H1 = HostName("h1")
BASE, SENT, OTHER = "image-base", "image-sent", "image-other"
SECRET = b"secret"
NOT_RELAYED = (404, 405)


class Nobody:
    async def principal(self, token: str) -> None:
        return None


class Granting:
    """Grants what is in `allowed`, as the control plane does by its open runs."""

    def __init__(self, clock: JumpingClock, *allowed: tuple[str, ImageAccess]) -> None:
        self.clock = clock
        self.allowed = set(allowed)

    async def image_grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        if (image_id, access) not in self.allowed:
            raise Refused("not needed")
        until = self.clock.now() + LIFETIME_S
        token = Grant(host=host, image_id=image_id, access=access, expires_at=until).token(SECRET)
        return ImageGrant(url="http://image", token=token, expires_at=until)

    async def register(self, host: HostName, hello: AgentHello) -> Welcome:
        raise NotImplementedError

    async def beat(self, host: HostName, beat: Beat) -> BeatAnswer:
        raise NotImplementedError

    async def describe(self, host: HostName, session: int, description: HostDescription) -> None:
        raise NotImplementedError


@dataclass
class Scene:
    images: LocalImages  # of the cloud, with all permissions
    host: GrantedImages
    granting: Granting
    client: httpx.AsyncClient  # to the image service, without a token
    clock: JumpingClock

    async def answers(self, method: str, path: str, token: str) -> int:
        answer = await self.client.request(
            method, path, headers={"X-Auth-Token": token, "Content-Type": "application/octet-stream"}, content=b"x"
        )
        return answer.status_code


@pytest.fixture(params=["embedded", "relay"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    database = open_database("sqlite://", "images")
    await create_all(database, "images")
    store, clock = SqlImages(database), JumpingClock()
    service = ImageService(store, FileStore(tmp_path / "files"), clock, Allowance(store))
    local = LocalImages(service)
    for each in (BASE, SENT, OTHER):
        await local.create(Image(id=each, name=each, status="queued", disk_format="raw", size_bytes=0, checksum=None))
    await local.write(BASE, chunks(b"base"))
    await local.write(OTHER, chunks(b"other"))
    granting = Granting(clock, (BASE, "read"), (SENT, "write"))
    app = image_app(service, Nobody(), SeededIds(1), SECRET)
    if request.param == "relay":
        app = relay_app(local, clock, SECRET)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://image") as client:
        yield Scene(local, GrantedImages(H1, granting, transport=transport), granting, client, clock)
    await database.close()


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def read(images: GrantedImages | LocalImages, image_id: str) -> bytes:
    return b"".join([chunk async for chunk in images.read(image_id)])


async def test_a_host_reads_and_writes_what_its_runs_need(scene: Scene) -> None:
    assert await read(scene.host, BASE) == b"base"
    assert (await scene.host.show(SENT)).status == "queued"
    await scene.host.write(SENT, chunks(b"disk"))
    await scene.host.write(SENT, chunks(b"again"))  # it is active: no effect
    assert await read(scene.images, SENT) == b"disk"


async def test_a_host_gets_no_image_that_it_does_not_need(scene: Scene) -> None:
    with pytest.raises(Refused):
        await read(scene.host, OTHER)
    with pytest.raises(Refused):
        await scene.host.write(BASE, chunks(b"changed"))
    assert await read(scene.images, BASE) == b"base"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/images"),
        ("GET", f"/v2/images/{OTHER}"),
        ("GET", f"/v2/images/{OTHER}/file"),
        ("PUT", f"/v2/images/{BASE}/file"),
        ("DELETE", f"/v2/images/{BASE}"),
        ("GET", f"/v2/images/{BASE}/members"),
        ("POST", "/v2/images"),
    ],
)
async def test_a_grant_is_for_one_image_and_one_use(scene: Scene, method: str, path: str) -> None:
    grant = await scene.granting.image_grant(H1, BASE, "read")
    assert await scene.answers("GET", f"/v2/images/{BASE}", grant.token) == 200
    assert await scene.answers(method, path, grant.token) in (403, *NOT_RELAYED)


async def test_a_grant_expires(scene: Scene) -> None:
    grant = await scene.granting.image_grant(H1, BASE, "read")
    await scene.clock.sleep(LIFETIME_S)
    assert await scene.answers("GET", f"/v2/images/{BASE}/file", grant.token) == 401


async def test_a_grant_cannot_be_changed_or_made(scene: Scene) -> None:
    own = Grant(host=H1, image_id=OTHER, access="read", expires_at=scene.clock.now() + 60.0)
    body, _, signature = (await scene.granting.image_grant(H1, BASE, "read")).token.rpartition(".")
    for forged in (own.token(b"guessed"), f"{own.token(b'')}", f"{own.token(SECRET)[:-1]}", f"{body}x.{signature}"):
        assert await scene.answers("GET", f"/v2/images/{OTHER}/file", forged) == 401
    assert granted("grant.", SECRET, scene.clock.now()) is None
