"""Services without a host of servers, in the zone `internal`: the processes that conduct moves and choose hosts.

A conductor does the work of nova-conductor and of nova-scheduler, and is shown as both. Nova knows a service by its
machine: several processes on one machine are one service.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID, uuid5

from msgspec import Struct

from whimbrel.api.http import times
from whimbrel.api.http.call import Call
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord

ZONE = "internal"
BINARIES = ("nova-conductor", "nova-scheduler")

_IDS = UUID("5b8ac34a-9df5-4d0c-a1a5-2f2c7f1f6f0f")


class InternalService(Struct, frozen=True):
    """One binary on one machine. processes: those that are live or were so within an hour, the last one at the end."""

    binary: str
    machine: str
    processes: Sequence[ProcessRecord]
    is_up: bool

    @property
    def id(self) -> str:
        return str(self._uuid)

    @property
    def number(self) -> int:
        """Return its id below 2.53."""
        return self._uuid.int % 2**31

    @property
    def topic(self) -> str:
        return self.binary.removeprefix("nova-")

    @property
    def _uuid(self) -> UUID:
        return uuid5(_IDS, f"{self.binary}@{self.machine}")

    def updated_at(self, now: float) -> str | None:
        return times.with_fraction(min(self.processes[-1].seen_at, now))


async def of_cloud(call: Call) -> list[InternalService]:
    store = call.cloud.processes
    live = {each.id for each in await store.live(LEASE_S)}
    conducting = sorted((each for each in await store.all() if each.conducts), key=lambda each: each.seen_at)
    by_machine: dict[str, list[ProcessRecord]] = {}
    for each in conducting:
        by_machine.setdefault(each.host, []).append(each)
    return [
        InternalService(binary, machine, found, is_up=any(each.id in live for each in found))
        for machine, found in sorted(by_machine.items())
        for binary in BINARIES
    ]


def in_zone(services: Iterable[InternalService], now: float) -> dict[str, dict[str, Any]]:
    """Return the services of each machine as a zone shows them."""
    machines: dict[str, dict[str, Any]] = {}
    for each in services:
        shown = {"active": True, "available": each.is_up, "updated_at": each.updated_at(now)}
        machines.setdefault(each.machine, {})[each.binary] = shown
    return machines


def listed(services: Iterable[InternalService], minor: int, now: float) -> Iterator[dict[str, Any]]:
    """Return the services as `os-services` shows them."""
    for each in services:
        shown: dict[str, Any] = {
            "id": each.id if minor >= 53 else each.number,
            "binary": each.binary,
            "host": each.machine,
            "zone": ZONE,
            "status": "enabled",
            "state": "up" if each.is_up else "down",
            "updated_at": each.updated_at(now),
            "disabled_reason": None,
        }
        yield shown | ({"forced_down": False} if minor >= 11 else {})
