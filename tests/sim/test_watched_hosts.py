"""Hosts that fence themselves: a host that is lost stops its guests before its servers are evacuated."""

import pytest

from tests.sim.test_run import check
from whimbrel.agent.lease_watchdog import Watchdog
from whimbrel.domain.self_fencing import CLOCK_ERROR_S, counted_after_s
from whimbrel.sim.cloud.watched_hosts import SELF_FENCE_S
from whimbrel.sim.faults.planned_events import Mishap, Size, Story
from whimbrel.sim.runs.simulation import Outcome, run

AWAY_S = 180.0


def lost(what: str, *, for_s: float = AWAY_S, clocks: bool = False) -> Outcome:
    """Run a cloud of three hosts, one of which is lost in this way."""
    size = Size(servers=2, hosts=3, watchdogs=True, clocks=clocks)
    return run(Story(seed=0, size=size, decisions=(Mishap(at=1.0, what=what, where="h1", for_s=for_s),)))


def when(outcome: Outcome, who: str, what: str) -> list[float]:
    return [line.at for line in outcome.told if line.who.startswith(who) and what in line.what]


@pytest.mark.parametrize("clocks", [False, True], ids=["right clocks", "wrong clocks"])
def test_a_lost_host_stops_its_guests_and_is_evacuated_after_that(clocks: bool) -> None:
    outcome = lost("lost host", clocks=clocks)
    check(outcome)
    [fenced, *_] = when(outcome, "watchdog h1", "has stopped all guests")
    claimed = [line.at for line in outcome.told if "evacuate of" in line.what and "at hold_source" in line.what]
    assert fenced < SELF_FENCE_S * 1.02 + 5.0
    assert claimed
    assert min(claimed) > counted_after_s(SELF_FENCE_S) - CLOCK_ERROR_S * clocks
    assert not when(outcome, "watchdog h2", "")


def test_a_host_that_is_away_for_a_short_time_runs_on() -> None:
    outcome = lost("cut off", for_s=SELF_FENCE_S / 2)
    check(outcome)
    assert not when(outcome, "watchdog", "")


@pytest.mark.parametrize("what", ["kill agent", "freeze agent", "power loss"])
def test_an_agent_that_is_gone_for_long_is_replaced(what: str) -> None:
    check(lost(what, for_s=90.0))


def test_a_watchdog_that_does_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep_on(self: Watchdog) -> None:
        """Do nothing, as a program that hangs."""

    monkeypatch.setattr(Watchdog, "round", sleep_on)
    failure = lost("lost host").failure
    assert failure is not None
    assert "runs" in failure
