"""The server of the HTTP bus: POST /agents/{host}/{verb}, the arguments as a JSON object, the result as JSON.

Invariant: a client without the secret learns nothing. A WorldError is sent by its name, with status 409. An order with
fields that this agent does not know is refused: a newer conductor could mean something else than what this agent does.
"""

import hmac
from collections.abc import Awaitable, Mapping
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from whimbrel.adapters.bus.verbs import TROUBLE, VERBS, Trouble, encode
from whimbrel.adapters.unknown_fields import unknown_field
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
            question = _question(host, name, body)
        except Refused as refusal:
            return _trouble(refusal)
        except msgspec.DecodeError as error:
            return PlainTextResponse(str(error), 400)
        method = getattr(agents.at(HostName(host)), name)
        return await _answer(method(**msgspec.structs.asdict(question)))

    return Starlette(routes=[Route("/agents/{host}/{verb}", call, methods=["POST"])])


def cells_app(buses: Mapping[CellName, Agents], token: str) -> Starlette:
    """Return the application of several cells, below /cells/{cell}: no cell serves hosts of another one."""
    return Starlette(routes=[Mount(f"/cells/{cell}", agents_app(bus, token)) for cell, bus in buses.items()])


def _question(host: str, name: str, body: bytes) -> Any:
    """Decode an order. Raises: Refused: it has unknown fields; DecodeError: it is not JSON."""
    verb = VERBS.get(name)
    if verb is None:
        raise _unknown(host, f"the order {name!r}")
    try:
        question = verb.decode_question(body)
    except msgspec.ValidationError as error:
        raise _unknown(host, f"these arguments of {name}: {error}") from None
    if field := unknown_field(body, verb.question):
        raise _unknown(host, f"the argument {field!r} of {name}")
    return question


def _unknown(host: str, what: str) -> Refused:
    return Refused(
        f"the agent of host {host} (Whimbrel {version('whimbrel')}) does not know {what}; upgrade the agent to the"
        " version of the conductors"
    )


async def _answer(call: Awaitable[Any]) -> Response:
    try:
        answer = await call
    except WorldError as error:
        return _trouble(error)
    return Response(encode(answer), media_type=JSON)


def _trouble(error: WorldError) -> Response:
    return Response(encode(Trouble(type(error).__name__, error.reason)), TROUBLE, media_type=JSON)
