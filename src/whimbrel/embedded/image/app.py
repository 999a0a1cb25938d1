"""Every URL of the image service and what answers."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from whimbrel.embedded.door import App, Line, base_url, json
from whimbrel.embedded.image import images, members, schemas, transfer
from whimbrel.embedded.image.door import MANNERS, Door, Handler, endpoint
from whimbrel.embedded.image.shelf import LIMIT_BYTES, Shelf
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.identity import Identity
from whimbrel.ports.images import ImageStore

IMAGE = "/v2/images/{image_id}"
VERSIONS = (("v2.9", "CURRENT"), ("v2.5", "SUPPORTED"), ("v2.2", "SUPPORTED"), ("v2.0", "SUPPORTED"))

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/v2/images", images.search),
    ("POST", "/v2/images", images.create),
    ("GET", IMAGE, images.show),
    ("PATCH", IMAGE, images.update),
    ("DELETE", IMAGE, images.delete),
    ("PUT", IMAGE + "/file", transfer.upload),
    ("GET", IMAGE + "/file", transfer.download),
    ("PUT", IMAGE + "/tags/{tag}", images.add_tag),
    ("DELETE", IMAGE + "/tags/{tag}", images.delete_tag),
    ("GET", IMAGE + "/members", members.search),
    ("POST", IMAGE + "/members", members.create),
    ("GET", IMAGE + "/members/{project_id}", members.show),
    ("PUT", IMAGE + "/members/{project_id}", members.update),
    ("DELETE", IMAGE + "/members/{project_id}", members.delete),
    ("GET", "/v2/schemas/image", schemas.image),
    ("GET", "/v2/schemas/images", schemas.images),
    ("GET", "/v2/schemas/member", schemas.member),
    ("GET", "/v2/schemas/members", schemas.members),
)


def image_app(
    store: ImageStore,
    files_dir: Path,
    identity: Identity,
    clock: Clock,
    ids: IdSource,
    limit_bytes: int = LIMIT_BYTES,
) -> App:
    """Make the application, to be mounted at /image. limit_bytes: how large one file may be."""
    shelf = Shelf(files_dir, limit_bytes)
    door = Door(store=store, shelf=shelf, identity=identity, clock=clock, ids=ids)
    lines: list[Line] = [(method, path, endpoint(door, handler)) for method, path, handler in ROUTES]
    return App([("GET", "/", _versions), ("GET", "/versions", _versions), *lines], MANNERS)


async def _versions(request: Request) -> Response:
    """Tell what is served here, to anybody."""
    href = f"{base_url(request)}/v2/"
    versions = [{"id": name, "status": status, "links": [{"rel": "self", "href": href}]} for name, status in VERSIONS]
    return json({"versions": versions}, 300)
