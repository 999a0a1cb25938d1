"""The steps after which something is announced: one table for each saga.

Names, order and payloads are those of Nova's versioned notifications. Nothing is announced that did not happen: what
ends at a step is announced when the journal has that step as done, and what begins there when it has the one before.
Source: Nova 34, nova/compute/manager.py, nova/conductor/manager.py and doc/notification_samples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.moves import evacuate, live_migrate, resize, unshelve
from whimbrel.servers.devices import interfaces, volume_swaps, volumes
from whimbrel.servers.lifecycle import (
    crash_dump,
    create,
    create_backup,
    create_image,
    delete,
    pausing,
    power,
    rebuild,
    rescue,
    shelve,
    soft_delete,
)

By = Literal["source", "target", "api", "conductor", "scheduler"]
"""The publisher: Nova's compute service on one of the two hosts, its API, its conductor or its scheduler."""

Payload = Literal[
    "action", "create", "exists", "rebuild", "request_spec", "rescue", "resize_prep", "snapshot", "task", "volume",
    "volume_swap",
]  # fmt: skip

AS_REQUESTED = "as requested"
"""As a task state: that which the request gave to the server."""

AS_NOW = "as now"
"""As a task state: that which the server shows."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One notification. Its payload has the server's state after the step, and this task state."""

    name: str
    by: By = "source"
    task: str | None = None
    payload: Payload = "action"
    shows_new_flavor: bool = False
    only_if: Callable[[Any], bool] | None = None  # of the facts
    is_prelude: bool = False  # no attempt begins with it, and another attempt does not repeat it


@dataclass(frozen=True, kw_only=True)
class Announced:
    """What is announced of the runs of a saga."""

    after: Mapping[str, Sequence[Event]]  # step -> events, when it is done; if it is skipped, after the next one
    confirmed: Mapping[str, Sequence[Event]] = field(
        default_factory=dict
    )  # the same, before these, if it was confirmed
    undone: Mapping[str, Sequence[Event]] = field(default_factory=dict)  # step -> events, when it is undone
    reverted: Sequence[Event] = ()  # when the owner reverts
    cancelled: Sequence[Event] = ()  # when it is cancelled, before `failed`
    failed: Sequence[Event] = ()  # when it is refused or cancelled, and the first event was announced before
    unbegun: Sequence[Event] = ()  # the same, but nothing was announced before
    undone_only_if: Literal["reverted", "failed"] = "reverted"  # why it goes back, if the undos are announced


def _pair(
    name: str, first: str, last: str, task: str | None = AS_REQUESTED, *, fails: bool = False, **more: Any
) -> Announced:
    """Return what is announced of an operation that begins and ends at these steps."""
    error = (Event(name=f"instance.{name}.error", task=AS_NOW, **more),) if fails else ()
    return Announced(
        after={
            first: (Event(name=f"instance.{name}.start", task=task, **more),),
            last: (Event(name=f"instance.{name}.end", **more),),
        },
        failed=error,
    )


def _has_host(facts: OperationFacts) -> bool:
    return facts.host is not None


def _has_no_host(facts: OperationFacts) -> bool:
    return facts.host is None


def _has_images(facts: OperationFacts) -> bool:
    return bool(facts.shelved_images)


def _offloads(facts: OperationFacts) -> bool:
    return facts.offloads


def _went_off(facts: OperationFacts) -> bool:
    return not power.is_as_recorded(facts)


def _exists(by: By, task: str | None, only_if: Callable[[Any], bool] | None = None) -> Event:
    """Return the account of a server before what is charged for changes."""
    return Event(name="instance.exists", by=by, task=task, payload="exists", only_if=only_if)


def _prep(phase: str) -> Event:
    return Event(name=f"instance.resize_prep.{phase}", by="target", task="resize_prep", payload="resize_prep")


def _scheduling(phase: str) -> Event:
    """If a host refuses, Nova takes the next one of those that its scheduler has named already."""
    name = f"scheduler.select_destinations.{phase}"
    return Event(name=name, by="scheduler", payload="request_spec", is_prelude=True)


_CHOOSES, _HAS_CHOSEN = (_scheduling("start"),), (_scheduling("end"),)


def _deleting(name: str, task: str | None = AS_REQUESTED) -> tuple[Event, Event]:
    """Nova's API deletes servers that are on no host by itself."""
    return (
        Event(name=name, task=task, only_if=_has_host),
        Event(name=name, by="api", task=task, only_if=_has_no_host),
    )


def _live(name: str, by: By = "source", task: str | None = "migrating") -> Event:
    return Event(name=f"instance.live_migration_{name}", by=by, task=task)


_RESIZE = Announced(
    after={
        "lock": _CHOOSES,
        "choose_target": _HAS_CHOSEN,
        "claim_target": (_exists("target", "resize_prep"), _prep("start")),
        "prepare_target": (_prep("end"), Event(name="instance.resize.start", task="resize_migrating")),
        "carry_disk": (
            Event(name="instance.resize.end", task="resize_migrating"),
            Event(name="instance.resize_finish.start", by="target", task="resize_finish", shows_new_flavor=True),
        ),
        "switch_home": (Event(name="instance.resize_finish.end", by="target"),),
        "await_verdict": (Event(name="instance.resize_confirm.start"),),
        "unlock_resized": (Event(name="instance.resize_confirm.end"),),
    },
    undone={"lock": (Event(name="instance.resize_revert.end"),)},
    reverted=(
        _exists("target", "resize_reverting"),
        Event(name="instance.resize_revert.start", task="resize_reverting"),
    ),
    failed=(Event(name="instance.resize.error", task=AS_NOW),),
    unbegun=(Event(name="compute_task.migrate_server.error", by="conductor", payload="task"),),
)

_SNAPSHOT = _pair("snapshot", "lock", "settle_as_before", payload="snapshot")

ANNOUNCED: Mapping[str, Announced] = {
    resize.RESIZE.name: _RESIZE,
    resize.MIGRATE.name: _RESIZE,
    live_migrate.LIVE_MIGRATE.name: Announced(
        after={
            "examine_source": _CHOOSES,
            "choose_target": _HAS_CHOSEN,
            "claim_target": (_live("pre.start", "target"),),
            "receive": (_live("pre.end", "target"),),
            "transfer": (_live("post.start"), _live("post_dest.start", "target")),
            "unlock": (_live("post_dest.end", "target", None), _live("post.end", task=None)),
        },
        confirmed={"transfer": (_live("force_complete.start"), _live("force_complete.end"))},
        undone={
            "prepare_target": (_live("rollback_dest.start", "target"), _live("rollback_dest.end", "target")),
            "lock_migrating": (_live("rollback.end", task=None),),
        },
        cancelled=(_live("abort.start"), _live("abort.end")),
        failed=(_live("rollback.start"),),
        unbegun=(Event(name="compute_task.migrate_server.error", by="conductor", payload="task"),),
        undone_only_if="failed",
    ),
    evacuate.EVACUATE.name: Announced(
        after={
            "lock": (Event(name="instance.evacuate", by="api", task="rebuilding"),),
            "find_evidence": _CHOOSES,
            "choose_target": _HAS_CHOSEN,
            "claim_target": (
                Event(name="instance.rebuild_scheduled", by="conductor", task="rebuilding", payload="rebuild"),
                _exists("target", "rebuilding"),
                Event(name="instance.rebuild.start", by="target", task="rebuilding", payload="rebuild"),
            ),
            "unlock_evacuated": (Event(name="instance.rebuild.end", by="target", payload="rebuild"),),
        },
        failed=(Event(name="instance.rebuild.error", by="target", task=AS_NOW, payload="rebuild"),),
        unbegun=(Event(name="compute_task.rebuild_server.error", by="conductor", payload="task"),),
    ),
    rebuild.REBUILD.name: Announced(
        after={
            "lock_rebuilding": (
                Event(name="instance.rebuild_scheduled", by="conductor", task="rebuilding", payload="rebuild"),
                _exists("source", "rebuilding"),
                Event(name="instance.rebuild.start", task="rebuilding", payload="rebuild"),
            ),
            "unlock_rebuilt": (Event(name="instance.rebuild.end", payload="rebuild"),),
        },
        failed=(Event(name="instance.rebuild.error", task=AS_NOW, payload="rebuild"),),
    ),
    create.CREATE.name: Announced(
        after={
            "greet": _CHOOSES,
            "choose_target": _HAS_CHOSEN,
            "claim_target": (Event(name="instance.create.start", by="target", task="scheduling", payload="create"),),
            "activate": (Event(name="instance.create.end", by="target", payload="create"),),
        },
        failed=(Event(name="instance.create.error", by="target", task=AS_NOW, payload="create"),),
        undone={"greet": (Event(name="compute_task.build_instances.error", by="conductor", payload="task"),)},
        undone_only_if="failed",
    ),
    delete.DELETE.name: Announced(
        after={
            "mark_deleting": (
                *_deleting("instance.delete.start"),
                Event(name="instance.shutdown.start", task=AS_REQUESTED, only_if=_has_host),
            ),
            "release_server": (Event(name="instance.shutdown.end", task=AS_REQUESTED, only_if=_has_host),),
            "erase_entry": _deleting("instance.delete.end", None),
        },
    ),
    power.START.name: _pair("power_on", "lock", "settle_started"),
    power.STOP.name: _pair("power_off", "lock", "settle_stopped"),
    power.FOLLOW_POWER.name: Announced(
        after={
            "settle_as_seen": (
                Event(name="instance.power_off.start", task=AS_NOW, only_if=_went_off),
                Event(name="instance.power_off.end", only_if=_went_off),
            )
        }
    ),  # Nova stops a server whose guest went off
    power.REBOOT.name: _pair("reboot", "lock", "settle_rebooted", fails=True),
    pausing.PAUSE.name: _pair("pause", "lock", "settle_paused"),
    pausing.UNPAUSE.name: _pair("unpause", "lock", "settle_unpaused"),
    pausing.SUSPEND.name: _pair("suspend", "lock", "settle_suspended"),
    pausing.RESUME.name: _pair("resume", "lock", "settle_resumed"),
    rescue.RESCUE.name: Announced(
        after={
            "lock": (Event(name="instance.rescue.start", task=AS_REQUESTED, payload="rescue"),),
            "settle_rescued": (_exists("source", None), Event(name="instance.rescue.end", payload="rescue")),
        }
    ),
    rescue.UNRESCUE.name: _pair("unrescue", "lock", "settle_unrescued"),
    soft_delete.SOFT_DELETE.name: _pair("soft_delete", "lock", "settle_soft_deleted"),
    soft_delete.RESTORE.name: _pair("restore", "lock", "settle_restored"),
    create_image.SNAPSHOT.name: _SNAPSHOT,
    create_backup.BACKUP.name: _SNAPSHOT,
    crash_dump.TRIGGER_CRASH_DUMP.name: _pair("trigger_crash_dump", "lock", "settle_as_before"),
    shelve.SHELVE.name: Announced(
        after={
            "lock": (
                _exists("source", AS_REQUESTED, _has_images),
                Event(name="instance.shelve.start", task=AS_REQUESTED, only_if=_has_images),
            ),
            "mark_shelved": (
                Event(name="instance.shelve.end", only_if=_has_images),
                Event(name="instance.shelve_offload.start", task="shelving_offloading", only_if=_offloads),
            ),
            "settle_shelved": (Event(name="instance.shelve_offload.end", only_if=_offloads),),
        }
    ),
    shelve.SHELVE_OFFLOAD.name: _pair("shelve_offload", "lock", "settle_shelved"),
    shelve.UNSHELVE_IN_PLACE.name: _pair("power_on", "lock", "settle_unshelved"),
    unshelve.UNSHELVE.name: Announced(
        after={
            "lock_shelved": _CHOOSES,
            "choose_target": _HAS_CHOSEN,
            "claim_target": (Event(name="instance.unshelve.start", by="target", task="unshelving"),),
            "settle_unshelved": (Event(name="instance.unshelve.end", by="target"),),
        }
    ),
    volumes.ATTACH_VOLUME.name: _pair("volume_attach", "lock", "record_attached", None, fails=True, payload="volume"),
    volumes.DETACH_VOLUME.name: _pair("volume_detach", "lock", "record_detached", None, payload="volume"),
    volume_swaps.SWAP_VOLUME.name: _pair(
        "volume_swap", "lock", "record_swapped", None, fails=True, payload="volume_swap"
    ),
    interfaces.ATTACH_INTERFACE.name: _pair("interface_attach", "lock", "record_plugged", None, fails=True),
    interfaces.DETACH_INTERFACE.name: _pair("interface_detach", "lock", "record_unplugged", None),
}
"""By the name of a saga. Its versions have these steps under the same names."""

OF_ACTIONS: Mapping[str, Event] = {
    "lock": Event(name="instance.lock", by="api"),
    "unlock": Event(name="instance.unlock", by="api"),
}
"""Requests that need no run."""

FIRST_TASK: Mapping[str, str] = {
    resize.RESIZE.name: "resize_prep",
    resize.MIGRATE.name: "resize_prep",
    live_migrate.LIVE_MIGRATE.name: "migrating",
    evacuate.EVACUATE.name: "rebuilding",
    rebuild.REBUILD.name: "rebuilding",
    unshelve.UNSHELVE.name: "unshelving",
    create.CREATE.name: "scheduling",
}
"""Saga -> the task state that its lock sets; that of an operation is in its facts."""
