"""Alarms as Prometheus itself has them: each rings and keeps still as it should, and its trials notice if not."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.prometheus_tools import ALARMS, TRIALS, promtool

pytestmark = pytest.mark.long

Rule = dict[str, Any]

NEVER = {"expr": "vector(1) == 0"}
ALWAYS = {"expr": "vector(1)", "for": "0s"}
AT_ONCE = {"for": "0s"}
LATE = {"for": "30d"}


def rules() -> list[Rule]:
    [group] = yaml.safe_load(ALARMS.read_text())["groups"]
    found: list[Rule] = group["rules"]
    return found


def test_prometheus_takes_the_alarms() -> None:
    checked = promtool("check", "rules", ALARMS)
    assert checked.returncode == 0, checked.stderr
    assert f"{len(rules())} rules found" in checked.stdout


def test_each_rings_and_keeps_still_when_it_should() -> None:
    tried = promtool("test", "rules", *TRIALS)
    assert tried.returncode == 0, tried.stderr


@pytest.mark.parametrize("change", [NEVER, ALWAYS, AT_ONCE, LATE], ids=["never", "always", "at once", "late"])
def test_the_trials_notice_each_alarm_that_rings_otherwise(tmp_path: Path, change: Rule) -> None:
    changed = [{**rule, **change} for rule in rules()]
    (tmp_path / ALARMS.name).write_text(yaml.safe_dump({"groups": [{"name": "changed", "rules": changed}]}))
    tried = promtool("test", "rules", *(shutil.copy(each, tmp_path) for each in TRIALS))
    assert tried.returncode == 1
    waiting = {rule["alert"] for rule in rules() if "for" in rule or change != AT_ONCE}
    assert set(re.findall(r"alertname: (\w+), time", tried.stderr)) == waiting
