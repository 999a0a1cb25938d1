"""Older copies of databases are put back in a simulated cloud: no server is lost or runs twice, whatever was open."""

import pytest

from tests.sim.test_run import check
from whimbrel.sim.faults.planned_events import RESTORE, Act, Mishap, Size, Story, story_of, varied
from whimbrel.sim.record.statistics import lines, together
from whimbrel.sim.runs.simulation import Outcome, run

ALWAYS = Size(weights={RESTORE: 7})
STEPS = 15


def test_a_restore_comes_in_one_of_seven_seeds_and_changes_no_other_decision() -> None:
    for seed in range(21):
        told = story_of(seed, STEPS, Size()).decisions
        others = tuple(one for one in told if one.what != RESTORE)
        assert len(told) - len(others) == (seed % 7 == 3)
        assert others == story_of(seed, STEPS, Size(weights={RESTORE: 0})).decisions


def test_restores_are_of_each_database_alone_and_of_several() -> None:
    stories = (story_of(seed, STEPS, ALWAYS) for seed in range(80))
    which = {
        one.where for story in stories for one in story.decisions if isinstance(one, Mishap) and one.what == RESTORE
    }
    assert {"global", "placement", "cell_c1", "cell_c1+global+placement"} <= which


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_every_seed_with_a_restore_keeps_the_invariants(part: int) -> None:
    outcomes = [run(story_of(seed, STEPS, varied(seed, ALWAYS))) for seed in range(part * 5, part * 5 + 5)]
    for outcome in outcomes:
        check(outcome)
    counts = together([outcome.counts for outcome in outcomes])
    assert sum(sum(hows.values()) for hows in counts["restored"].values()) == len(outcomes)
    assert "restored:" in lines(counts)


def of_a_move(where: str) -> Outcome:
    """Write the events of a confirmed migration, followed by the restore of a copy from its middle."""
    move, confirm = Act(at=1.0, what="migrate", pick=7), Act(at=30.0, what="confirm", pick=0)
    copy = Mishap(at=5.0, what=RESTORE, where=where, for_s=55.0)
    return run(Story(seed=0, size=Size(servers=1, hosts=2), decisions=(move, copy, confirm)))


def test_a_start_holds_all_runs_of_a_restored_journal_until_the_restore_ends() -> None:
    outcome = of_a_move("global+placement+cell_c1")
    check(outcome)
    operator = [line.what for line in outcome.told if line.who == "operator"]
    assert operator[0].startswith("older copies are put back")
    assert operator[-1].startswith("the restore has ended")
    moved = [line.at for line in outcome.told if line.what.startswith("migrate of s1")]
    assert not [at for at in moved if 60.5 < at < 119.0], "a restored run went on while it was held"


def test_a_restored_run_tells_the_same_each_time() -> None:
    assert of_a_move("global").hash == of_a_move("global").hash
