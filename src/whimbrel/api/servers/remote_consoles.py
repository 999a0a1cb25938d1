"""Consoles of servers: URLs with a token, at which a browser or a program reaches them."""

from typing import Any
from urllib.parse import quote, urlsplit

from whimbrel.api.http.call import Call
from whimbrel.domain.console import ConsoleKind
from whimbrel.http.problem import Problem
from whimbrel.servers import consoles

OFFERED: dict[tuple[str, str], ConsoleKind] = {("vnc", "novnc"): "vnc", ("serial", "serial"): "serial"}
PAGE = "vnc_lite.html"
ACTIONS = {"os-getVNCConsole": "vnc", "os-getSPICEConsole": "spice", "os-getSerialConsole": "serial"}


async def create(call: Call) -> Any:
    requested = call.body["remote_console"]
    url = await _url(call, requested["protocol"], requested["type"])
    return {"remote_console": {**requested, "url": url}}


async def act(call: Call) -> Any:
    """Answer the actions for consoles of old clients."""
    [(action, arguments)] = call.body.items()
    return {"console": {"type": arguments["type"], "url": await _url(call, ACTIONS[action], arguments["type"])}}


async def show_token(call: Call) -> Any:
    token = await consoles.find_token(call.cloud, call.params["token"])
    if call.minor < 31:
        raise Problem(401, "The requested console type details are not accessible")
    address = await consoles.open_console(call.cloud, token)
    shown = {
        "instance_uuid": token.server_id,
        "host": address.host,
        "port": address.port,
        "internal_access_path": address.ticket,
    }
    return {"console": {**shown, "tls_port": None} if call.minor >= 99 else shown}


async def _url(call: Call, protocol: str, console_type: str) -> str:
    """Issue a token, and return the URL with it. Raises: Problem: no such console; WrongState."""
    offered = [kind for kind, _ in OFFERED]
    if protocol not in offered:
        raise Problem(400, f"Unavailable console type {console_type}.")
    kind = OFFERED.get((protocol, console_type))
    if kind is None:
        raise Problem(400, f"Invalid console type {console_type}")
    proxy = call.context.console_proxy
    token = await consoles.issue_token(call.cloud, call.server, kind, proxy.token_lifetime_s)
    if kind == "serial":
        return f"ws{proxy.url.removeprefix('http')}/?token={token}"
    below = urlsplit(proxy.url).path.strip("/")
    path = f"{below}/?token={token}" if below else f"?token={token}"  # of the WebSocket, from the root, as in noVNC
    return f"{proxy.url}/{PAGE}?path={quote(path, safe='')}"
