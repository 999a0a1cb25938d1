"""What the moves of a maintenance use of its budgets, and whether one more fits."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from whimbrel.domain.ids import HostName
from whimbrel.domain.maintenance_plan import Budgets, MaintenanceItem
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.catalog import zones_by_host


@dataclass(frozen=True)
class HostLocations:
    """The zones of hosts (id), and the aggregates without a zone that they are in (number)."""

    default_zone: str = ""
    zones: Mapping[HostName, str] = field(default_factory=dict)
    aggregates: Mapping[HostName, frozenset[int]] = field(default_factory=dict)

    def zone(self, host: HostName) -> str:
        return self.zones.get(host, self.default_zone)


ANYWHERE = HostLocations()
"""For budgets that do not depend on locations."""


async def locations_of(cloud: Cloud, budgets: Budgets) -> HostLocations:
    """Return what these budgets need to know of the hosts."""
    if budgets.zone_at_once is None and budgets.aggregate_at_once is None:
        return ANYWHERE
    found = await cloud.aggregates.all()
    of_host: defaultdict[HostName, set[int]] = defaultdict(set)
    for aggregate in found:
        for host in aggregate.hosts if aggregate.zone is None else ():
            of_host[host].add(aggregate.id)
    aggregates = {host: frozenset(ids) for host, ids in of_host.items()}
    return HostLocations(cloud.rules.default_availability_zone, zones_by_host(found), aggregates)


class BudgetUse:
    """Counts the moves under way by everything that has a budget."""

    def __init__(self, budgets: Budgets, locations: HostLocations, moving: Iterable[MaintenanceItem] = ()) -> None:
        self._budgets = budgets
        self._locations = locations
        self._used: Counter[tuple[str, object]] = Counter()
        self.moves = 0
        for item in moving:
            self.add(item)

    @property
    def is_full(self) -> bool:
        return self.moves >= self._budgets.at_once

    def has_room(self, item: MaintenanceItem) -> bool:
        return not self.is_full and all(self._used[used] < limit for used, limit in self._limits(item).items())

    def add(self, item: MaintenanceItem) -> None:
        self.moves += 1
        self._used.update(self._limits(item).keys())

    def _limits(self, item: MaintenanceItem) -> Mapping[tuple[str, object], int]:
        """Return what a move of this item is counted by, with the limit of each."""
        budgets, where = self._budgets, self._locations
        hosts = [host for host in (item.source, item.target) if host]
        limits: dict[tuple[str, object], int] = {("host", host): budgets.host_at_once for host in hosts}
        if item.group_id:
            limits["group", item.group_id] = budgets.group_at_once
        if item.project_id and budgets.project_at_once is not None:
            limits["project", item.project_id] = budgets.project_at_once
        if budgets.zone_at_once is not None:
            limits |= {("zone", where.zone(host)): budgets.zone_at_once for host in hosts}
        if budgets.aggregate_at_once is not None:
            ids = {each for host in hosts for each in where.aggregates.get(host, ())}
            limits |= {("aggregate", each): budgets.aggregate_at_once for each in ids}
        return limits
