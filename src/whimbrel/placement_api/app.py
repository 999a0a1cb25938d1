"""Where HTTP comes in: token, version, route, content type, right, query, body, in this order; then the handler.

Law: every request gets one id and one answer of Placement's shape, whatever happens.
"""

from email.utils import formatdate
from typing import Any

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from whimbrel.domain.errors import WorldError
from whimbrel.placement.store import Store
from whimbrel.placement_api import microversions, problems, queries
from whimbrel.placement_api.access import Access, ByToken, ByWord, Callers, access
from whimbrel.placement_api.call import Call, Reply
from whimbrel.placement_api.dispatch import Dispatcher, Route
from whimbrel.placement_api.problems import Problem
from whimbrel.placement_api.root import DOCUMENT
from whimbrel.placement_api.routes import ROUTES
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.identity import Caller, Identity

log = structlog.get_logger(__name__)

JSON = "application/json"
MAX_BODY_BYTES = 4 << 20
DATED_SINCE = 15


def placement_app(
    store: Store,
    identity: Identity | None,
    clock: Clock,
    ids: IdSource,
    *,
    identity_url: str | None = None,
    rights: Access | None = None,
) -> ASGIApp:
    """Make the Placement API, to be mounted at /placement (or to be a server of its own).

    identity: None: whoever asks is believed, for tests. identity_url: where clients without a token are sent; None:
    /identity on the same server. rights: None: the legacy defaults.
    """
    callers = ByToken(identity, identity_url) if identity else ByWord()
    return Door(store, callers, rights or access("legacy"), clock, ids)


class Door:
    """The ASGI application itself."""

    def __init__(self, store: Store, callers: Callers, rights: Access, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._callers = callers
        self._rights = rights
        self._clock = clock
        self._ids = ids
        self._dispatcher = Dispatcher(ROUTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing to start or end, no web sockets
        request = Request(scope, receive)
        request_id = "req-" + self._ids.uuid()
        minor: int | None = None
        try:
            # The version document is the one thing for which nobody needs a token.
            caller = None if _path(request) in ("", "/") else await self._callers.of(request)
            minor = microversions.negotiate(request.headers.get("openstack-api-version"))
            reply = await self._answer(request, caller, minor)
        except Problem as problem:
            reply = _refusal(problem, request_id, minor)
        except WorldError as error:
            reply = _refusal(problems.of(error), request_id, minor)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("request failed", request_id=request_id, method=request.method, path=scope["path"])
            reply = _refusal(problems.unexpected(request_id), request_id, minor)
        await self._response(request, reply, request_id, minor)(scope, receive, send)

    async def _answer(self, request: Request, caller: Caller | None, minor: int) -> Reply:
        if caller is None:
            return _document(request)
        path = _path(request)
        if "\x00" in path:
            raise Problem(404, "The resource could not be found.")
        route, params = self._dispatcher.find(request.method, path, minor)
        takes_body = route.body is not None and route.body.is_there(minor)
        _check_types(request, takes_body)
        is_of_project = route.keys is not None and "project_id" in route.keys
        self._rights.check(route.rule, caller, request.query_params.get("project_id") if is_of_project else None)
        query = queries.read(request.scope["query_string"], route.keys, minor) if route.keys is not None else {}
        call = Call(
            store=self._store,
            ids=self._ids,
            caller=caller,
            minor=minor,
            params=params,
            query=query,
            body=await _body(request, route, minor) if takes_body else None,
            mounted_at=_mounted_at(request),
            origin=_origin(request),
        )
        answer = await route.handler(call)
        return answer if isinstance(answer, Reply) else Reply(status=200, body=answer)

    def _response(self, request: Request, reply: Reply, request_id: str, minor: int | None) -> Response:
        headers = {"x-openstack-request-id": request_id, **reply.headers}
        if minor is not None:
            headers["openstack-api-version"] = f"placement 1.{minor}"
            headers["vary"] = "openstack-api-version"
            if minor >= DATED_SINCE and reply.status < 300 and (reply.body is not None or _shows(request)):
                # We keep no times: what is shown is so now.
                headers["last-modified"] = formatdate(self._clock.now(), usegmt=True)
                headers["cache-control"] = "no-cache"
        if reply.body is None:
            return Response(status_code=reply.status, headers=headers)
        return Response(msgspec.json.encode(reply.body), reply.status, headers, JSON)


def _shows(request: Request) -> bool:
    """Tell whether an answer without a body says how something is: of a trait, its being there is all there is."""
    return request.method == "GET" or (request.method == "PUT" and request.url.path.split("/")[-2] == "traits")


def _document(request: Request) -> Reply:
    if request.method not in ("GET", "HEAD"):
        raise Problem(405, "The version document can be read only.", headers={"allow": "GET"})
    return Reply(status=200, body=DOCUMENT)


def _refusal(problem: Problem, request_id: str, minor: int | None) -> Reply:
    body = problems.body(problem, request_id, minor)
    return Reply(status=problem.status, body=body, headers=problem.headers)


def _check_types(request: Request, takes_body: bool) -> None:
    """Raises: Problem: 406: the client wants no JSON; 415 or 400: it sends none."""
    accept = request.headers.get("accept") if request.method == "GET" else None
    if accept and not any(kind in accept for kind in (JSON, "application/*", "*/*")):
        raise Problem(406, f"Only {JSON} is provided")
    if not takes_body:
        return
    sent = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if not sent and request.headers.get("content-length", "0") != "0":
        raise Problem(400, "content-type header required when content-length > 0")
    if sent != JSON:
        raise Problem(415, f"The media type {sent or None} is not supported, use {JSON}")


async def _body(request: Request, route: Route, minor: int) -> Any:
    raw = await _read(request)
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"Malformed JSON: {error}") from None
    assert route.body is not None, "asked before"
    route.body.check(minor, body)
    return body


async def _read(request: Request) -> bytes:
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MAX_BODY_BYTES:
            raise Problem(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
    return raw


def _mounted_at(request: Request) -> str:
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")


def _path(request: Request) -> str:
    path: str = request.scope["path"]
    return path.removeprefix(_mounted_at(request))


def _origin(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"
