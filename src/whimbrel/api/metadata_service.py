"""The metadata service as Neutron's metadata agent asks it: the agent says which server asks, and signs that.

Invariant: a request is answered only with the agent's signature, and only about a server of the project that it names.
Source: Nova's metadata API, service_metadata_proxy.
"""

import hashlib
import hmac
from collections.abc import Mapping
from types import MappingProxyType

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ServerId
from whimbrel.guest_data import ec2_format
from whimbrel.hosts.guest_metadata import GuestMetadata
from whimbrel.http.app import App, Shape
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request
from whimbrel.ports.cloud import Cloud
from whimbrel.servers import lookup

MAX_BODY_BYTES = 64 << 10
SERVER, SIGNATURE, PROJECT = "x-instance-id", "x-instance-id-signature", "x-tenant-id"
TITLES = {SERVER: "X-Instance-ID", SIGNATURE: "X-Instance-ID-Signature", PROJECT: "X-Tenant-ID"}


def signature_of(server: str, secret: bytes) -> str:
    return hmac.new(secret, server.encode(), hashlib.sha256).hexdigest()


def metadata_app(cloud: Cloud, secret: bytes) -> App:
    """Create the application, to be a server of its own. secret: the metadata_proxy_shared_secret of the agents."""
    guests = GuestMetadata(cloud)

    async def answer(request: Request) -> Reply:
        if request.path.strip("/") == "":
            return _text("\n".join([*ec2_format.VERSIONS, ec2_format.LATEST]).encode())
        server_id = _signed(request, secret)
        if refusal := guests.too_many(server_id):
            return _text(refusal.body, refusal.status, {"retry-after": str(refusal.retry_after_s)})
        try:
            server = await lookup.find(cloud, server_id)
        except NotFound as missing:
            raise Problem(404, missing.reason) from None
        if server.project_id != request.headers[PROJECT]:
            raise Problem(404, f"Server {server_id} is of another project.")
        method = "GET" if request.method == "HEAD" else request.method
        body = await request.read(MAX_BODY_BYTES) if method != "GET" else b""
        told = await guests.answer(server, request.path, method, body)
        return Reply(told.body, told.status, {"content-type": f"{told.content_type}; charset=UTF-8"})

    return App(answer, Shape(refusal=_refusal))


def _signed(request: Request, secret: bytes) -> ServerId:
    """Return the server that asks. Raises: Problem: 400 a header is missing, 403 the signature is wrong."""
    for name in (SERVER, SIGNATURE, PROJECT):
        if name not in request.headers:
            raise Problem(400, f"{TITLES[name]} header is missing from request.")
    server, signature = request.headers[SERVER], request.headers[SIGNATURE]
    if not hmac.compare_digest(signature_of(server, secret).encode(), signature.encode()):
        raise Problem(403, "Invalid proxy request signature.")
    return ServerId(server)


def _refusal(_request: Request, problem: Problem) -> Reply:
    return _text(f"{problem.status} {problem}\n".encode(), problem.status)


def _text(body: bytes, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})) -> Reply:
    return Reply(body, status, {"content-type": "text/plain; charset=UTF-8", **headers})
