"""Where HTTP comes in: token, version, route, content type, right, query, body, in this order; then the handler.

Law: every request gets one id and one answer of Placement's shape, whatever happens.
"""

from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.store import Store
from whimbrel.placement_api import content_types, microversions, problems
from whimbrel.placement_api.bodies import whole
from whimbrel.placement_api.call import Call, Reply
from whimbrel.placement_api.dispatch import NOT_FOUND, Dispatcher, Route
from whimbrel.placement_api.principals import Access, ByToken, ByWord, Principals, access
from whimbrel.placement_api.problems import Problem
from whimbrel.placement_api.routes import ROUTES
from whimbrel.placement_api.version_document import DOCUMENT
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.meter import note_route
from whimbrel.ports.services.identity import Identity, Principal

log = structlog.get_logger(__name__)

MAX_BODY_BYTES = 4 << 20
DATED_SINCE = 15
MOST_CANDIDATES = 10_000
"""In one answer, if nothing else is set: some 10 MB."""


def placement_app(
    store: Store,
    identity: Identity | None,
    clock: Clock,
    ids: IdSource,
    *,
    identity_url: str | None = None,
    rights: Access | None = None,
    most_candidates: int | None = MOST_CANDIDATES,
) -> ASGIApp:
    """Make the Placement API, to be mounted at /placement (or to be a server of its own).

    identity: None: whoever asks is believed, for tests. identity_url: where clients without a token are sent; None:
    /identity on the same server. rights: None: the legacy defaults. most_candidates: in one answer, None: all.
    """
    principals = ByToken(identity, identity_url) if identity else ByWord()
    return Door(store, principals, rights or access("legacy"), clock, ids, most_candidates)


class Door:
    """The ASGI application itself."""

    def __init__(
        self,
        store: Store,
        principals: Principals,
        rights: Access,
        clock: Clock,
        ids: IdSource,
        most_candidates: int | None,
    ) -> None:
        self._store = store
        self._principals = principals
        self._rights = rights
        self._clock = clock
        self._ids = ids
        self._most_candidates = most_candidates
        self._dispatcher = Dispatcher(ROUTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing to start or end, no web sockets
        request = Request(scope, receive)
        request_id = "req-" + self._ids.uuid()
        minor: int | None = None
        try:
            # The version document is the one thing for which nobody needs a token.
            principal = None if _path(request) in ("", "/") else await self._principals.of(request)
            minor = microversions.negotiate(request.headers.get("openstack-api-version"))
            reply = await self._answer(request, principal, minor)
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

    async def _answer(self, request: Request, principal: Principal | None, minor: int) -> Reply:
        if principal is None:
            return _document(request)
        path = _path(request)
        _check_has_type(request)
        route, params = self._dispatcher.find(request.method, path, minor)
        note_route(request.scope, route.path)
        takes_body = route.body is not None and route.body.is_there(minor)
        _check_types(request, route, takes_body)
        is_of_project = route.keys is not None and "project_id" in route.keys
        self._rights.check(route.rule, principal, request.query_params.get("project_id", "") if is_of_project else None)
        if "\x00" in path:
            raise Problem(404, NOT_FOUND)
        query = route.keys.read(request.scope["query_string"], minor) if route.keys is not None else {}
        call = Call(
            store=self._store,
            ids=self._ids,
            principal=principal,
            minor=minor,
            params=params,
            query=query,
            body=await self._body(request, route, params, minor) if takes_body else None,
            mounted_at=_mounted_at(request),
            most_candidates=self._most_candidates,
            origin=_origin(request),
        )
        answer = await route.handler(call)
        return answer if isinstance(answer, Reply) else Reply(status=200, body=answer)

    async def _body(self, request: Request, route: Route, params: Mapping[str, str], minor: int) -> Any:
        """Read the body. Raises: Problem: 400; ProviderNotFound: in some places that is said first."""
        try:
            return await _body(request, route, minor)
        except Problem:
            if route.needs_provider:
                await self._store.node(ProviderId(params["uuid"]))
            raise

    def _response(self, request: Request, reply: Reply, request_id: str, minor: int | None) -> Response:
        headers = {"x-openstack-request-id": request_id, **reply.headers}
        if minor is not None:
            headers["openstack-api-version"] = f"placement 1.{minor}"
            headers["vary"] = "openstack-api-version"
            if minor >= DATED_SINCE and reply.status < 300 and (reply.body is not None or _shows(request)):
                headers["cache-control"] = "no-cache"
                if reply.is_dated:  # we keep no times: what is shown is so now
                    headers["last-modified"] = formatdate(self._clock.now(), usegmt=True)
        if reply.body is None:
            return Response(status_code=reply.status, headers=headers)
        if (
            reply.status >= 400
            and (kind := content_types.of_error(request.headers.get("accept"))) != content_types.JSON
        ):
            return Response(problems.text(reply.body, kind), reply.status, headers, kind)
        return Response(msgspec.json.encode(reply.body), reply.status, headers, content_types.JSON)


def _shows(request: Request) -> bool:
    """Tell whether an answer without a body says how something is: of a trait, its being there is all there is."""
    return request.method == "GET" or (request.method == "PUT" and request.url.path.split("/")[-2] == "traits")


def _document(request: Request) -> Reply:
    if request.method != "GET":
        raise Problem(405, f"The method {request.method} is not allowed for this resource.", headers={"allow": "GET"})
    return Reply(status=200, body=DOCUMENT)


def _refusal(problem: Problem, request_id: str, minor: int | None) -> Reply:
    body = problems.body(problem, request_id, minor)
    return Reply(status=problem.status, body=body, headers=problem.headers)


def _check_has_type(request: Request) -> None:
    """Raises: Problem: 400: something is sent, and not said what."""
    if request.headers.get("content-length", "0") != "0" and not request.headers.get("content-type"):
        raise Problem(400, "content-type header required when content-length > 0")


def _check_types(request: Request, route: Route, takes_body: bool) -> None:
    """Raises: Problem: 406: the client wants no JSON; 415: it sends none."""
    if (
        request.method == "GET"
        and route.shows_body
        and not content_types.quality(request.headers.get("accept"), content_types.JSON)
    ):
        raise Problem(406, f"Only {content_types.JSON} is provided")
    sent = request.headers.get("content-type", "").split(";")[0].strip()
    if takes_body and sent != content_types.JSON:
        raise Problem(415, f"The media type {sent or None} is not supported, use {content_types.JSON}")


async def _body(request: Request, route: Route, minor: int) -> Any:
    raw = await _read(request)
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"Malformed JSON: {error}") from None
    assert route.body is not None, "asked before"
    route.body.check(minor, body)
    return whole(body)


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
