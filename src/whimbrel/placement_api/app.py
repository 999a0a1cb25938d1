"""The Placement API. It checks token, version, route, content type, policy, query and body in this order; then the
handler runs.
"""

from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.http.app import App, Shape
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply, reply_of
from whimbrel.http.request import NOT_JSON, Request
from whimbrel.http.routes import RouteTable
from whimbrel.placement.store import Store
from whimbrel.placement_api import content_types
from whimbrel.placement_api.bodies import Body, whole
from whimbrel.placement_api.call import Call, Undated
from whimbrel.placement_api.dispatch import Route
from whimbrel.placement_api.microversions import VERSIONS
from whimbrel.placement_api.principals import Access, ByToken, ByWord, access
from whimbrel.placement_api.problems import refusal, translate
from whimbrel.placement_api.routes import ROUTES
from whimbrel.placement_api.version_document import DOCUMENT
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.meter import note_route
from whimbrel.ports.services.identity import Identity

MAX_BODY_BYTES = 4 << 20
DATED_SINCE = 15
MOST_CANDIDATES = 10_000
"""The default limit of candidates in one answer: some 10 MB."""

NO_METHOD = "The method {method} is not allowed for this resource."
ROUTE_TABLE = RouteTable(ROUTES, no_method=NO_METHOD, no_version="Version 1.{minor} does not have this.", listed=list)


def placement_app(
    store: Store,
    identity: Identity | None,
    clock: Clock,
    ids: IdSource,
    *,
    identity_url: str | None = None,
    rights: Access | None = None,
    most_candidates: int | None = MOST_CANDIDATES,
) -> App:
    """Create the Placement API, to be mounted at /placement (or to be a server of its own).

    identity: None: no authentication, for tests. identity_url: where clients get a token; None: /identity on the same
    server. rights: None: the legacy defaults. most_candidates: in one answer, None: all.
    """
    callers = ByToken(identity, identity_url) if identity else ByWord()
    allowed = rights or access("legacy")

    async def body(request: Request, route: Route, schema: Body, params: Mapping[str, str], minor: int) -> Any:
        try:
            return await _body(request, schema, minor)
        except Problem:
            if route.needs_provider:  # a missing provider is reported first
                await store.node(ProviderId(params["uuid"]))
            raise

    async def answer(request: Request) -> Reply:
        is_document = request.path in ("", "/")  # needs no token
        principal = None if is_document else await callers.of(request)
        request.minor = minor = VERSIONS.negotiate(request.headers.get("openstack-api-version", ""))
        if principal is None:
            return _document(request)
        _check_has_type(request)
        [route], params = ROUTE_TABLE.find(request.method, request.path.removeprefix("/").split("/"), minor)
        note_route(request.scope, route.path)
        schema = route.body if route.body is not None and route.body.at(minor) is not None else None
        _check_types(request, route, takes_body=schema is not None)
        is_of_project = route.keys is not None and "project_id" in route.keys
        project = request.query_params.get("project_id", "") if is_of_project else None
        allowed.check(route.rule, principal, project)
        if "\0" in request.path:
            raise Problem(404, "The resource could not be found.")
        query = route.keys.read(request.scope["query_string"], minor) if route.keys is not None else {}
        call = Call(
            store=store,
            ids=ids,
            principal=principal,
            minor=minor,
            params=params,
            query=query,
            body=await body(request, route, schema, params, minor) if schema is not None else None,
            mounted_at=request.mounted_at,
            most_candidates=most_candidates,
            origin=request.origin,
        )
        return reply_of(await route.handler(call))

    def headers(request: Request, reply: Reply) -> Mapping[str, str]:
        made = {"x-openstack-request-id": request.id}
        if request.minor is None:
            return made
        made |= {"openstack-api-version": f"placement 1.{request.minor}", "vary": "openstack-api-version"}
        succeeds = (reply.status or 200) < 300
        if request.minor >= DATED_SINCE and succeeds and (reply.body is not None or _shows(request)):
            made["cache-control"] = "no-cache"
            if not isinstance(reply, Undated):  # times are not stored: the answer is valid now
                made["last-modified"] = formatdate(clock.now(), usegmt=True)
        return made

    return App(answer, Shape(refusal=refusal, translate=translate, headers=headers), ids)


def _shows(request: Request) -> bool:
    """Check whether an answer without a body describes a resource: a trait has no attributes."""
    return request.method == "GET" or (request.method == "PUT" and request.path.split("/")[-2] == "traits")


def _document(request: Request) -> Reply:
    if request.method != "GET":
        raise Problem(405, NO_METHOD.format(method=request.method), headers={"allow": "GET"})
    return Reply(DOCUMENT)


def _check_has_type(request: Request) -> None:
    """Raises: Problem: 400: a body without a content type."""
    if request.headers.get("content-length", "0") != "0" and not request.headers.get("content-type"):
        raise Problem(400, "content-type header required when content-length > 0")


def _check_types(request: Request, route: Route, *, takes_body: bool) -> None:
    """Raises: Problem: 406: the client does not accept JSON; 415: the body is not JSON."""
    accept = request.headers.get("accept")
    if request.method == "GET" and route.shows_body and not content_types.quality(accept, content_types.JSON):
        raise Problem(406, f"Only {content_types.JSON} is provided")
    sent = request.headers.get("content-type", "").split(";")[0].strip()
    if takes_body and sent != content_types.JSON:
        raise Problem(415, f"The media type {sent or None} is not supported, use {content_types.JSON}")


async def _body(request: Request, schema: Body, minor: int) -> Any:
    raw = await request.read(MAX_BODY_BYTES)
    try:
        body = msgspec.json.decode(raw)
    except NOT_JSON as error:
        raise Problem(400, f"Malformed JSON: {error}") from None
    schema.check(minor, body)
    return whole(body)
