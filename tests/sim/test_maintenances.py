"""Operators empty hosts of a simulated cloud for maintenance, whatever else happens there."""

import pytest

from tests.sim.test_run import check
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, ConsumerId, HostName, RunId
from whimbrel.ports.placement.placement import Owner
from whimbrel.sim.checks.invariants import Violation
from whimbrel.sim.checks.maintenances import DisabledHosts
from whimbrel.sim.cloud.cloud import CELL, PROJECT, USER, World
from whimbrel.sim.faults.planned_events import MAINTENANCE, PLANS, Act, Mishap, Size, Story, story_of, varied
from whimbrel.sim.record.statistics import together
from whimbrel.sim.runs.simulation import Outcome, run

ALWAYS = Size(weights={MAINTENANCE: 5, "restore": 0})
STEPS = 15


def test_a_maintenance_comes_in_one_of_five_seeds_and_changes_no_other_decision() -> None:
    for seed in range(20):
        told = story_of(seed, STEPS, Size(weights={"restore": 0})).decisions
        others = tuple(one for one in told if one.what != MAINTENANCE)
        assert len(told) - len(others) == (seed % 5 == 1)
        assert others == story_of(seed, STEPS, Size(weights={MAINTENANCE: 0, "restore": 0})).decisions


@pytest.mark.long
@pytest.mark.parametrize("part", range(3))
def test_every_seed_with_a_maintenance_keeps_the_invariants(part: int) -> None:
    outcomes = [run(story_of(seed, STEPS, varied(seed, ALWAYS))) for seed in range(part * 4, part * 4 + 4)]
    for outcome in outcomes:
        check(outcome)
    asked = together([outcome.counts for outcome in outcomes])["asked"]
    assert asked["start maintenance"]["202"] >= 3


def test_hosts_are_emptied_packed_and_balanced() -> None:
    stories = [story_of(seed, STEPS, ALWAYS) for seed in range(30)]
    mishaps = [one for story in stories for one in story.decisions if isinstance(one, Mishap)]
    drawn = {one.where.split()[0] for one in mishaps if one.what == MAINTENANCE}
    assert {"pack", "balance", *ALWAYS.all_hosts} >= drawn > {"pack", "balance"}


def emptied(plan: str, *mishaps: Mishap, where: str = "h1") -> Outcome:
    """Empty the first host of a cloud whose users request a create and moves at the same time."""
    planned = Mishap(at=1.0, what=MAINTENANCE, where=where, for_s=3.0, answer=plan)
    acts = [Act(at=1.0 + number / 2, what=what, pick=7 * number) for number, what in
            enumerate(("create", "migrate live", "create", "migrate", "create"))]  # fmt: skip
    decisions: list[Act | Mishap] = sorted((planned, *acts, *mishaps), key=lambda one: one.at)
    return run(Story(seed=0, size=Size(servers=4, hosts=3), decisions=tuple(decisions)))


@pytest.mark.parametrize("plan", PLANS)
def test_a_maintenance_ends_while_conductors_are_killed(plan: str) -> None:
    kills = [
        Mishap(at=2.0 + number, what="kill", where=where, for_s=4.0)
        for number, where in enumerate(("door1", "conductor1", "door2", "door1", "conductor1"))
    ]
    outcome = emptied(plan, *kills)
    check(outcome)
    assert outcome.counts["asked"]["start maintenance"].keys() & {"202", "no answer"}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("goal", ["pack", "balance"])
def test_a_goal_ends_while_conductors_are_killed(goal: str, plan: str) -> None:
    kills = [
        Mishap(at=2.0 + number, what="kill", where=where, for_s=4.0)
        for number, where in enumerate(("door1", "conductor1", "door2", "door1", "conductor1"))
    ]
    outcome = emptied(plan, *kills, where=f"{goal} h1+h2+h3")
    check(outcome)
    assert outcome.counts["asked"]["start maintenance"].keys() & {"202", "no answer"}


def test_of_two_goals_at_the_same_moment_one_waits() -> None:
    """A host is emptied while it is packed with others: one of them is refused until the other one is over."""
    other = Mishap(at=1.0, what=MAINTENANCE, where="pack h1+h2+h3", for_s=3.0, answer="paused")
    outcome = emptied("paused", other)
    check(outcome)
    assert outcome.counts["asked"]["start maintenance"]["409"] >= 1


async def test_a_claim_on_a_disabled_host_is_noticed() -> None:
    world = await World.build()
    host = await world.cloud.cell(CellName(CELL)).hosts.get(HostName("h1"))
    owner, claim = Owner(PROJECT, USER), {host.id: {"VCPU": 1}}
    disabled = DisabledHosts(world)
    await world.placement.claim(Order(RunId("one"), 1), ConsumerId("first"), owner, claim)
    await disabled.check("a claim before")
    await world.placement.set_disabled(host.id, True)
    await disabled.check("the change")
    await world.placement.hand_over(Order(RunId("one"), 1), ConsumerId("first"), ConsumerId("first"), owner)
    await disabled.check("no new claim")
    await world.placement.claim(Order(RunId("two"), 1), ConsumerId("second"), owner, claim)
    with pytest.raises(Violation, match="server second has got a claim"):
        await disabled.check("a claim after")
    await world.close()
