"""All hosts of all cells in columns: the input of a decision, apart from placement's capacity.

Invariant: a fleet is read, never changed. It may be slightly stale: an error costs one try, because the claim and the
agents check again.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from whimbrel.domain.host import SERVICE_DOWN_S, Aggregate, Host
from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.ports.arrays import Floats, Mask, Numbers
from whimbrel.ports.stores.cells import CellInfo

Made = TypeVar("Made")
P = ParamSpec("P")


@dataclass(frozen=True)
class Load:
    servers: int = 0
    io_ops: int = 0  # servers in a task that loads the disk: build, move, rebuild, image
    pci: int = 0  # PCI devices that it offers to servers
    free_pci: int = 0  # of these, the free ones
    failed_builds: int = 0  # since the last successful build or arrival of a server


@dataclass(frozen=True, eq=False)
class Fleet:
    """Hosts as rows, in one order for every column."""

    hosts: Sequence[Host]
    aggregates: Sequence[Aggregate] = ()
    default_zone: str = ""  # zone id of hosts that no aggregate puts into a zone
    loads: Mapping[HostName, Load] = field(default_factory=dict)
    cells: Mapping[CellName, CellInfo] = field(default_factory=dict)  # their stored properties
    unreachable: frozenset[CellName] = frozenset()  # their hosts are missing
    images: Mapping[HostName, Mapping[str, int]] = field(default_factory=dict)  # servers by image, if needed
    image_properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # image -> properties
    zone_names: Mapping[str, str] = field(default_factory=dict)  # zone id -> name

    def __len__(self) -> int:
        return len(self.hosts)

    @cached_property
    def names(self) -> tuple[HostName, ...]:
        return tuple(host.name for host in self.hosts)

    def named_at(self, places: Numbers) -> list[HostName]:
        names: list[HostName] = self._names[places].tolist()
        return names

    @cached_property
    def _names(self) -> NDArray[np.object_]:
        return np.array(self.names, np.object_)

    @cached_property
    def providers(self) -> tuple[ProviderId, ...]:
        """Return the root provider of each host."""
        return tuple(host.id for host in self.hosts)

    @cached_property
    def row(self) -> Mapping[HostName, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def provider_row(self) -> Mapping[ProviderId, int]:
        return {provider: number for number, provider in enumerate(self.providers)}

    @cached_property
    def zones(self) -> tuple[str, ...]:
        of_host = {name: each.zone for each in self.aggregates if each.zone for name in each.hosts}
        return tuple(of_host.get(name) or self.default_zone for name in self.names)

    def zone_name(self, zone: str) -> str:
        """Return the display name. An id without a row predates zone ids: it is the name."""
        return self.zone_names.get(zone, zone)

    @cached_property
    def enabled(self) -> Mask:
        return np.array([host.enabled for host in self.hosts], np.bool_)

    def up(self, now: float) -> Mask:
        """Return which agents sent a heartbeat recently and are not forced down."""
        alive: Mask = now - self._seen_at < SERVICE_DOWN_S
        return alive & ~self._forced_down

    @cached_property
    def servers(self) -> Numbers:
        return self._loaded("servers")

    @cached_property
    def io_ops(self) -> Numbers:
        return self._loaded("io_ops")

    @cached_property
    def failed_builds(self) -> Numbers:
        return self._loaded("failed_builds")

    @cached_property
    def pci(self) -> Numbers:
        return self._loaded("pci")

    @cached_property
    def free_pci(self) -> Numbers:
        return self._loaded("free_pci")

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each name, the same in each process."""
        return np.array([crc32(name.encode()) for name in self.names], np.uint64)

    @cached_property
    def versions(self) -> Numbers:
        return np.array([host.hypervisor_version for host in self.hosts], np.int64)

    def in_cell(self, cell: CellName) -> Mask:
        return self._coded("cell").of(cell)

    def in_cells(self, cells: Collection[CellName]) -> Mask:
        return self._coded("cell").where(lambda cell: cell in cells)

    def in_zone(self, zone: str) -> Mask:
        return self._coded("zone").of(zone)

    def where(self, attribute: str, test: Callable[[Any], bool]) -> Mask:
        """Return the hosts with an attribute that passes a test; the test is called once for each distinct value."""
        return self._coded(attribute).where(test)

    def values(self, attribute: str) -> Collection[Any]:
        """Return the distinct values of an attribute."""
        return self._coded(attribute).values

    def numbers(self, attribute: str, of: Mapping[Any, int]) -> Numbers:
        """Return a number for each host, by its value of an attribute."""
        return self._coded(attribute).numbers(of)

    def named(self, names: Sequence[HostName]) -> Mask:
        mask = np.zeros(len(self), np.bool_)
        mask[[self.row[name] for name in names if name in self.row]] = True
        return mask

    def members(self, aggregate: Aggregate) -> Mask:
        """Return which hosts are in an aggregate of this fleet."""
        mask: Mask | None = self._members.get(aggregate.id)
        if mask is None:
            mask = self._members[aggregate.id] = self.named(aggregate.hosts)
        return mask

    def marked(self, key: str) -> Sequence[tuple[Aggregate, Mask]]:
        """Return the aggregates with this metadata key, with their members."""
        if key not in self._marked:
            self._marked[key] = tuple((a, self.members(a)) for a in self.aggregates if key in a.metadata)
        found: Sequence[tuple[Aggregate, Mask]] = self._marked[key]
        return found

    def once(self, make: Callable[Concatenate["Fleet", P], Made], *args: P.args, **more: P.kwargs) -> Made:
        """Return a value computed from this fleet alone; it is computed once. Arguments are hashable."""
        key = (make, args, *more.items())
        if key not in self._made:
            self._made[key] = make(self, *args, **more)
        made: Made = self._made[key]
        return made

    def reloaded(
        self,
        loads: Mapping[HostName, Load],
        images: Mapping[HostName, Mapping[str, int]],
        image_properties: Mapping[str, Mapping[str, str]],
    ) -> "Fleet":
        """Return a fleet of the same hosts with other loads; what was computed of the hosts is not computed again."""
        other = replace(self, loads=loads, images=images, image_properties=image_properties)
        other.__dict__.update({name: self.__dict__[name] for name in _OF_HOSTS if name in self.__dict__})
        return other

    # Inside

    @cached_property
    def _seen_at(self) -> Floats:
        return np.array([host.seen_at for host in self.hosts], np.float64)

    @cached_property
    def _forced_down(self) -> Mask:
        return np.array([host.forced_down for host in self.hosts], np.bool_)

    def _loaded(self, what: str) -> Numbers:
        nothing = Load()
        return np.array([getattr(self.loads.get(name, nothing), what) for name in self.names], np.int64)

    @cached_property
    def _codes(self) -> dict[str, "_Coded"]:
        return {}

    def _coded(self, what: str) -> "_Coded":
        if what not in self._codes:
            values = self.zones if what == "zone" else [getattr(host, what) for host in self.hosts]
            self._codes[what] = _Coded(values)
        return self._codes[what]

    @cached_property
    def _members(self) -> dict[int, Mask]:
        return {}

    @cached_property
    def _marked(self) -> dict[str, Sequence[tuple[Aggregate, Mask]]]:
        return {}

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}


_OF_HOSTS = (
    *("names", "_names", "providers", "row", "provider_row", "zones", "enabled", "hashes", "versions"),
    *("_seen_at", "_forced_down", "_codes", "_members", "_marked"),
)
"""The cached properties of a fleet that depend on its hosts and aggregates only."""


class _Coded:
    """A column of values encoded as numbers, for fast comparison."""

    def __init__(self, values: Sequence[Hashable]) -> None:
        self._codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
        self._column = np.array([self._codes[value] for value in values], np.int64)

    def of(self, value: Hashable) -> Mask:
        mask: Mask = self._column == self._codes.get(value, -1)
        return mask

    @property
    def values(self) -> Collection[Hashable]:
        return self._codes.keys()

    def numbers(self, of: Mapping[Any, int]) -> Numbers:
        numbers: Numbers = np.array([of[value] for value in self._codes], np.int64)[self._column]
        return numbers

    def where(self, test: Callable[[Any], bool]) -> Mask:
        mask: Mask = np.array([test(value) for value in self._codes], np.bool_)[self._column]
        return mask


class Fleets(Protocol):
    async def now(self) -> Fleet:
        """Return all hosts, at most moments old; the same object while no change is known."""

    def known(self) -> Fleet | None:
        """Return what `now` returns if that needs no read; None: it does."""
