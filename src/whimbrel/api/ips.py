"""A server's addresses. There is no network service yet, so there are none."""

from typing import Any

from whimbrel.api.call import Call
from whimbrel.domain.errors import NotFound


async def index(call: Call) -> Any:
    return {"addresses": {}}


async def show(call: Call) -> Any:
    raise NotFound("Instance is not a member of specified network")
