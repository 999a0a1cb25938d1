"""Faults at touches. A touch is one call of one port. Touches are numbered, and a plan maps numbers to faults.

Invariant: the plan is the only source of faults, and faults that fired are recorded, so that a story can assert them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.ports.cloud import Cell, Cloud


class Crash(BaseException):
    """The process dies at this point. Only the story catches it."""


class Fault(Enum):
    CRASH_BEFORE = "the process dies before the call has any effect"
    CRASH_AFTER = "the process dies after the effect, before it hears of it"
    UNANSWERED = "nothing happens and nobody answers"
    LOST_ANSWER = "it happens, and nobody answers"
    LATE = "nobody answers, and the call arrives much later"
    REFUSED = "the answer is no"
    CONFLICT = "the answer is that somebody was faster"
    MISSING = "the answer is that it is not there"
    SLEEP = "the caller sleeps before the call, and wakes when others have gone on"


Plan = Mapping[int, Fault]
"""Number of a touch, from 0 -> fault."""

After = Callable[[str], Awaitable[None]]

READS = frozenset(
    {"all", "actions", "allocations", "by_name", "entries", "entry", "expired", "find", "get", "guests", "held"}
    | {"limits", "look", "of", "open_run", "providers", "show", "unplaced", "usage", "wanted_deletes"}
    | {"attachment", "attachments", "bindings", "connector", "networks", "port", "ports_of", "security_groups"}
    | {"made", "made_snapshots", "of", "snapshot_volume", "snapshots_of", "volume"}
    | {"group_places", "of_server"}
    | {"read", "record", "residents", "switched_since", "unplaced_ids"}
    | {"all_attachments", "all_images", "all_assignments", "consumers", "counts", "holds", "ids", "now", "port_holders"}
    | {"ledger", "orders_of", "examine", "compare_cpu", "uptime", "diagnostics"}
    | {"due", "is_wanted"}
    | {
        "miscounts",
        "owners",
        "volume_use",
        "volume_uses",
        "with_properties",
        "with_zone_names",
        "zoned_hosts",
        "newest_ends",
        "newest_starts",
        "highest_ticket",
    }
)
"""Calls that change nothing: a crash before one equals a crash before the next change."""

PORTS = (
    *("journal", "directory", "placement", "images", "network", "volumes", "flavors", "quotas", "aggregates"),
    "server_groups",
)


def changes(touch: str) -> bool:
    """Check whether a touch of this name can change anything."""
    return touch.rsplit(".", 1)[1] not in READS


class Chaos:
    """Wraps a cloud's ports so that this plan's faults happen; one for each incarnation of a process."""

    def __init__(self, plan: Plan, after_each: After | None = None) -> None:
        """after_each: awaited with its name after each completed touch, to check invariants."""
        self.touches: list[str] = []
        self.fired: list[str] = []
        self.asleep = asyncio.Event()
        self.wake = asyncio.Event()
        self.late: list[Callable[[], Awaitable[Any]]] = []
        self._plan = plan
        self._after_each = after_each

    def wrap(self, cloud: Cloud) -> Cloud:
        cells = {
            name: Cell(
                name=cell.name,
                servers=self._touched(cell.servers, f"{name}.servers"),
                hosts=self._touched(cell.hosts, f"{name}.hosts"),
                devices=self._touched(cell.devices, f"{name}.devices"),
                agents=_Agents(self, cell.agents),
            )
            for name, cell in cloud.cells.items()
        }
        ports: dict[str, Any] = {name: self._touched(getattr(cloud, name), name) for name in PORTS}
        return replace(cloud, cells=cells, **ports)

    def _touched(self, port: Any, name: str) -> Any:
        return _Touched(self, port, name)

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Make one call with the fault that is planned for its number."""
        fault = self._plan.get(len(self.touches))
        self.touches.append(name)
        if fault:
            self.fired.append(f"{fault.name} at touch {len(self.touches) - 1}, {name}")
        if fault is Fault.LATE:
            self.late.append(call)
        await self._before(fault, name)
        answer = await call()
        if self._after_each:
            await self._after_each(name)
        if fault is Fault.CRASH_AFTER:
            raise Crash(name)
        if fault is Fault.LOST_ANSWER:
            raise Unavailable(f"no answer from {name}")
        return answer

    async def _before(self, fault: Fault | None, name: str) -> None:
        if fault is Fault.CRASH_BEFORE:
            raise Crash(name)
        if fault in (Fault.UNANSWERED, Fault.LATE):
            raise Unavailable(f"no answer from {name}")
        if fault is Fault.REFUSED:
            raise Refused(f"{name} says no")
        if fault is Fault.CONFLICT:
            raise Conflict(f"{name} says that somebody was faster")
        if fault is Fault.MISSING:
            raise NotFound(f"{name} finds nothing")
        if fault is Fault.SLEEP:
            self.asleep.set()
            await self.wake.wait()


class _Touched:
    """A port; each of its calls is a touch."""

    def __init__(self, chaos: Chaos, port: Any, name: str) -> None:
        self._chaos = chaos
        self._port = port
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        method = getattr(self._port, attribute)
        if not iscoroutinefunction(method):
            return method
        name = f"{self._name}.{attribute}"

        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._chaos.touch(name, partial(method, *arguments, **named))

        self.__dict__[attribute] = call  # made once
        return call


class _Agents:
    def __init__(self, chaos: Chaos, agents: Any) -> None:
        self._chaos = chaos
        self._agents = agents

    def at(self, host: HostName) -> Any:
        return _Touched(self._chaos, self._agents.at(host), f"agent {host}")
