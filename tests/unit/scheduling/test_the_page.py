"""docs/scheduling.md names every filter, weigher and rule that there is, and what there is not."""

from pathlib import Path

import msgspec

from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.scheduling.filters import by_name
from whimbrel.scheduling.weighers import by_name as weighers

PAGE = (Path(__file__).parents[3] / "docs" / "scheduling.md").read_text()
THERE, MISSING = PAGE.split("## What Nova has and this has not")


def test_it_has_all_that_is_there_and_what_is_not() -> None:
    rules = [rule.name for rule in msgspec.structs.fields(SchedulerRules)]
    assert [name for name in (*by_name.FILTERS, *weighers.WEIGHERS, *rules) if name not in THERE] == []
    assert [name for name in weighers.MISSING if name not in MISSING] == []


def test_it_has_the_defaults_of_the_weighers() -> None:
    rows = [line for line in THERE.splitlines() if "_multiplier` |" in line]
    told = {line.split("|")[3].strip(" `"): float(line.split("|")[4]) for line in rows}
    assert told == {one.multiplier: getattr(SchedulerRules(), one.multiplier) for one in weighers.WEIGHERS.values()}
