"""Events of other services about servers. Each is processed separately and has a code of its own in the answer.

Invariant: an event with code 200 has been processed, or needs no processing. It is applied to the authoritative record;
a move between cells copies that record unchanged in both directions, so every cell with data of the server is informed.
"""

from contextlib import suppress
from typing import Any

import structlog
from msgspec.structs import replace

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.http.reply import Reply
from whimbrel.ports.cloud import Requester
from whimbrel.servers import lookup
from whimbrel.servers.devices import interfaces, volume_extensions, volumes

log = structlog.get_logger(__name__)

OK, NO_TAG, UNKNOWN, NOT_NOW = 200, 400, 404, 422

WITH_TAG = frozenset({"volume-extended", "power-update", "accelerator-request-bound", "volume-reimaged"})


async def create(call: Call) -> Reply:
    """Process events; 207 if some fail."""
    acting: set[str] = set()
    received = [await _receive(call, event, acting) for event in call.body["events"]]
    status = 200 if all(event["code"] == OK for event in received) else 207
    return Reply(body={"events": received}, status=status)


async def _receive(call: Call, event: dict[str, Any], acting: set[str]) -> dict[str, Any]:
    """acting: the servers on which this request has acted."""
    code = await _code(call, event, _requester(call, event["server_uuid"], acting))
    return {**event, "status": "completed" if code == OK else "failed", "code": code}  # of the event, not what it tells


def _requester(call: Call, server_id: str, acting: set[str]) -> Requester:
    """Return the requester of an action on a server: further actions of a kind in one request have ids of their own."""
    is_first = server_id not in acting
    acting.add(server_id)
    return call.requester if is_first else replace(call.requester, request_id=f"req-{call.cloud.ids.uuid()}")


async def _code(call: Call, event: dict[str, Any], requester: Requester) -> int:
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
        return await _unplug(call, server, tag, requester)
    if name == "network-vif-plugged":
        return await _hasten(call, server)
    if name == "volume-extended":
        return await _extend(call, server, tag, requester)
    # Nothing waits for the others: no server is a bare-metal machine or has accelerators of Cyborg, and a rebuild looks
    # at its volume by itself.
    return OK


async def _hasten(call: Call, server: Server) -> int:
    """Make a run check the ports that it waits for now. It also does so by itself: an event may be lost or wrong."""
    with suppress(Conflict, Unavailable):
        if await call.cloud.journal.hasten(server.id, call.cloud.clock.now()):
            call.engine.wake_conductor()
    return OK


async def _server(call: Call, server_id: ServerId) -> Server | None:
    """Return a server, or None if its cell does not answer. Raises: NotFound; Unavailable: no server can be looked
    up.
    """
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


async def _unplug(call: Call, server: Server, port_id: str | None, requester: Requester) -> int:
    """Detach from the guest a port that its owner has deleted."""
    if port_id is None or all(nic.port_id != port_id for nic in server.nics):
        return OK
    try:
        await interfaces.detach(call.cloud, call.engine, requester, server, port_id)
    except Conflict:
        return NOT_NOW
    return OK


async def _extend(call: Call, server: Server, volume_id: str | None, requester: Requester) -> int:
    """Show the guest the new size of a volume, in the background. No effect for a volume that it does not have."""
    try:
        for device in await volumes.with_arriving(call.cloud, server):
            if device.volume_id == volume_id:
                await volume_extensions.extend(call.cloud, call.engine, requester, server, device)
    except (Refused, Conflict, Unavailable) as trouble:
        log.warning(
            "a guest does not see the new size of a volume before it starts again",
            server=server.id,
            volume=volume_id,
            reason=trouble.reason,
        )
        return NOT_NOW
    return OK
