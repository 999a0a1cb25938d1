"""The states of a server as tables. States in no table are illegal; database constraints repeat the rule.

Source: reference of Nova 34, sections 1.0.1 and 2.1.
"""

from collections.abc import Iterable

from whimbrel.domain.guest import Power

RESCUED, SOFT_DELETED = "rescued", "soft-delete"

VM_STATES = (
    *("building", "active", "paused", "suspended", "stopped", "resized", "shelved", "shelved_offloaded"),
    *(RESCUED, SOFT_DELETED, "error", "deleted"),
)

# (old state, event) -> new state
TRANSITIONS: dict[tuple[str, str], str] = {
    ("building", "spawned"): "active",
    ("building", "failed"): "error",
    ("active", "stopped"): "stopped",
    ("stopped", "stopped"): "stopped",
    ("error", "stopped"): "stopped",
    ("stopped", "started"): "active",
    ("active", "started"): "active",
    ("error", "rebooted"): "active",
    ("active", "rebooted"): "active",
    ("paused", "rebooted"): "active",
    ("suspended", "rebooted"): "active",
    ("active", "paused"): "paused",
    ("paused", "stopped"): "stopped",
    ("paused", "unpaused"): "active",
    ("active", "suspended"): "suspended",
    ("suspended", "resumed"): "active",
    ("stopped", "rebooted"): "active",
    ("active", "rebuilt"): "active",
    ("error", "rebuilt"): "active",
    ("stopped", "rebuilt"): "stopped",
    **{(state, "rescued"): RESCUED for state in ("active", "stopped", "error")},
    (RESCUED, "unrescued"): "active",
    **{
        (state, "soft-deleted"): SOFT_DELETED
        for state in ("active", "paused", "suspended", "stopped", RESCUED, "shelved", "error")
    },
    ("active", "moved"): "resized",
    ("stopped", "moved"): "resized",
    ("resized", "moved"): "resized",
    ("active", "evacuated running"): "active",
    ("error", "evacuated running"): "active",
    ("active", "evacuated stopped"): "stopped",
    ("stopped", "evacuated stopped"): "stopped",
    ("resized", "settled running"): "active",
    ("resized", "settled stopped"): "stopped",
    ("active", "settled running"): "active",
    ("stopped", "settled stopped"): "stopped",
    **{(state, "shelved"): "shelved" for state in ("active", "paused", "suspended", "stopped")},
    ("shelved", "offloaded"): "shelved_offloaded",
    **{(state, "unshelved"): "active" for state in ("shelved", "shelved_offloaded")},
    **{(state, "deleted"): "deleted" for state in VM_STATES},
    **{(state, "reset to active"): "active" for state in VM_STATES if state != "deleted"},
    **{(state, "reset to error"): "error" for state in VM_STATES if state != "deleted"},
}

POWER_OF: dict[str, Power] = {
    "active": "running",
    "paused": "paused",
    "suspended": "suspended",
    "stopped": "stopped",
    "shelved": "stopped",
    SOFT_DELETED: "stopped",
}
"""vm_state -> power of its guest."""


class IllegalEvent(AssertionError):
    """A bug: an event that is not in the table."""


def after(was: str, event: str) -> str:
    """Return the vm_state after an event. Raises: IllegalEvent."""
    try:
        return TRANSITIONS[was, event]
    except KeyError:
        raise IllegalEvent(f"a server that is {was} cannot be {event}") from None


_BY_VM_STATE = {
    "building": "BUILD",
    "active": "ACTIVE",
    "paused": "PAUSED",
    "suspended": "SUSPENDED",
    "stopped": "SHUTOFF",
    "resized": "VERIFY_RESIZE",
    RESCUED: "RESCUE",
    SOFT_DELETED: "SOFT_DELETED",
    "shelved": "SHELVED",
    "shelved_offloaded": "SHELVED_OFFLOADED",
    "error": "ERROR",
    "deleted": "DELETED",
}

MIGRATING = "migrating"
REBUILDING = ("rebuilding", "rebuild_block_device_mapping", "rebuild_spawning")
RESIZING = ("resize_prep", "resize_migrating", "resize_migrated", "resize_finish")

_BY_TASK_STATE: dict[tuple[str, str], str] = {
    ("active", "rebooting"): "REBOOT",
    ("active", "rebooting_hard"): "HARD_REBOOT",
    ("stopped", "rebooting_hard"): "HARD_REBOOT",
    ("paused", "rebooting_hard"): "HARD_REBOOT",
    ("suspended", "rebooting_hard"): "HARD_REBOOT",
    ("resized", "resize_reverting"): "REVERT_RESIZE",
    **{(vm, task): "REBUILD" for vm in ("active", "stopped", "error") for task in REBUILDING},
    ("active", MIGRATING): "MIGRATING",
    ("paused", MIGRATING): "MIGRATING",
    **{(vm, task): "RESIZE" for vm in ("active", "stopped") for task in RESIZING},
}

KNOWN_STATUSES = frozenset(
    {
        *_BY_VM_STATE.values(),
        *_BY_TASK_STATE.values(),
        *("PASSWORD", "UNKNOWN"),
    }
)


IO_TASKS = (
    *("resize_migrating", "rebuilding", "image_snapshot", "image_backup"),
    *("shelving", "unshelving", "rescuing"),
)
"""Task states in which a server loads the disk of its host; a server that is being built does so too.

Unlike in Nova, resize_prep is not included: the target is chosen in that state, so a move would count against its own
server's host and decide differently from its plan.
"""


def status(vm_state: str, task_state: str | None) -> str:
    return _BY_TASK_STATE.get((vm_state, task_state or ""), _BY_VM_STATE[vm_state])


def states_with_status(wanted: Iterable[str]) -> list[tuple[str, str | None, bool]]:
    """Return the states that show these statuses: (vm_state, task_state, exact).

    exact: only that task_state; otherwise every task_state of the vm_state except the overriding ones.
    """
    names = {name.upper() for name in wanted}
    plain: list[tuple[str, str | None, bool]] = [
        (vm, None, False) for vm, name in _BY_VM_STATE.items() if name in names
    ]
    return plain + [(vm, task, True) for (vm, task), name in _BY_TASK_STATE.items() if name in names]


def overriding_task_states(vm_state: str) -> list[str]:
    """Return the task_states under which a server of this vm_state shows another status than its default."""
    return [task for vm, task in _BY_TASK_STATE if vm == vm_state]
