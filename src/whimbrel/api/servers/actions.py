"""POST /servers/{id}/action: each action checks policy, arguments and state, and records its run. None waits for the
work.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states, flavor_and_image
from whimbrel.domain.errors import Forbidden, WorldError
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, Slot
from whimbrel.domain.run import Action
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.servers import edit
from whimbrel.servers.lifecycle import pausing, power

# Power


async def reboot(call: Call) -> None:
    hard = call.body["reboot"]["type"].upper() == "HARD"
    action_states.check_lock(call)
    action_states.check(call.server, "reboot", power.HARD_REBOOT if hard else ("active",))
    action_states.check_placed(call.server)
    await power.reboot(call.cloud, call.engine, call.requester, call.server, hard)


async def start(call: Call) -> None:
    _check_guest(call, "start", ("stopped",), placed_first=True)
    await power.start(call.cloud, call.engine, call.requester, call.server)


async def stop(call: Call) -> None:
    _check_guest(call, "stop", ("active", "error"), placed_first=True)
    await power.stop(call.cloud, call.engine, call.requester, call.server)


async def pause(call: Call) -> None:
    _check_guest(call, "pause", ("active",))
    await pausing.pause(call.cloud, call.engine, call.requester, call.server)


async def unpause(call: Call) -> None:
    _check_guest(call, "unpause", ("paused",))
    await pausing.unpause(call.cloud, call.engine, call.requester, call.server)


async def suspend(call: Call) -> None:
    _check_guest(call, "suspend", ("active",))
    await pausing.suspend(call.cloud, call.engine, call.requester, call.server)


async def resume(call: Call) -> None:
    _check_guest(call, "resume", ("suspended",))
    await pausing.resume(call.cloud, call.engine, call.requester, call.server)


def _check_guest(call: Call, action: str, vm_states: tuple[str, ...], *, placed_first: bool = False) -> None:
    """Raises: Conflict. placed_first: as Nova's order is, of a server on no host the answer says that."""
    action_states.check_lock(call)
    if placed_first:
        action_states.check_placed(call.server)
    action_states.check(call.server, action, vm_states)
    action_states.check_placed(call.server)


# Moves


async def resize(call: Call) -> None:
    action_states.check_lock(call)
    action_states.check(call.server, "resize", action_states.LIVING)
    requested = call.body["resize"]
    flavor = await flavor_and_image.flavor(call, requested["flavorRef"])
    if call.server.has_local_root:
        flavor_and_image.check_growth(call.server.flavor, flavor)
    crosses = action_states.may_leave_cell(call)
    wanted = requested.get("OS-DCF:diskConfig", "MANUAL")
    wanted = flavor_and_image.disk_config(wanted, call.server.image_id or "", call.server.image_properties)
    async with _disk_config(call, wanted) as server:
        await requests.resize(call.cloud, call.engine, call.requester, server, flavor, leaves_cell=crosses)


@asynccontextmanager
async def _disk_config(call: Call, wanted: str) -> AsyncIterator[Server]:
    """Set OS-DCF:diskConfig unless the resize is refused. As in Nova, one without the key sets MANUAL."""
    was = call.server.disk_config
    if was == wanted:
        yield call.server
        return
    server = await edit.change(call.cloud, call.server, {"disk_config": wanted})
    try:
        yield server
    except WorldError:
        await edit.change(call.cloud, server, {"disk_config": was})
        raise


async def migrate(call: Call) -> None:
    action_states.check_lock(call)
    action_states.check(call.server, "migrate", action_states.LIVING)
    requested = call.body["migrate"]
    host = requested.get("host") if call.minor >= 56 and isinstance(requested, dict) else None
    if host is not None:
        call.check("os_compute_api:os-migrate-server:migrate:host", action_states.owner_of(call))
    target, crosses = None if host is None else HostName(host), action_states.may_leave_cell(call)
    await requests.migrate(call.cloud, call.engine, call.requester, call.server, target, leaves_cell=crosses)


async def confirm_resize(call: Call) -> None:
    """Confirm a move. Repeatable: it continues from its present step."""
    action_states.check_lock(call)
    await _check_awaits_verdict(call, "confirmResize")
    await requests.confirm(call.cloud, call.engine, call.requester, call.server, call.locked_by)


async def revert_resize(call: Call) -> None:
    """Revert a move. Repeatable: it continues from its present step."""
    action_states.check_lock(call)
    await _check_awaits_verdict(call, "revertResize", tasks=(None, "resize_reverting"))
    await requests.revert(call.cloud, call.engine, call.requester, call.server, call.locked_by)


async def _check_awaits_verdict(call: Call, action: str, *, tasks: tuple[str | None, ...] = (None,)) -> None:
    """Raises: WrongState. A move also takes its verdict after an administrator has reset the state of its server."""
    if call.server.vm_state != "resized" and await requests.awaits_verdict(call.cloud, call.server):
        return
    action_states.check(call.server, action, ("resized",), tasks=tasks)


# Records


async def lock(call: Call) -> None:
    requested = call.body["lock"]
    reason = requested.get("locked_reason") if call.minor >= 73 and isinstance(requested, dict) else None
    by = "owner" if call.server.project_id == call.principal.project_id else "admin"
    await edit.change(call.cloud, call.server, {"locked_by": by, "locked_reason": reason})
    await _remember(call, "lock")


async def unlock(call: Call) -> None:
    by = "owner" if call.server.project_id == call.principal.project_id else "admin"
    if call.server.locked_by not in (None, by) and not call.may(
        "os_compute_api:os-lock-server:unlock:unlock_override", action_states.owner_of(call)
    ):
        raise Forbidden(f"Instance {call.server.id} was locked by an administrator.")
    await edit.change(call.cloud, call.server, {"locked_by": None, "locked_reason": None})
    await _remember(call, "unlock")


async def reset_state(call: Call) -> None:
    state: Literal["active", "error"] = call.body["os-resetState"]["state"]
    await edit.reset_state(call.cloud, call.requester, call.server, state)


async def _remember(call: Call, name: str) -> None:
    """Record a request that was completed immediately."""
    now = call.cloud.clock.now()
    action = Action(
        server_id=call.server.id,
        request_id=call.request_id,
        name=name,
        project_id=call.principal.project_id,
        user_id=call.principal.user_id,
        started_at=now,
        updated_at=now,
    )
    await call.cloud.journal.add_action(action)


# Consoles


async def console_output(call: Call) -> Any:
    requested = call.body["os-getConsoleOutput"] or {}
    length = requested.get("length")
    lines = None if length is None or int(length) < 0 else int(length)
    server = call.server
    action_states.check_placed(server)
    assert server.cell, "a placed server has a cell"
    assert server.host, "a placed server has a host"
    assert server.slot, "a placed server has a guest"
    agent = call.cloud.agent(server.cell, server.host)
    output = await agent.console_log(GuestKey(server.id, Slot(server.slot)), lines)
    if lines is not None:  # counted as Nova does: what follows the last newline is a line, too
        output = "\n".join(output.split("\n")[-lines:]) if lines else ""
    return {"output": output}
