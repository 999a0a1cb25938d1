"""The server of the HTTP bus: POST /agents/{host}/{verb}, the arguments as a JSON object, the result as JSON.

Invariant: a client without the secret learns nothing. A WorldError is sent by its name, with status 409.
"""

import hmac
from collections.abc import Awaitable, Mapping

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from whimbrel.adapters.bus.order_decoding import decode_order
from whimbrel.adapters.bus.verbs import TROUBLE, encode, encode_trouble
from whimbrel.domain.errors import Refused, WorldError
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.hosts.agent import Agents

JSON = "application/json"


def agents_app(agents: Agents, token: str) -> Starlette:
    """Return the application of these agents. token: the secret that clients send."""
    secret = f"Bearer {token}".encode()

    async def call(request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), secret):
            return PlainTextResponse("the secret is wrong", 401)
        host, name, body = request.path_params["host"], request.path_params["verb"], await request.body()
        try:
            arguments = decode_order(host, name, body)
        except Refused as refusal:
            return _trouble(refusal)
        except msgspec.DecodeError as error:
            return PlainTextResponse(str(error), 400)
        method = getattr(agents.at(HostName(host)), name)
        return await _answer(method(**arguments))

    return Starlette(routes=[Route("/agents/{host}/{verb}", call, methods=["POST"])])


def cells_app(buses: Mapping[CellName, Agents], token: str) -> Starlette:
    """Return the application of several cells, below /cells/{cell}: no cell serves hosts of another one."""
    return Starlette(routes=[Mount(f"/cells/{cell}", agents_app(bus, token)) for cell, bus in buses.items()])


async def _answer(call: Awaitable[object]) -> Response:
    try:
        answer = await call
    except WorldError as error:
        return _trouble(error)
    return Response(encode(answer), media_type=JSON)


def _trouble(error: WorldError) -> Response:
    return Response(encode_trouble(error), TROUBLE, media_type=JSON)
