"""Metrics of the maintenances that are not over, as their store has them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

from prometheus_client.core import GaugeMetricFamily, Metric

from whimbrel.domain.maintenance_plan import HOLDING, ItemState, Maintenance, MaintenanceItem, servers_by_state
from whimbrel.ports.cloud import Cloud

Maintenances = Sequence[tuple[Maintenance, Sequence[MaintenanceItem]]]


async def maintenances(cloud: Cloud) -> Maintenances:
    """Return the maintenances that have their hosts, with their servers."""
    return [(one, await cloud.maintenances.items(one.id)) for one in await cloud.maintenances.find(HOLDING)]


def of_maintenances(found: Maintenances) -> Iterator[Metric]:
    count = GaugeMetricFamily(
        "whimbrel_maintenances", "Maintenances that are under way; state: running, paused, aborting.", labels=("state",)
    )
    servers = GaugeMetricFamily(
        "whimbrel_maintenance_servers",
        "Servers of these; state: planned, moving, moved, failed, left (otherwise), stays (it cannot move).",
        labels=("state",),
    )
    states = Counter(one.state for one, _ in found)
    for state in HOLDING:
        count.add_metric((state,), states[state])
    counts = [servers_by_state((item.server_id, item.state) for item in each) for _, each in found]
    for of_server in get_args(ItemState):
        servers.add_metric((of_server,), sum(each[of_server] for each in counts))
    yield from (count, servers)
