"""News of other services about servers: each is heard for itself, and answered with a code of its own.

Law: what is answered with 200 has been done, or needs nothing to be done. It is done to the record that counts; a move
between cells takes that one along as it is, there and back, so every cell that has a stake in the server hears of it.
"""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Conflict, NotFound, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.http.reply import Reply
from whimbrel.servers import lookup
from whimbrel.servers.devices import interfaces

OK, NO_TAG, UNKNOWN, NOT_NOW = 200, 400, 404, 422

WITH_TAG = frozenset({"volume-extended", "power-update", "accelerator-request-bound", "volume-reimaged"})

NEEDS_NOTHING = frozenset({"network-vif-plugged", "network-vif-unplugged"})
"""Nobody waits for these: a step that needs a port to be plugged asks for it."""


async def create(call: Call) -> Reply:
    """Hear what other services tell; 207 where something of it came to nothing."""
    heard = [await _hear(call, event) for event in call.body["events"]]
    status = 200 if all(event["code"] == OK for event in heard) else 207
    return Reply(body={"events": heard}, status=status)


async def _hear(call: Call, event: dict[str, Any]) -> dict[str, Any]:
    code = await _code(call, event)
    status = event.get("status", "completed") if code == OK else "failed"
    return {**event, "status": status, "code": code}


async def _code(call: Call, event: dict[str, Any]) -> int:
    name, tag = event["name"], event.get("tag")
    try:
        server = await _server(call, ServerId(event["server_uuid"]))
    except NotFound:
        return UNKNOWN
    if server is None:
        return NOT_NOW
    if name in WITH_TAG and tag is None:
        return NO_TAG
    if server.host is None:
        return NOT_NOW
    if name == "network-changed":
        return await _refresh(call, server)
    if name == "network-vif-deleted":
        return await _unplug(call, server, tag)
    return OK if name in NEEDS_NOTHING else NOT_NOW


async def _server(call: Call, server_id: ServerId) -> Server | None:
    """Find a server, None: its cell does not answer. Raises: NotFound; Unavailable: nobody knows of any server."""
    try:
        return await lookup.find(call.cloud, server_id)
    except Unavailable:
        await call.cloud.directory.entry(server_id)
        return None


async def _refresh(call: Call, server: Server) -> int:
    try:
        await interfaces.refresh(call.cloud, server)
    except Conflict:
        return NOT_NOW
    return OK


async def _unplug(call: Call, server: Server, port_id: str | None) -> int:
    """Take a port out of the guest that its owner has deleted."""
    nic = next((nic for nic in server.nics if nic.port_id == port_id), None)
    if nic is None:
        return OK
    try:
        await interfaces.detach(call.cloud, call.engine, call.requester, server, nic)
    except Conflict:
        return NOT_NOW
    return OK
