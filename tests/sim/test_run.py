"""Whole simulated clouds: every seed ends with all invariants kept, and is the same each time it is told."""

import os
import subprocess
import sys

import pytest

from whimbrel.agent.fence import Fence
from whimbrel.sim.faults.fault_state import TIMEOUT_S
from whimbrel.sim.faults.planned_events import (
    AT_ONCE,
    BUS,
    SERVICES,
    VOLUME_SERVICE,
    Act,
    Mishap,
    Size,
    Story,
    from_document,
    names_of_weights,
    story_of,
    to_file,
    varied,
)
from whimbrel.sim.record.statistics import lines, together
from whimbrel.sim.runs.simulation import Outcome, run

STEPS = 15
PARTS, SEEDS_PER_PART = 8, 6
"""As many seeds as a test run has time for; `make sim` tells more."""


@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_keeps_the_invariants(part: int) -> None:
    for seed in range(part * SEEDS_PER_PART, (part + 1) * SEEDS_PER_PART):
        check(run(story_of(seed, STEPS, varied(seed, Size()))))


def check(outcome: Outcome) -> None:
    told = "\n".join(map(str, outcome.told))
    assert outcome.failure is None, f"seed {outcome.story.seed}: {outcome.failure}\n{told}"


def test_a_calm_cloud_does_what_it_is_asked() -> None:
    """Without faults nothing is undone, nothing is asked twice, and nobody is told 500 or 503."""
    outcome = run(story_of(7, 40, Size(faults=0.0, gap_s=60.0)))
    check(outcome)
    told = [line.what for line in outcome.told]
    assert sum(" is done" in what for what in told) >= 10
    assert not [what for what in told if ": 50" in what or "tries" in what or "owes" in what]


def test_a_seed_meets_every_kind_of_fault() -> None:
    """Among some seeds each kind of step comes up: none is a word that nobody says."""
    said = {decision.what for seed in range(60) for decision in story_of(seed, 40, Size()).decisions}
    assert said | {VOLUME_SERVICE} == set(names_of_weights())  # what that does has names of its own


def test_a_lost_host_is_evacuated_by_its_fence_device() -> None:
    """Its heartbeats have to end for that: a host that is up is not evacuated."""
    lost = Mishap(at=1.0, what="lost host", where="h1", for_s=120.0)
    outcome = run(Story(seed=0, size=Size(servers=2, hosts=3, fences=True), decisions=(lost,)))
    check(outcome)
    assert [line for line in outcome.told if "evacuate of s1 is done" in line.what]


@pytest.mark.parametrize("where", SERVICES)
@pytest.mark.parametrize("what", ["lost request", "lost answer", "doubled", "late", "overtaken"])
def test_messages_to_services_go_astray(what: str, where: str) -> None:
    """Told by hand: of a server with ports and volumes a call is lost, late, doubled or overtaken at each service."""
    act = Act(at=1.0, what="snapshot" if where == "images" else "migrate", pick=7)
    last = Act(at=60.0, what="start", pick=1)  # there is nothing to start: until then what waits for a call may strike
    story = Story(seed=0, size=Size(servers=1, hosts=2), decisions=(Mishap(at=0.5, what=what, where=where), act, last))
    outcome = run(story)
    check(outcome)
    assert outcome.counts["went wrong"] == {what: {where: 1}}
    arrivals = [line.what for line in outcome.told if line.who == "wires" and line.what.startswith(where)]
    assert len(arrivals) == (what in ("doubled", "late", "overtaken")), outcome.told


@pytest.mark.parametrize(("what", "arrives"), [("lost request", False), ("lost answer", True)])
def test_the_bus_says_at_once_that_an_order_has_no_answer(what: str, arrives: bool) -> None:
    """As NATS does if the agent is gone, or a server dies: the order is repeated, which may still be under way."""
    lost, act = Mishap(at=0.5, what=what, where=BUS, answer=AT_ONCE), Act(at=1.0, what="migrate", pick=7)
    last = Act(at=60.0, what="start", pick=1)
    outcome = run(Story(seed=0, size=Size(servers=1, hosts=2), decisions=(lost, act, last)))
    check(outcome)
    assert outcome.counts["went wrong"] == {what: {BUS: 1}}
    assert any(line.who == "wires" and "arrives" in line.what for line in outcome.told) is arrives
    [parked_at] = [line.at for line in outcome.told if line.what == "migrate of s1 is parked"]
    assert parked_at < TIMEOUT_S[BUS], "nobody waited for the timeout"


def test_half_of_the_messages_that_the_bus_loses_are_noticed_at_once() -> None:
    decisions = [one for seed in range(200) for one in story_of(seed, 40, Size()).decisions if isinstance(one, Mishap)]
    lost = [one for one in decisions if one.where == BUS and one.what in ("lost request", "lost answer")]
    noticed = [one for one in decisions if one.answer == AT_ONCE]
    assert 0.4 < len(noticed) / len(lost) < 0.6
    assert {one.what for one in noticed} == {"lost request", "lost answer"}
    assert {one.where for one in noticed} == {BUS}


def held_up() -> Outcome:
    """Write the events of a migration that is rolled back while its first order to the target waits in the agent."""
    held, act = Mishap(at=0.5, what="held up", where=BUS), Act(at=1.0, what="migrate", pick=7)
    back = Act(at=2.0, what="turn back", pick=0)
    return run(Story(seed=0, size=Size(servers=1, hosts=2), decisions=(held, act, back)))


def test_an_order_that_is_held_up_until_a_newer_one_has_passed_does_nothing() -> None:
    outcome = held_up()
    check(outcome)
    assert outcome.counts["went wrong"] == {"held up": {BUS: 1}}
    assert outcome.told[-1].what == "migrate of s1 is undone"


def test_without_a_second_look_it_would_act(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fence, "check", lambda self, order, server=None: None)
    assert "where nothing is claimed for it" in str(held_up().failure)


def test_clouds_differ_from_seed_to_seed() -> None:
    sizes = [varied(seed, Size()) for seed in range(12)]
    assert {size.cells for size in sizes} == {1, 2}
    assert {(size.functions, size.groups) for size in sizes} == {(False, False), (True, False), (False, True)}
    assert varied(3, Size(hosts=1)).cells == 1


def test_a_run_says_what_it_did() -> None:
    outcome = run(story_of(7, 40, Size(faults=0.0, gap_s=60.0)))
    done = [what for what, hows in outcome.counts["ended"].items() if "done" in hows]
    assert {"create", "delete"} <= set(done)
    assert sum(sum(hows.values()) for hows in outcome.counts["asked"].values()) > 20
    assert "went wrong" not in outcome.counts
    twice = together([outcome.counts, outcome.counts])
    assert twice["ended"]["create"]["done"] == 2 * outcome.counts["ended"]["create"]["done"]
    assert any(line.split()[:2] == ["create", str(twice["ended"]["create"]["done"])] for line in lines(twice))


SCRIPT = """
from whimbrel.sim.faults.planned_events import Size, story_of, varied
from whimbrel.sim.runs.simulation import run
for seed in (9, 11):
    print(run(story_of(seed, 20, varied(seed, Size()))).hash)
"""


def test_a_seed_is_the_same_in_every_process() -> None:
    traces = {in_a_process(seed) for seed in ("1", "2")}
    assert traces == {"\n".join(run(story_of(seed, 20, varied(seed, Size()))).hash for seed in (9, 11))}


def in_a_process(hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    ended = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def test_another_seed_is_another_run() -> None:
    assert run(story_of(11, 20, Size())).hash != run(story_of(12, 20, Size())).hash


def test_a_story_can_be_kept_in_a_file() -> None:
    import msgspec

    story = story_of(3, 30, Size(weights={"kill": 9}))
    document = msgspec.json.decode(to_file(story))
    assert document.pop("whimbrel") == "story"
    assert from_document(document) == story


def test_a_move_whose_conductor_is_killed_is_finished_by_another() -> None:
    """Told by hand: the door that began the move dies in its midst and stays away for long."""
    story = Story(
        seed=0,
        size=Size(endpoints=2, conductors=0, servers=1, hosts=2),
        decisions=(Act(at=1.0, what="migrate", pick=7), Mishap(at=3.0, what="kill", where="door1", for_s=80.0)),
    )
    outcome = run(story)
    check(outcome)
    who = {line.who for line in outcome.told if line.what.startswith("migrate of s1 ")}
    assert who == {"door1", "door2"}, outcome.told
    assert any("is taken, epoch 2" in line.what for line in outcome.told if line.who == "door2")
