"""Checks of whether a server's state permits an action, with Nova's words. The binding check is made again when the
request takes the server's lock; the check here returns the reason to the requester.
"""

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Conflict, WrongState
from whimbrel.domain.server import Server

LIVING = ("active", "stopped")
WITH_GUEST = ("active", "paused", "suspended", "stopped")


def check_lock(call: Call) -> None:
    """Raises: Conflict: the server is locked, and the requester is not an administrator."""
    if call.server.locked_by is not None and not call.is_admin:
        raise Conflict(f"Instance {call.server.id} is locked")


def check(server: Server, action: str, vm_states: tuple[str, ...], *, tasks: tuple[str | None, ...] = (None,)) -> None:
    """Raises: WrongState: another vm_state, busy, or never launched.

    tasks: permitted task_states; () means any.
    """
    if server.vm_state not in vm_states:
        raise _wrong(server, action, "vm_state", server.vm_state)
    if tasks and server.task_state not in tasks:
        raise _wrong(server, action, "task_state", server.task_state)
    if server.launched_at is None:
        raise _wrong(server, action, "launched_at", None)


def check_placed(server: Server) -> None:
    """Raises: WrongState: it is on no host."""
    if server.host is None or server.cell is None:
        raise WrongState(f"Instance {server.id} is not ready")


def _wrong(server: Server, action: str, attribute: str, state: str | None) -> WrongState:
    if state is None:
        return WrongState(f"Instance {server.id} is in an invalid state for '{action}'")
    return WrongState(f"Cannot '{action}' instance {server.id} while it is in {attribute} {state}")


def may_leave_cell(call: Call) -> bool:
    """Check whether the requester may let the server move to another cell."""
    return call.may("compute:servers:resize:cross_cell", owner_of(call))


def owner_of(call: Call) -> dict[str, str]:
    """Return the project and the user of the server: the target of rules."""
    return {"project_id": call.server.project_id, "user_id": call.server.user_id}
