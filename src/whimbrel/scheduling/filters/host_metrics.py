"""Load metrics that hosts report, by the names in the settings: MetricsFilter and MetricsWeigher.

Source: Nova's `[metrics]`; its settings have the prefix metrics_ here.
"""

from collections.abc import Iterator

import numpy as np

from whimbrel.ports.arrays import Floats
from whimbrel.ports.stores.fleet import Fleet
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.filters.ratios import ratios
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot


def metrics(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    """MetricsFilter: exclude hosts that do not report a weighed metric."""
    for name in ratios(snapshot.rules.metrics_weight_setting):
        reported = ~np.isnan(snapshot.fleet.once(_metric, name))
        yield Constraint("MetricsFilter", reported, f"it does not report the metric {name}")


def metric_weight(request: Request, snapshot: Snapshot) -> Floats | None:
    """Return the weighted sum of each host's metrics; a host with a missing metric gets the configured weight."""
    setting = ratios(snapshot.rules.metrics_weight_setting)
    if not setting:
        return None
    values = np.array([snapshot.fleet.once(_metric, name) for name in setting])
    total = (values * np.array(list(setting.values()))[:, None]).sum(axis=0)
    return np.where(np.isnan(total), snapshot.rules.metrics_weight_of_unavailable, total)


def _metric(fleet: Fleet, name: str) -> Floats:
    """Return the metric of each host; NaN if it is not reported."""
    return np.array([host.metrics.get(name, np.nan) for host in fleet.hosts], np.float64)
