"""The page of metrics, from the collectors that make them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from prometheus_client.core import Metric

from whimbrel.adapters.prometheus.cloud_metrics import metrics_of
from whimbrel.adapters.prometheus.process_metrics import Figures
from whimbrel.ports.stores.journal import Backlog, LastProof, Tally

HEAD = """\
# Metrics

[Monitoring](../watching.md) says how Prometheus gets them, and which are the same in every process. A histogram has
`_bucket`, `_sum` and `_count`. `process_...` and `python_info` are those of every Python program.
"""
TABLE = """
## {title}

| metric | type | labels | |
|---|---|---|---|
"""


class Described(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    sentence: str


def metrics() -> str:
    cloud = "".join(map(_row, of_cloud()))
    process = "".join(map(_row, of_process()))
    titles = TABLE.format(title="The state of the cloud"), TABLE.format(title="The work of a process")
    return f"{HEAD}{titles[0]}{cloud}{titles[1]}{process}"


def _row(metric: Described) -> str:
    labels = ", ".join(metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.sentence} |\n"


def of_cloud() -> list[Described]:
    """Return the metrics of a cloud, those that are left out without a proof or notifications too."""
    tally = Tally(
        open=[],
        debts={},
        debts_since=None,
        ended={},
        takeovers=0,
        proof=LastProof(at=0.0, violations=0, unseen=0),
        backlog=Backlog(marked=0, oldest=None, sent=0, dropped=0),
    )
    found = metrics_of(tally=tally, transfers=(), maintenances=(), hosts={}, processes=(), is_held=False, now=0.0)
    return sorted(_described(metric) for metric in found)


def _described(metric: Metric) -> Described:
    labels: tuple[str, ...] = getattr(metric, "_labelnames", ())
    return Described(_name(metric.name, metric.type), metric.type, tuple(labels), metric.documentation)


def of_process() -> list[Described]:
    return sorted(_measured(vars(Figures()).values()))


def _measured(values: Any) -> Iterator[Described]:
    for each in values:
        if hasattr(each, "_labelnames"):
            yield Described(_name(each._name, each._type), each._type, tuple(each._labelnames), each._documentation)


def _name(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name
