"""Every URL of the image service and what answers."""

from starlette.requests import Request
from starlette.responses import Response

from whimbrel.embedded.endpoint import App, Line, base_url, json
from whimbrel.embedded.image import images, members, schemas, transfer, usage
from whimbrel.embedded.image.request import MANNERS, Door, Handler, endpoint
from whimbrel.embedded.image.service import ImageService
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.identity import Identity

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
    ("GET", "/v2/info/usage", usage.show),
    ("GET", "/v2/schemas/image", schemas.image),
    ("GET", "/v2/schemas/images", schemas.images),
    ("GET", "/v2/schemas/member", schemas.member),
    ("GET", "/v2/schemas/members", schemas.members),
)


def image_app(service: ImageService, identity: Identity, ids: IdSource) -> App:
    """Make the application, to be mounted at /image."""
    door = Door(service=service, identity=identity, ids=ids)
    lines: list[Line] = [(method, path, endpoint(door, handler)) for method, path, handler in ROUTES]
    return App([("GET", "/", _versions), ("GET", "/versions", _versions), *lines], MANNERS)


async def _versions(request: Request) -> Response:
    """Tell what is served here, to anybody."""
    href = f"{base_url(request)}/v2/"
    versions = [{"id": name, "status": status, "links": [{"rel": "self", "href": href}]} for name, status in VERSIONS]
    return json({"versions": versions}, 300)
