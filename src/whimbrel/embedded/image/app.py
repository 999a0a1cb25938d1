"""Every URL of the image service and what answers."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from whimbrel.domain.errors import WorldError
from whimbrel.embedded.image import images, members, schemas, transfer
from whimbrel.embedded.image.door import (
    Door,
    Handler,
    base_url,
    endpoint,
    json,
    on_bug,
    on_disconnect,
    on_http_error,
    on_world_error,
)
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
) -> Starlette:
    """Make the application, to be mounted at /image. limit_bytes: how large one file may be."""
    shelf = Shelf(files_dir, limit_bytes)
    door = Door(store=store, shelf=shelf, identity=identity, clock=clock, ids=ids)
    return Starlette(
        routes=[
            Route("/", _versions),
            Route("/versions", _versions),
            *(Route(path, endpoint(door, handler), methods=[method]) for method, path, handler in ROUTES),
        ],
        exception_handlers={
            WorldError: on_world_error,
            HTTPException: on_http_error,
            ClientDisconnect: on_disconnect,
            Exception: on_bug,
        },
    )


async def _versions(request: Request) -> Response:
    """Tell what is served here, to anybody."""
    href = f"{base_url(request)}/v2/"
    versions = [{"id": name, "status": status, "links": [{"rel": "self", "href": href}]} for name, status in VERSIONS]
    return json({"versions": versions}, 300)
