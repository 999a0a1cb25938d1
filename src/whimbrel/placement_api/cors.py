"""Cross-origin requests of browsers: permitted origins, and the headers that they may read."""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
SHOWN = ("Location", "OpenStack-API-Version", "X-OpenStack-Request-Id")
ASK_AGAIN_AFTER_S = 3600


class Cors(CORSMiddleware):
    """Middleware. origins: the permitted origins, as browsers send them."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=METHODS,
            allow_headers=["*"],
            allow_credentials=True,
            expose_headers=SHOWN,
            max_age=ASK_AGAIN_AFTER_S,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Answer a preflight request. As in Placement a refusal is a success without the CORS headers."""
        if not self.is_allowed_origin(request_headers["origin"]):
            return Response(headers={"vary": "Origin"})
        return super().preflight_response(request_headers)
