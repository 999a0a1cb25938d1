"""When a live migration will end, and what is done if it will not. Pure functions of its latest sample.

After its deadline a transfer that would not end in time climbs a ladder: each rung has `rung_s` seconds to help. The
rung follows from the time that has passed, so that a conductor that takes over is on the same one.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from whimbrel.domain.errors import Invalid
from whimbrel.domain.live_transfer import Steering, TransferOptions, TransferProgress

Rung = Literal["throttle", "longer_pause", "post_copy", "suspend", "abort"]
"""throttle: slow the guest down while it writes faster than is copied; it is allowed from the beginning, if listed.
longer_pause: allow a longer pause at the switch-over. post_copy: switch over now and fetch the rest; never undone.
suspend: pause the guest until it has arrived. abort: leave it where it is.
"""

EXTRA_SPEC = "whimbrel:live_"
"""Prefix of a flavor's extra specs, followed by a field of `LivePolicy`; rungs are separated by commas."""


class LivePolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How the guest of a live migration may be treated."""

    longest_pause_ms: int = 500  # at the switch-over
    deadline_s: float = 900.0  # from here on the ladder is climbed; 0: at once
    rung_s: float = 60.0  # how long a rung is given
    ladder: tuple[Rung, ...] = ("throttle", "longer_pause", "abort")
    longer_pause_ms: int = 5000  # of the rung longer_pause
    bandwidth_mib_s: int = 0  # 0: unlimited


class LiveRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The operator's settings. of_projects: project id -> fields of the policy that differ there."""

    policy: LivePolicy = LivePolicy()
    of_projects: dict[str, dict[str, Any]] = {}
    at_once_per_host: int = 1  # live migrations from and to one host; further ones wait. 0: unlimited
    at_once_per_link: int = 0  # between the same two cells


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """When a transfer will switch over. ends_in_s: None: it is not known, or not at this rate."""

    ends_in_s: float | None
    words: str


def policy_of(rules: LiveRules, project: str, extra_specs: Mapping[str, str], asked: Mapping[str, Any]) -> LivePolicy:
    """Return the policy for a server: that of the request, of its flavor, of its project, of the cloud, field by field.

    Raises: Invalid: a value is impossible; the message names it.
    """
    of_flavor = {
        key.removeprefix(EXTRA_SPEC): [rung for rung in value.split(",") if rung] if key.endswith("ladder") else value
        for key, value in extra_specs.items()
        if key.startswith(EXTRA_SPEC)
    }
    policy = rules.policy
    for where, fields in (
        ("the rules of its project", rules.of_projects.get(project, {})),
        ("its flavor", of_flavor),
        ("the request", asked),
    ):
        policy = _with(policy, fields, where)
    return policy


def _with(policy: LivePolicy, fields: Mapping[str, Any], where: str) -> LivePolicy:
    try:
        changed = msgspec.convert({**msgspec.to_builtins(policy), **fields}, LivePolicy, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"The policy of live migrations in {where} is invalid: {error}") from None
    if min(changed.longest_pause_ms, changed.longer_pause_ms, changed.deadline_s, changed.bandwidth_mib_s) < 0:
        raise Invalid(f"The policy of live migrations in {where} is invalid: amounts are not negative")
    if changed.rung_s <= 0:
        raise Invalid(f"The policy of live migrations in {where} is invalid: rung_s must be positive")
    return changed


def options_of(policy: LivePolicy) -> TransferOptions:
    return TransferOptions(
        bandwidth_mib_s=policy.bandwidth_mib_s,
        max_pause_ms=policy.longest_pause_ms,
        auto_converge="throttle" in policy.ladder,
        post_copy="post_copy" in policy.ladder,
    )


def predict(progress: TransferProgress, pause_ms: int) -> Prediction:
    """Predict the switch-over, if the guest may pause for this long. What is written meanwhile is copied again."""
    if progress.state == "arrived":
        return Prediction(ends_in_s=0.0, words="the guest has arrived")
    if progress.is_post_copy:
        return Prediction(ends_in_s=None, words="the guest runs at the target and fetches the rest")
    if progress.rate <= 0:
        return Prediction(ends_in_s=None, words="not known yet")
    left = progress.memory_remaining + progress.disk_remaining - progress.rate * pause_ms / 1000
    if left <= 0:
        return Prediction(ends_in_s=0.0, words="expected to end now")
    gained = progress.rate - progress.dirty_rate
    if gained <= 0:
        return Prediction(ends_in_s=None, words="will not converge at this rate")
    return Prediction(ends_in_s=left / gained, words=f"expected to end in {left / gained:.0f} s")


def rung_of(policy: LivePolicy, progress: TransferProgress) -> Rung | None:
    """Return the rung on which a transfer stands now. None: it is not late, or will end while this rung lasts."""
    late_by = progress.elapsed_s - policy.deadline_s
    if late_by < 0 or not policy.ladder or progress.is_post_copy:
        return None
    number = int(late_by / policy.rung_s)
    for rung in reversed(policy.ladder[: number + 1]):
        ends = predict(progress, _pause_ms(policy, rung)).ends_in_s
        if ends is not None and ends <= policy.rung_s and rung in ("post_copy", "suspend", "abort"):
            continue  # the rung below is enough
        return rung
    return None


def steering_of(policy: LivePolicy, rung: Rung) -> Steering | None:
    """Return what is ordered on a rung. None: nothing."""
    pause = max(policy.longer_pause_ms, policy.longest_pause_ms)
    allowed = pause if "longer_pause" in policy.ladder[: policy.ladder.index(rung) + 1] else None
    if rung == "post_copy":
        return Steering(post_copy=True)
    if rung == "suspend":
        return Steering(suspend=True, max_pause_ms=allowed)
    return Steering(max_pause_ms=allowed) if allowed else None


def forced(policy: LivePolicy) -> Steering:
    """Return what a request to complete at once orders."""
    return Steering(post_copy=True) if "post_copy" in policy.ladder else Steering(suspend=True)


def _pause_ms(policy: LivePolicy, rung: Rung) -> int:
    longer = "longer_pause" in policy.ladder[: policy.ladder.index(rung)]
    return max(policy.longer_pause_ms, policy.longest_pause_ms) if longer else policy.longest_pause_ms
