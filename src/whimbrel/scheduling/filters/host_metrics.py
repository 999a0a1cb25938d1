"""What hosts tell of their load, by the names of the setting: MetricsFilter and MetricsWeigher.

Source: Nova's `[metrics]`, whose settings are called here as there, with metrics_ before.
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
    """MetricsFilter: leave out who does not tell one that is weighed by."""
    for name in ratios(snapshot.rules.metrics_weight_setting):
        told = ~np.isnan(snapshot.fleet.once(_told, name))
        yield Constraint("MetricsFilter", told, f"it does not tell the metric {name}")


def metric_weight(request: Request, snapshot: Snapshot) -> Floats | None:
    """Add up what hosts tell, each metric as often as the setting says; who does not tell one is worth what that is."""
    setting = ratios(snapshot.rules.metrics_weight_setting)
    if not setting:
        return None
    told = np.array([snapshot.fleet.once(_told, name) for name in setting])
    total = (told * np.array(list(setting.values()))[:, None]).sum(axis=0)
    return np.where(np.isnan(total), snapshot.rules.metrics_weight_of_unavailable, total)


def _told(fleet: Fleet, name: str) -> Floats:
    """Give what each host tells; not a number where it tells nothing."""
    return np.array([host.metrics.get(name, np.nan) for host in fleet.hosts], np.float64)
