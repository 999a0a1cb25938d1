"""Shared file systems of a server, from 2.97 on: there is no service that has them, so a server has none.

Source: Nova 34, ForbiddenSharesNotConfiguredCorrectly and ShareNotFound.
"""

from typing import Any, NoReturn

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states
from whimbrel.domain.errors import Forbidden, NotFound

NO_SERVICE = "Feature not configured: no shared file system service (Manila) is connected, so no share can be attached."


async def index(call: Call) -> Any:
    return {"shares": []}


async def show(call: Call) -> NoReturn:
    raise NotFound(f"Share {call.params['share_id']} could not be found.")


async def create(call: Call) -> NoReturn:
    action_states.check_lock(call)
    action_states.check(call.server, "attach_share", ("stopped",))
    raise Forbidden(NO_SERVICE)


async def delete(call: Call) -> NoReturn:
    action_states.check_lock(call)
    action_states.check(call.server, "detach_share", ("stopped",))
    await show(call)
