"""A server's metadata: the owner's keys and values."""

from collections.abc import Mapping
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states
from whimbrel.domain.errors import Invalid, NotFound, OverQuota
from whimbrel.servers import edit


async def index(call: Call) -> Any:
    return {"metadata": call.server.metadata}


async def show(call: Call) -> Any:
    return {"meta": {call.params["key"]: _value(call)}}


async def merge(call: Call) -> Any:
    return {"metadata": await _set(call, call.server.metadata | call.body["metadata"])}


async def replace(call: Call) -> Any:
    return {"metadata": await _set(call, call.body["metadata"])}


async def put(call: Call) -> Any:
    meta: dict[str, str] = call.body["meta"]
    if list(meta) != [call.params["key"]]:
        raise Invalid("Request body and URI mismatch")
    await _set(call, call.server.metadata | meta)
    return {"meta": meta}


async def delete(call: Call) -> None:
    _value(call)
    key = call.params["key"]
    rest = {name: value for name, value in call.server.metadata.items() if name != key}
    await _set(call, rest, "delete metadata")


def _value(call: Call) -> str:
    try:
        return call.server.metadata[call.params["key"]]
    except KeyError:
        raise NotFound("Metadata item was not found") from None


async def _set(call: Call, metadata: Mapping[str, str], action: str = "update metadata") -> Mapping[str, str]:
    """Raises: Conflict: locked, or in a state that forbids changes; OverQuota."""
    action_states.check_lock(call)
    action_states.check(call.server, action, action_states.WITH_GUEST, tasks=())
    limit = (await call.cloud.quotas.limits(call.server.project_id)).get("metadata_items", -1)
    if 0 <= limit < len(metadata):
        raise OverQuota(f"Maximum number of metadata items exceeds {limit}")
    return (await edit.change(call.cloud, call.server, {"metadata": dict(metadata)})).metadata
