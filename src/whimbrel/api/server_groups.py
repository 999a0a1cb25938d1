"""Groups of servers. There are none yet; clients list them before they show a server."""

from typing import Any

from whimbrel.api.call import Call
from whimbrel.domain.errors import NotFound


async def index(call: Call) -> Any:
    return {"server_groups": []}


async def show(call: Call) -> Any:
    raise NotFound(f"Instance group {call.params['group_id'][:100]} could not be found.")
