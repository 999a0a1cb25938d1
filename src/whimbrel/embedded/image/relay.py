"""The relay of an image service that others run: what a host may do there with a grant, done with this cloud's login.

Invariant: a host sees no token of the image service, and of an image only what it needs to use the file: properties can
be private, and locations can contain passwords of the store.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from whimbrel.domain.image_grant import Grant
from whimbrel.embedded.image.request import IMAGE, IMAGE_FILE, SHAPE, grant_of
from whimbrel.embedded.image.transfer import OCTETS
from whimbrel.http.app import App, routed
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.http.request import Request
from whimbrel.http.routes import Route
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.images import Images


@dataclass(frozen=True)
class _Ask:
    """One request of a host, and the grant that permits it."""

    request: Request
    images: Images
    grant: Grant


def relay_app(images: Images, clock: Clock, secret: bytes) -> App:
    """Create the application. images: the service, with this cloud's login. secret: of the grants of hosts."""

    async def admit(request: Request, route: Route) -> _Ask:
        token = request.headers.get("x-auth-token", "")
        return _Ask(request, images, grant_of(token, request, route, secret, clock.now()))

    return routed([Route(*line) for line in _ROUTES], admit, SHAPE)


async def _show(call: _Ask) -> Reply:
    image = await call.images.show(call.grant.image_id)
    return Reply(
        {
            "id": image.id,
            "name": image.name,
            "status": image.status,
            "disk_format": image.disk_format,
            "size": image.size_bytes,
            "checksum": image.checksum,
            "min_disk": image.min_disk_gib,
            "min_ram": image.min_ram_mib,
        }
    )


async def _download(call: _Ask) -> Reply:
    """Pass the file on as it comes; if it breaks off, so does the answer."""
    chunks = call.images.read(call.grant.image_id)
    first = await anext(chunks, b"")  # before the answer begins an error still has a status
    return Reply(headers={"content-type": OCTETS}, stream=_joined(first, chunks))


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


async def _upload(call: _Ask) -> Reply:
    """Pass the file on as it comes; an image that is active stays as it is."""
    await call.images.write(call.grant.image_id, call.request.stream())
    return NO_CONTENT


_ROUTES: tuple[tuple[str, str, Callable[[_Ask], Awaitable[Reply]]], ...] = (
    ("GET", IMAGE, _show),
    ("GET", IMAGE_FILE, _download),
    ("PUT", IMAGE_FILE, _upload),
)
