"""Reference pages: they are as the code is, and no key or rule is missing."""

import re
from pathlib import Path

import msgspec
import pytest

from tools import event_page, json_page, metric_page, reference
from whimbrel.bootstrap.policy_rules import list_rules
from whimbrel.settings.cell_sections import SimulatedTimes
from whimbrel.settings.sections import SettingsFile

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_page_is_as_the_code_is(name: str) -> None:
    assert (ROOT / name).read_text() == reference.PAGES[name](), "make docs"


def test_each_command_that_writes_json_is_on_the_page_of_json() -> None:
    sections = re.split(r"^#+ whimbrel ", (ROOT / "docs/generated/commands.md").read_text(), flags=re.MULTILINE)
    writing = {section.partition("\n")[0] for section in sections if "\n* `--json`" in section}
    described = {re.sub(" --.*", "", command) for command in json_page.SHAPES}
    assert writing == described | json_page.ELSEWHERE
    assert not described & json_page.ELSEWHERE


def test_each_metric_has_a_sentence_and_is_explained() -> None:
    found = [*metric_page.of_cloud(), *metric_page.of_process()]
    assert all(metric.sentence for metric in found)
    explained = (ROOT / "docs/watching.md").read_text()
    assert [metric.name for metric in found if f"`{metric.name}`" not in explained] == []


def test_log_events_are_read_with_their_fields() -> None:
    [taken] = [each for each in event_page.log_events() if each.event == "run was taken over by another conductor"]
    assert (taken.level, taken.fields, taken.module) == ("info", ("run", "epoch"), "saga.engine")


def test_every_table_of_the_file_is_described() -> None:
    described = set(reference.KINDS)
    assert {field.encode_name for field in msgspec.structs.fields(SettingsFile)} <= described


def test_a_comment_behind_a_field_is_its_meaning() -> None:
    assert reference.comments(SimulatedTimes)["live_mib_s"].startswith("speed of live transfers")


def test_the_tools_of_oslo_policy_get_every_rule_once() -> None:
    names = [rule.name for rule in list_rules()]
    assert len(names) == len(set(names))
    assert {"os_compute_api:servers:create:trusted_certs", "placement:resource_providers:list"} & set(names)
