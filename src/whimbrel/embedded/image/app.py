"""Every URL of the image service and its handler."""

import msgspec

from whimbrel.embedded.image import images, imports, members, metadef_schemas, metadefs, schemas, transfer, usage
from whimbrel.embedded.image.request import IMAGE, IMAGE_FILE, SHAPE, Handler, admission
from whimbrel.embedded.image.service import ImageService
from whimbrel.http.app import App, routed
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request
from whimbrel.http.routes import OPEN, Route
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.identity import Identity

VERSIONS = (("v2.9", "CURRENT"), ("v2.5", "SUPPORTED"), ("v2.2", "SUPPORTED"), ("v2.0", "SUPPORTED"))

GONE = ("/v1/images", "/v1/images/detail", "/v1/shared-images/{project_id}")
"""URLs of old clients: the answer is that the version does not exist."""

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/v2/images", images.search),
    ("POST", "/v2/images", images.create),
    ("GET", IMAGE, images.show),
    ("PATCH", IMAGE, images.update),
    ("DELETE", IMAGE, images.delete),
    ("POST", IMAGE + "/actions/deactivate", images.deactivate),
    ("POST", IMAGE + "/actions/reactivate", images.reactivate),
    ("PUT", IMAGE_FILE, transfer.upload),
    ("PUT", IMAGE + "/stage", transfer.stage),
    ("POST", IMAGE + "/import", imports.start),
    ("GET", IMAGE + "/tasks", imports.list_image_tasks),
    ("GET", IMAGE_FILE, transfer.download),
    ("PUT", IMAGE + "/tags/{tag}", images.add_tag),
    ("DELETE", IMAGE + "/tags/{tag}", images.delete_tag),
    ("GET", IMAGE + "/members", members.search),
    ("POST", IMAGE + "/members", members.create),
    ("GET", IMAGE + "/members/{project_id}", members.show),
    ("PUT", IMAGE + "/members/{project_id}", members.update),
    ("DELETE", IMAGE + "/members/{project_id}", members.delete),
    ("GET", "/v2/tasks", imports.list_tasks),
    ("GET", "/v2/info/usage", usage.show),
    ("GET", "/v2/info/import", imports.show_methods),
    ("GET", "/v2/info/stores", imports.show_stores),
    ("GET", "/v2/schemas/image", schemas.image),
    ("GET", "/v2/schemas/images", schemas.images),
    ("GET", "/v2/schemas/member", schemas.member),
    ("GET", "/v2/schemas/members", schemas.members),
    *metadefs.ROUTES,
    *metadef_schemas.ROUTES,
)


def image_app(service: ImageService, identity: Identity, ids: IdSource, secret: bytes | None = None) -> App:
    """Create the application, to be mounted at /image. secret: of the grants of hosts; None: there are none."""
    documents = (
        Route("GET", "/versions", _versions, OPEN),
        *(Route("GET", path, _choices, OPEN) for path in ("/", *GONE)),
    )
    admit = admission(service, identity, ids, secret)
    return routed([*documents, *(Route(*line) for line in ROUTES)], admit, SHAPE, ends_in_slash=False)


async def _versions(request: Request) -> Reply:
    """List the versions; needs no token."""
    href = f"{request.root_url}/v2/"
    versions = [{"id": name, "status": status, "links": [{"rel": "self", "href": href}]} for name, status in VERSIONS]
    return Reply({"versions": versions})


async def _choices(request: Request) -> Reply:
    """List the versions to a client that has named none."""
    return msgspec.structs.replace(await _versions(request), status=300)
