"""The agents' end of the HTTP bus: POST /agents/{host}/{verb}, the arguments as a JSON object, the answer as JSON.

Law: whoever does not know the secret is told nothing; an error of the world travels by its name, with status 409.
"""

import hmac
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from whimbrel.adapters.bus.verbs import TROUBLE, VERBS, Trouble, encode
from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.agent import Agents

JSON = "application/json"


def agents_app(agents: Agents, token: str) -> Starlette:
    """Make the door to these agents. token: the secret that callers bring."""
    secret = f"Bearer {token}".encode()

    async def call(request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), secret):
            return PlainTextResponse("the secret is wrong", 401)
        verb = VERBS.get(request.path_params["verb"])
        if verb is None:
            return PlainTextResponse("no such verb", 404)
        try:
            question = verb.decode_question(await request.body())
        except msgspec.DecodeError as error:
            return PlainTextResponse(str(error), 400)
        method = getattr(agents.at(HostName(request.path_params["host"])), request.path_params["verb"])
        return await _answer(method(**msgspec.structs.asdict(question)))

    return Starlette(routes=[Route("/agents/{host}/{verb}", call, methods=["POST"])])


def cells_app(buses: Mapping[CellName, Agents], token: str) -> Starlette:
    """Make the door of several cells, below /cells/{cell}: an order to a host of another cell finds nobody."""
    return Starlette(routes=[Mount(f"/cells/{cell}", agents_app(bus, token)) for cell, bus in buses.items()])


async def _answer(call: Awaitable[Any]) -> Response:
    try:
        answer = await call
    except WorldError as error:
        return Response(encode(Trouble(type(error).__name__, error.reason)), TROUBLE, media_type=JSON)
    return Response(encode(answer), media_type=JSON)
