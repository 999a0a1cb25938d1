"""Metrics that hosts tell: who is left out for telling none, and what they weigh."""

from typing import Any

import pytest

from tests.unit.scheduling.capacity import host, snapshot
from tests.unit.scheduling.passing import asking, passing, rules
from whimbrel.scheduling.pipeline import Ranking, rank
from whimbrel.scheduling.weighers.by_name import WEIGHERS

HOSTS = [
    host("busy", metrics={"cpu.percent": 0.9, "cpu.frequency": 2000.0}),
    host("idle", metrics={"cpu.percent": 0.1, "cpu.frequency": 2000.0}),
    host("silent", metrics={"cpu.frequency": 3000.0}),
]
OTHERS = {one.multiplier: 0.0 for one in WEIGHERS.values() if one.multiplier != "metrics_weight_multiplier"}


def ranked(**settings: Any) -> Ranking:
    return rank(asking(), snapshot(HOSTS, rules=rules(**OTHERS, **settings)))


def order(**settings: Any) -> list[str]:
    ranking = ranked(**settings)
    return [ranking.snapshot.fleet.names[place] for place in ranking.order.tolist()]


def test_the_filter_leaves_out_who_does_not_tell_what_is_weighed_by() -> None:
    for setting, who in [
        (("cpu.percent=-1",), {"busy", "idle"}),
        (("cpu.frequency=1", "cpu.percent=-1"), {"busy", "idle"}),
        (("cpu.frequency=1",), {"busy", "idle", "silent"}),
        (("other=1",), set()),
        ((), {"busy", "idle", "silent"}),
    ]:
        now = snapshot(HOSTS, rules=rules(metrics_weight_setting=setting))
        assert passing("MetricsFilter", asking(), now) == who


def test_what_is_shown_is_added_up_by_its_ratios() -> None:
    assert order(metrics_weight_setting=("cpu.percent=-1",)) == ["idle", "busy"]
    assert order(metrics_weight_setting=("cpu.percent=1",)) == ["busy", "idle"]
    assert order(metrics_weight_setting=("cpu.percent=-1", "cpu.frequency=1"), metrics_weight_multiplier=-1.0) == [
        "busy",
        "idle",
    ]


def test_what_is_required_is_asked_without_the_filter_too() -> None:
    [wrong] = [one for one in ranked(metrics_weight_setting=("cpu.percent=1",)).constraints if not one.passes.all()]
    assert (wrong.name, wrong.words) == ("MetricsFilter", "it does not report the metric cpu.percent")


def test_where_nothing_is_required_who_does_not_tell_is_worth_what_the_rule_says() -> None:
    setting = {"metrics_weight_setting": ("cpu.percent=1",), "metrics_required": False}
    assert order(**setting) == ["busy", "idle", "silent"]
    assert order(**setting, metrics_weight_of_unavailable=0.5) == ["busy", "silent", "idle"]


@pytest.mark.parametrize(
    "settings", [{}, {"metrics_weight_setting": ("cpu.percent=1",), "metrics_weight_multiplier": 0}]
)
def test_without_a_setting_or_a_multiplier_they_are_no_matter(settings: Any) -> None:
    assert ranked(**settings).parts == {}
