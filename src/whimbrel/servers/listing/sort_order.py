"""The sort order of server lists, the same as that of the stores: None sorts first."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from whimbrel.domain.server import Server
from whimbrel.ports.stores.servers import ServerQuery

Read = Callable[[Server], Any]


class Order:
    def __init__(self, query: ServerQuery) -> None:
        zones = query.zone_places
        self._passes: list[tuple[Read, bool]] = []
        for direction, names in groupby(reversed(query.sort), key=lambda each: each[1]):
            keys = [name for name, _ in names][::-1]
            self._passes.append((_reader(keys, zones), direction == "desc"))

    def sorted(self, servers: Iterable[Server]) -> list[Server]:
        """Sort the servers. Lists that are sorted already are merged: Python's sort detects such runs."""
        found = list(servers)
        for read, descending in self._passes:
            found.sort(key=read, reverse=descending)
        return found

    def is_before(self, one: Server, other: Server) -> bool:
        return self.sorted([other, one])[0] is one


_NEVER_NONE = frozenset({"id", "project_id", "user_id", "name", "hostname", "reservation_id", "vm_state"})
_NEVER_NONE |= {"created_at", "updated_at"}


def _reader(names: Sequence[str], zones: Mapping[str, int]) -> Read:
    """Return a function that reads fields as comparable values, also None."""
    if _NEVER_NONE.issuperset(names):
        return attrgetter(*names)
    reads = [_one(name, zones) for name in names]
    return lambda server: tuple(read(server) for read in reads)


def _one(name: str, zones: Mapping[str, int]) -> Read:
    if name == "zone" and zones:
        return lambda server: zones.get(server.zone or "", -1)
    if name == "flavor_id":
        return lambda server: server.flavor.flavor_id
    if name == "locked":
        return lambda server: server.locked_by is not None
    return lambda server: ((value := getattr(server, name)) is not None, value)
