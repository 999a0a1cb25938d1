"""The prediction of a live migration's end, and the ladder that it climbs when it is late."""

import pytest
from msgspec.structs import replace

from whimbrel.domain.errors import Invalid
from whimbrel.domain.live_policy import (
    LivePolicy,
    LiveRules,
    Rung,
    forced,
    options_of,
    policy_of,
    predict,
    rung_of,
    steering_of,
)
from whimbrel.domain.live_transfer import Steering, TransferProgress

MIB = 1024**2
CALM = TransferProgress(state="active", memory_remaining=1000 * MIB, rate=100 * MIB, dirty_rate=50 * MIB)
BUSY = replace(CALM, dirty_rate=100 * MIB)
ALL: tuple[Rung, ...] = ("throttle", "longer_pause", "post_copy", "suspend", "abort")
POLICY = LivePolicy(longest_pause_ms=500, longer_pause_ms=2000, deadline_s=100, rung_s=10, ladder=ALL)


@pytest.mark.parametrize(
    ("progress", "pause_ms", "ends_in_s", "words"),
    [
        (CALM, 0, 20.0, "expected to end in 20 s"),
        (CALM, 2000, 16.0, "expected to end in 16 s"),
        (CALM, 10_000, 0.0, "expected to end now"),
        (BUSY, 500, None, "will not converge at this rate"),
        (replace(CALM, dirty_rate=200 * MIB), 500, None, "will not converge at this rate"),
        (replace(CALM, disk_remaining=500 * MIB), 0, 30.0, "expected to end in 30 s"),
        (replace(CALM, rate=0), 500, None, "not known yet"),
        (replace(CALM, is_post_copy=True), 500, None, "the guest runs at the target and fetches the rest"),
    ],
)
def test_the_end_is_predicted(progress: TransferProgress, pause_ms: int, ends_in_s: float | None, words: str) -> None:
    expected = predict(progress, pause_ms)
    assert (expected.ends_in_s, expected.words) == (ends_in_s, words)


@pytest.mark.parametrize(
    ("progress", "elapsed_s", "rung"),
    [
        (BUSY, 99, None),
        (BUSY, 100, "throttle"),
        (BUSY, 110, "longer_pause"),
        (BUSY, 120, "post_copy"),
        (BUSY, 130, "suspend"),
        (BUSY, 140, "abort"),
        (BUSY, 9999, "abort"),
        (replace(CALM, memory_remaining=500 * MIB), 9999, "longer_pause"),  # it ends before the next rung
        (CALM, 9999, "abort"),  # it would take 16 s, and a rung has 10
        (replace(BUSY, is_post_copy=True), 9999, None),  # it can only go on
    ],
)
def test_a_late_transfer_climbs_the_ladder(progress: TransferProgress, elapsed_s: float, rung: Rung | None) -> None:
    assert rung_of(POLICY, replace(progress, elapsed_s=elapsed_s)) == rung


def test_without_a_ladder_it_goes_on_for_ever() -> None:
    assert rung_of(replace(POLICY, ladder=()), replace(BUSY, elapsed_s=9999.0)) is None


@pytest.mark.parametrize(
    ("rung", "steering"),
    [
        ("throttle", None),  # it is allowed from the beginning
        ("longer_pause", Steering(max_pause_ms=2000)),
        ("post_copy", Steering(post_copy=True)),
        ("suspend", Steering(suspend=True, max_pause_ms=2000)),
    ],
)
def test_what_a_rung_orders(rung: Rung, steering: Steering | None) -> None:
    assert steering_of(POLICY, rung) == steering


def test_only_what_is_on_the_ladder_is_done() -> None:
    options, plain = options_of(POLICY), options_of(replace(POLICY, ladder=("abort",)))
    assert (options.auto_converge, options.post_copy) == (True, True)
    assert (plain.auto_converge, plain.post_copy) == (False, False)
    assert forced(POLICY) == Steering(post_copy=True)
    assert forced(replace(POLICY, ladder=("abort",))) == Steering(suspend=True)


def test_the_request_goes_before_the_flavor_and_that_before_the_project() -> None:
    rules = LiveRules(
        policy=LivePolicy(deadline_s=1), of_projects={"p": {"deadline_s": 2, "rung_s": 2, "longest_pause_ms": 2}}
    )
    specs = {"whimbrel:live_deadline_s": "3", "whimbrel:live_ladder": "post_copy,abort", "whimbrel:live_rung_s": "3"}
    policy = policy_of(rules, "p", specs, {"deadline_s": 4.0})
    assert policy == LivePolicy(deadline_s=4, rung_s=3, longest_pause_ms=2, ladder=("post_copy", "abort"))
    assert policy_of(rules, "other", {"hw:cpu_policy": "dedicated"}, {}) == rules.policy


@pytest.mark.parametrize(
    ("project", "specs", "asked", "said"),
    [
        ({"deadline": 1}, {}, {}, "in the rules of its project is invalid: Object contains unknown field `deadline`"),
        ({}, {"whimbrel:live_ladder": "pray"}, {}, "in its flavor is invalid: Invalid enum value 'pray'"),
        ({}, {}, {"longest_pause_ms": -1}, "in the request is invalid: amounts are not negative"),
        ({}, {}, {"rung_s": 0}, "in the request is invalid: rung_s must be positive"),
    ],
)
def test_an_impossible_value_is_named(
    project: dict[str, object], specs: dict[str, str], asked: dict[str, object], said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        policy_of(LiveRules(of_projects={"p": project}), "p", specs, asked)
