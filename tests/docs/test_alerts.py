"""Alarms and the pages about them: every figure is one that is told, every page is there, and so is every command."""

import asyncio
import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.prometheus_tools import ALARMS, DOCS, TRIALS
from whimbrel.adapters.prometheus.cloud_metrics import STATES, Readings
from whimbrel.adapters.prometheus.live_metrics import PROSPECTS
from whimbrel.adapters.prometheus.process_metrics import Figures
from whimbrel.cli import main
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.journal import LastProof
from whimbrel.sim.cloud.cloud import World

ROOT = Path(__file__).parents[2]
WATCHING = DOCS / "watching.md"
PAGES = sorted((DOCS / "runbooks").glob("*.md"))

WORDS = {
    "state": set(STATES),
    "prospect": set(PROSPECTS),
    "way": {"do", "undo", "forward", "back"},
    "outcome": {"done", "refused", "debt", "asked", "reverted", "undone", "found", "none"},
    "step": {step.name for saga in SAGAS for step in saga.steps},
    "kind": {saga.name for saga in SAGAS},
}


@cache
def told() -> set[str]:
    """Return the names of all figures that a process tells."""

    async def look() -> str:
        rules = Rules(notifications=NotificationRules(enabled=True))
        world = await World.build(rules=rules)
        figures, readings = Figures(), Readings(world.cloud)
        await world.cloud.journal.note_proof(LastProof(at=1.0, violations=0, unseen=0))
        figures.registry.register(readings)
        await readings.refresh()
        await world.close()
        return generate_latest(figures.registry).decode()

    families = list(text_string_to_metric_families(asyncio.run(look())))
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in families}


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(ALARMS.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def named(text: str) -> set[str]:
    """Return the figures that a text names, histograms by their own name."""
    names = set(re.findall(r"\bwhimbrel_[a-z_]+\b", text))
    return {re.sub(r"_(bucket|count|sum)$", "", name) if name not in told() else name for name in names}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alarm_asks_for_figures_that_are_shown_and_names_a_page(rule: dict[str, Any]) -> None:
    assert named(rule["expr"]) <= told()
    assert named(rule["expr"]) or "up" in rule["expr"]
    for label, words in re.findall(r'(\w+)=~?"([\w|]+)"', rule["expr"]):
        assert set(words.split("|")) <= WORDS.get(label, {words}), label
    assert rule["expr"].count("(") == rule["expr"].count(")")
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    page = ROOT / rule["annotations"]["runbook_url"]
    assert rule["alert"] in page.read_text(), page


@pytest.mark.parametrize("rule", [rule["alert"] for rule in rules()])
def test_an_alarm_is_tried_both_ways(rule: str) -> None:
    trials = [trial for page in TRIALS for trial in yaml.safe_load(page.read_text())["tests"]]
    asked = [one for trial in trials for one in trial["alert_rule_test"] if one["alertname"] == rule]
    assert {bool(one.get("exp_alerts")) for one in asked} == {True, False}


def test_the_page_about_figures_names_all_of_them_and_no_others() -> None:
    ours = {name for name in told() if name.startswith("whimbrel_")}
    assert named(WATCHING.read_text()) == ours


@pytest.mark.parametrize("page", [WATCHING, *PAGES], ids=lambda page: page.name)
def test_a_page_names_figures_alarms_pages_and_commands_that_are_there(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page.read_text()
    assert named(text) <= told()
    assert set(re.findall(r"\bWhimbrel[A-Z]\w+", text)) <= {rule["alert"] for rule in rules()}
    for link in re.findall(r"\]\(([^):#]+)(?:#\w+)?\)", text):
        assert (page.parent / link).exists(), link
    for command in commands(text):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--help"])
        said = capsys.readouterr()
        assert ended.value.code == 0, (command, said.err)
        assert f"Usage: whimbrel {' '.join(command)}" in said.out, command


def commands(text: str) -> Iterator[list[str]]:
    """Yield our own commands that a page names, without what they are given."""
    for words in sorted(set(re.findall(r"(?:^|`)whimbrel ([^`\n]+)", text, re.M))):
        yield list(takewhile(lambda word: re.fullmatch("[a-z][a-z-]*", word), words.split()))
