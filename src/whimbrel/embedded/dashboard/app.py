"""The application of the dashboard: its page and files, its stream of changes, and where it logs in.

Invariant: it has no rights and no sessions of its own. Whatever the page shows or does, it requests from the API with
the token of its user.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from whimbrel.embedded.dashboard import dashboard_files
from whimbrel.embedded.page_archive import File
from whimbrel.ports.meter import note_route

CHANGES = "changes"
IDENTITY = "identity"
IDENTITY_HERE = b'data-identity="identity"'
IDENTITY_RELAYED = b'data-identity="dashboard/identity"'
"""Where the page logs in, as its first element names it."""

HEADERS = {
    "content-security-policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


class Dashboard:
    def __init__(self, changes: Callable[[Request], Awaitable[Response]], login: ASGIApp | None) -> None:
        """changes: answers with the stream of changes. login: forwards log-ins to an identity service that is not on
        this server; None: it is, at /identity.
        """
        self._changes = changes
        self._login = login

    @property
    def app(self) -> Starlette:
        """Return the application, to be mounted at /dashboard, and called at / for browsers."""
        routes = [
            Route("/", self._index),
            Route(f"/{CHANGES}", self._changes),
            Route("/{path:path}", _file),
        ]
        if self._login:
            routes.insert(0, Route(f"/{IDENTITY}/{{path:path}}", self._login))
        return Starlette(routes=routes)

    async def _index(self, request: Request) -> Response:
        """Return the page; its only address is /, because its own addresses are relative to that."""
        if request.scope.get("root_path"):
            return RedirectResponse("../")
        page = dashboard_files.files()[dashboard_files.INDEX]
        if self._login:
            page = page._replace(content=page.content.replace(IDENTITY_HERE, IDENTITY_RELAYED))
        return _response(page, {"vary": "Accept"})


async def _file(request: Request) -> Response:
    note_route(request.scope, "/{path}")
    path = request.path_params["path"]
    file = dashboard_files.files().get(path)
    if file is None or path == dashboard_files.INDEX:
        return PlainTextResponse("Not Found", 404)
    return _response(file)


def _response(file: File, more: Mapping[str, str] = MappingProxyType({})) -> Response:
    return Response(file.content, headers={**HEADERS, **more, "content-type": file.media_type})
