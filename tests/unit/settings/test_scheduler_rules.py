"""[rules.scheduler] of cloud.toml: every rule can be set, and every mistake is told with what could be there."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.settings.test_settings import GOOD, complaint, load
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.scheduling.filters.by_name import FILTERS
from whimbrel.scheduling.weighers.by_name import WEIGHERS
from whimbrel.settings.rules import scheduler_rule_must_be

TABLE = GOOD + "[rules.scheduler]\n"
HERE = "[rules.scheduler]: "

OTHERS: dict[str, Any] = {
    "enabled_filters": ("AllHostsFilter", "IoOpsFilter"),
    "isolated_images": ("an-image",),
    "isolated_hosts": ("n1",),
    "image_props_weight_setting": ("os_distro=2", "hw_machine_type = -1"),
    "metrics_weight_setting": ("cpu.percent=-1.0",),
}


def another(rule: msgspec.structs.FieldInfo) -> Any:
    """Return a value that is not the rule's default."""
    if rule.name in OTHERS:
        return OTHERS[rule.name]
    return not rule.default if isinstance(rule.default, bool) else rule.default + type(rule.default)("5")


def in_toml(value: Any) -> str:
    return msgspec.json.encode(value).decode()


@pytest.mark.parametrize("rule", msgspec.structs.fields(SchedulerRules), ids=lambda rule: rule.name)
def test_every_rule_is_taken(tmp_path: Path, rule: msgspec.structs.FieldInfo) -> None:
    other = another(rule)
    assert other != rule.default
    rules = load(tmp_path, f"{TABLE}{rule.name} = {in_toml(other)}\n").rules.scheduler
    assert getattr(rules, rule.name) == other


@pytest.mark.parametrize("rule", msgspec.structs.fields(SchedulerRules), ids=lambda rule: rule.name)
def test_a_rule_of_the_wrong_type_is_refused_with_what_it_must_be(
    tmp_path: Path, rule: msgspec.structs.FieldInfo
) -> None:
    said = complaint(tmp_path, f"{TABLE}{rule.name} = {{}}\n")
    assert said == f"{HERE}'{rule.name}' is {{}}; it must be {scheduler_rule_must_be(rule.name)}"


def test_what_is_not_said_is_as_in_nova(tmp_path: Path) -> None:
    assert load(tmp_path, TABLE).rules.scheduler == SchedulerRules()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cpu_weight_multiplier = nan", f"{HERE}'cpu_weight_multiplier' is nan; it must be a number from -1e+09 to"),
        ("host_subset_size = 0", f"{HERE}'host_subset_size' is 0; it must be a whole number from 1 to 1000000"),
        ("max_io_ops_per_host = -1", f"{HERE}'max_io_ops_per_host' is -1; it must be a whole number from 0"),
        ("isolated_images = [5]", f"{HERE}'isolated_images' is [5]; it must be a list of texts"),
        ("cpu_multiplier = 1", "[rules.scheduler] has an unknown key 'cpu_multiplier'; remove it, or use one of"),
        ('isolated_hosts = ["n1", "n2"]', f"{HERE}'isolated_hosts' has 'n2', and no host is called that; name one"),
        (
            "track_instance_changes = true",
            "[rules.scheduler] has 'track_instance_changes', which is not there as in Nova: the servers on a host are",
        ),
        (
            'image_props_weight_setting = ["os_distro"]',
            f"{HERE}'image_props_weight_setting': 'os_distro' is not NAME=NUMBER; write it such as 'os_distro=2'",
        ),
        (
            'metrics_weight_setting = ["cpu.percent=x"]',
            f"{HERE}'metrics_weight_setting': 'cpu.percent=x' is not NAME=NUMBER; write it such as 'cpu.percent=-1.0'",
        ),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, line: str, said: str) -> None:
    assert said in complaint(tmp_path, f"{TABLE}{line}\n")


def test_the_table_is_a_table(tmp_path: Path) -> None:
    said = complaint(tmp_path, GOOD + "[rules]\nscheduler = 5\n")
    assert said == "[rules]: 'scheduler' is 5; it must be a table that begins with [rules.scheduler]"


def test_a_filter_that_is_not_there_is_refused_with_all_that_are(tmp_path: Path) -> None:
    said = complaint(tmp_path, f'{TABLE}enabled_filters = ["ComputeFilter", "Foo"]\n')
    assert said.startswith(f"{HERE}'enabled_filters' has 'Foo', which is not there; use some of: ComputeFilter, ")
    assert all(each in said for each in FILTERS)


def test_every_weigher_has_a_rule() -> None:
    rules = {rule.name for rule in msgspec.structs.fields(SchedulerRules)}
    assert {weigher.multiplier for weigher in WEIGHERS.values()} == {
        name for name in rules if name.endswith("_multiplier")
    }
