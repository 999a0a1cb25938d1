"""The transfer of a live guest, and the switch-over: from then on the guest is at the target.

Invariants: where the guest is is read from the hosts, never assumed: an unanswered question is asked again. The step
refuses, and so turns the move back, only after the source has ended the transfer and the guest was seen there, or on
neither host while both answered. A guest that has arrived is never started at the source again.
"""

from contextlib import suppress
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused, TurnedBack, Unavailable, WorldError, WrongState
from whimbrel.domain.guest import Guest
from whimbrel.domain.live_policy import Rung, forced, options_of, predict, rung_of, steering_of
from whimbrel.domain.live_transfer import Steering, TransferProgress
from whimbrel.domain.run import Verdict
from whimbrel.moves.facts import Location, Move, MoveFacts, key_at, live_of, source_of, target_of
from whimbrel.moves.steps.guest import agent_at
from whimbrel.moves.steps.live import power_as_before
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.backoff import PollDelay

NOTE_EVERY_S = 2.0

ASKED = "Live migration was aborted by a request."


async def transfer(move: Move, cloud: Cloud) -> MoveFacts:
    """Transfer the guest, and return when it is at the target.

    Raises: Refused: the transfer failed; TurnedBack: it was aborted. In both cases the guest was seen at the source.
    """
    watch, delay, verdict = _Watch(cloud.clock.now()), PollDelay(cloud.clock), move.verdict
    while True:
        if await _has_arrived(move, cloud):
            last = await _last_progress(move, watch, cloud)
            return _arrived(move, is_post_copy=last is not None and last.is_post_copy)
        if verdict == "revert":
            await _give_up(move, cloud, TurnedBack(ASKED))
            verdict = None  # it has left the source
        progress = await _carry_on(move, cloud)
        if progress is None:
            continue
        if progress.state == "arrived":
            await _note(move, progress, watch, cloud)
            return _arrived(move)
        if progress.is_post_copy and await _has_arrived(move, cloud):
            return _arrived(move, is_post_copy=True)
        await _steer_if_due(move, progress, watch, verdict, cloud)
        await delay.wait()
        verdict = (await cloud.journal.get(move.id)).verdict


async def stay(move: Move, cloud: Cloud) -> None:
    """Ensure that no transfer is under way, and that the guest is at the source, running or paused as before.

    Raises: Unavailable: it is not known where the guest is.
    """
    source = source_of(move)
    agent, key = agent_at(cloud, source), key_at(move, source)
    await agent.end_transfer(move.order, key)
    guest = await agent.look(key)
    if guest is None or not guest.is_live:
        if await _has_arrived(move, cloud):
            raise Unavailable(f"the guest is at {target_of(move).host}: it is not started at {source.host}")
        await agent.start(move.order, key)
        guest = await agent.look(key)
    if guest:
        await power_as_before(move, agent, guest)


# Reads


async def _look(move: Move, location: Location, cloud: Cloud) -> Guest | None:
    """Raises: Unavailable: there is no answer, or the host refuses to answer."""
    try:
        return await agent_at(cloud, location).look(key_at(move, location))
    except (Refused, NotFound) as no:
        raise Unavailable(no.reason) from no


async def _has_arrived(move: Move, cloud: Cloud) -> bool:
    guest = await _look(move, target_of(move), cloud)
    return guest is not None and guest.is_live


async def _has_left(move: Move, cloud: Cloud) -> bool:
    """Ask the source whether it has handed the guest over. The target may learn of it later."""
    try:
        progress = await _order_transfer(move, cloud)
    except (Refused, NotFound, WrongState):
        return False  # the transfer was ended, so that this order starts none
    return progress.state == "arrived"


def _arrived(move: Move, *, is_post_copy: bool = False) -> MoveFacts:
    return replace(move.facts, live=replace(live_of(move), is_post_copy=is_post_copy))


# Orders


async def _carry_on(move: Move, cloud: Cloud) -> TransferProgress | None:
    """Start the transfer or join it, and return its progress. None: it was refused; look again.

    Raises: Refused: it failed, and the guest was seen at the source.
    """
    try:
        return await _order_transfer(move, cloud)
    except (Refused, NotFound, WrongState) as no:
        await _give_up(move, cloud, Refused(no.reason))
        return None


async def _order_transfer(move: Move, cloud: Cloud) -> TransferProgress:
    live, source = live_of(move), source_of(move)
    assert live.receiver, "the target waits for it"
    agent = agent_at(cloud, source)
    return await agent.transfer(move.order, key_at(move, source), live.receiver, options_of(live.policy))


async def _give_up(move: Move, cloud: Cloud, why: Refused) -> None:
    """End the transfer; raise `why` once the guest was seen at the source, or stopped there. Return if it has left."""
    source = source_of(move)
    try:
        await agent_at(cloud, source).end_transfer(move.order, key_at(move, source))
    except NotFound:
        pass
    except Refused as no:  # post-copy: it can only go on
        raise Unavailable(no.reason) from no
    guest = await _look(move, source, cloud)
    if guest and guest.is_live:
        raise why
    if not await _has_arrived(move, cloud) and not await _has_left(move, cloud):
        raise why


async def _steer_if_due(
    move: Move, progress: TransferProgress, watch: "_Watch", verdict: Verdict | None, cloud: Cloud
) -> None:
    """Order what was requested, or what the policy prescribes for a transfer that is late. Note the progress."""
    watch.followed, policy = True, live_of(move).policy
    rung = rung_of(policy, progress)
    if rung == "abort" and verdict is None:
        words = predict(progress, policy.longest_pause_ms).words
        why = f"Live migration was aborted by its policy after {progress.elapsed_s:.0f} s: {words}."
        await _give_up(move, cloud, TurnedBack(why))
        return
    steering = forced(policy) if verdict == "confirm" else rung and steering_of(policy, rung)
    if steering and steering != watch.ordered:
        watch.ordered = steering
        watch.refused = await _steer(move, steering, cloud)
    if cloud.clock.now() - watch.noted_at >= NOTE_EVERY_S:
        await _note(move, progress, watch, cloud)


async def _note(move: Move, progress: TransferProgress, watch: "_Watch", cloud: Cloud) -> None:
    """Keep the progress for those who watch it; of a transfer that ended at once there is nothing to watch."""
    if progress.state == "arrived":
        cloud.meter.transferred(progress.elapsed_s, progress.pause_ms / 1000)
        if not watch.followed:
            return
    watch.noted_at, policy = cloud.clock.now(), live_of(move).policy
    expected = predict(progress, policy.longest_pause_ms)
    noted = LiveProgress(
        progress=progress,
        prediction=expected.words,
        ends_in_s=expected.ends_in_s,
        rung=rung_of(policy, progress) if progress.state == "active" else None,
        refused=watch.refused,
    )
    await cloud.journal.note_progress(move.id, move.epoch, msgspec.json.encode(noted), watch.noted_at)


async def _last_progress(move: Move, watch: "_Watch", cloud: Cloud) -> TransferProgress | None:
    """Return the source's progress of a transfer whose guest runs at the target, and note it if it has ended.

    In post-copy the guest still needs the rest of its memory from the source. None: the source does not answer, or is
    not asked: this process has not followed the transfer, and post-copy is not allowed.
    """
    live = live_of(move)
    if live.receiver is None or not (watch.followed or options_of(live.policy).post_copy):
        return None
    with suppress(WorldError):
        progress = await _order_transfer(move, cloud)
        if progress.state == "arrived" and watch.followed:
            await _note(move, progress, watch, cloud)
        return progress
    return None


async def _steer(move: Move, steering: Steering, cloud: Cloud) -> str:
    """Steer the transfer. Return why the host refuses, which does not stop the transfer; "": it was ordered."""
    source = source_of(move)
    try:
        await agent_at(cloud, source).steer_transfer(move.order, key_at(move, source), steering)
    except (Refused, NotFound) as no:
        return no.reason
    return ""


@dataclass
class _Watch:
    """What this process has ordered and noted."""

    noted_at: float
    followed: bool = False  # whether it has seen the transfer under way
    ordered: Steering | None = None
    refused: str = ""


class LiveProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latest sample of a transfer, for those who watch it. refused: why the host refused the latest order."""

    progress: TransferProgress
    prediction: str = ""
    ends_in_s: float | None = None
    rung: Rung | None = None
    refused: str = ""
