"""The engine: drives a run through the steps of its saga and, after a refusal, through their undos.

Invariants: what a step learned is saved before the next step acts. What follows without acting (a decision, the end of
a wait) shares a save with what precedes it: after a crash both are repeated. An answer has three values: done, refused,
unknown; an unknown answer is asked for again and never assumed. After the pivot nothing is undone: the run retries and
its trouble is shown. An undo that cannot be done yet is a debt: it is shown and retried indefinitely, and blocks only
the undos that wait for it. After every unanswered call and every change of direction the epoch rises, so that
orders still on their way are refused.
"""

import traceback
from contextlib import suppress
from typing import Any, Literal

import structlog
from msgspec.structs import replace

from whimbrel.domain.errors import (
    Behind,
    Conflict,
    LockLost,
    NotFound,
    Refused,
    Superseded,
    TurnedBack,
    Unavailable,
    WorldError,
    WrongState,
)
from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Action, Facts, LogEntry, Run, Verdict
from whimbrel.ports.stores.journal import Evidence, QuotaUsage, RunFilter
from whimbrel.saga.backoff import pause_s, warnings_due
from whimbrel.saga.lease import renewed
from whimbrel.saga.parts import EngineParts
from whimbrel.saga.step import Decided, Saga, Step

NEVER = 1e15
"""A due time that is never reached: a run that met a bug stops until an operator retries it."""

HOLD_S = 5.0
"""Pauses up to this long are waited for in memory, longer ones in the journal."""

DEBTS = "debts"
"""The position of a run that has gone back to the top and still owes undos."""

log = structlog.get_logger(__name__)

Why = Literal["refused", "reverted", "asked"]


class Engine:
    """Drives runs. One engine serves any number of runs at once and keeps no state of them."""

    def __init__(self, parts: EngineParts) -> None:
        self.parts = parts
        self.registry = parts.registry
        self.name = parts.name
        self.lease_s = parts.lease_s
        self.wake_conductor = parts.wake_conductor
        self._journal = parts.journal
        self._clock = parts.clock

    # Begin: what a request does before it is answered

    def newest(self, saga: Saga[Facts], oldest: int = 1) -> Saga[Facts]:
        """Return the newest version of a list that all live processes know, so that any of them can drive its runs.

        oldest: the first version that does what is requested. Raises: Conflict: not all processes know such a version.
        """
        chosen = self.registry.newest(saga.name, self.parts.known_to_all(saga.name))
        if chosen is None or chosen.version < oldest or chosen.facts is not saga.facts:
            raise Conflict(
                f"This cloud is being upgraded: not all of its processes know how to {saga.name.replace('_', ' ')} this"
                " yet. `whimbrel upgrade check` shows which to upgrade."
            )
        return chosen

    def check_heeded(self, fact: str) -> None:
        """Raises: Conflict: a live process would drive runs without this fact, which was added to released lists."""
        if not self.parts.heeded_by_all(fact):
            raise Conflict(
                "This cloud is being upgraded: not all of its processes know this request yet, and one that does not"
                " would leave a part of it out. `whimbrel upgrade check` shows which to upgrade."
            )

    def leased(self, run: Run[Facts]) -> Run[Facts]:
        """Return a new run at its entrance, leased to this engine."""
        step, now = self.registry.of(run).entrance(run.facts), self._clock.now()
        return replace(
            run,
            at=step.name,
            status=step.status or "",
            owner=self.name,
            due_at=now + self.lease_s,
            since=now,
            created_at=now,
            updated_at=now,
        )

    async def accept(self, run: Run[Facts], action: Action, *booked: Any, **more: Any) -> Run[Facts]:
        """Save a run as `Journal.accept` does; on Conflict, finish an open run of the subject that is at its last step.

        Raises: as `Journal.accept` does.
        """
        try:
            return await self._journal.accept(run, action, *booked, **more)
        except Conflict:
            under_way = await self._journal.find(RunFilter(subject=run.subject, only_open=True))
            if not all([await self.finish(each) for each in under_way if each.state == "open"]):
                raise
        return await self._journal.accept(run, action, *booked, **more)

    async def begin(self, run: Run[Facts], before: QuotaUsage | None = None) -> Run[Facts]:
        """Take the steps that belong to the request, then hand the run to a conductor. Return it as it is then.

        before: the quota usage of the subject until now.
        Raises: what a step raises; the run is then forgotten, or rolled back if there is something to undo. If the
        answer of a step is unknown, only the first step rolls the run back; after it, and if the run cannot be rolled
        back, a conductor asks again and nothing is raised. Nor is anything raised if another engine has taken the run
        over: the run was accepted, that engine repeats the same step, and its answer counts. A queued run only takes
        the steps before its turn.
        """
        try:
            with renewed(self._journal, self._clock, run, self.lease_s):
                return await self._begin(run, before)
        except Superseded as newer:
            log.info("a run was taken over while its request began it", run=run.id, reason=newer.reason)
            return run

    async def _begin(self, run: Run[Any], before: QuotaUsage | None) -> Run[Any]:
        """Raises: what a step raises, as `begin` states; Superseded: only by the journal."""
        saga = self.registry.of(run)
        entrance = step = saga.step(run.at)
        assert step.in_request, f"{saga.name} has no step for the request at {step.name}"
        while not (run.queued and step.in_turn):
            began = self._clock.now()
            try:
                learned = await step.do(run, self.parts.world)
            except (Refused, NotFound, WrongState) as refusal:
                if step is entrance:
                    await self._journal.forget(run, before)
                else:
                    await self._hand_on_turned(run, step, "refused", began, refusal)
                raise
            except (Unavailable, Conflict) as silence:
                if step is entrance and saga.may_turn_back(step.name):
                    await self._hand_on_turned(run, step, "asked", began, silence)
                    if isinstance(silence, Superseded):
                        raise Conflict(silence.reason) from silence  # it was rolled back, not taken over
                    raise
                await self._hand_on(replace(run, tries=1, message=silence.reason))
                return run
            run = self._advanced(run, saga, step, began, learned)
            step = saga.step(run.at)
            if not step.in_request:
                break
            run = await self._save(run)  # before the next step acts: a rollback undoes what is saved
        if run.queued or not (self.parts.adopt and self.parts.adopt(replace(run, unsaved=1))):
            await self._hand_on(run)
        return run

    async def _hand_on(self, run: Run, *, raised: bool = False) -> None:
        """Save a run for any conductor, and wake one."""
        await self._journal.save(replace(run, owner=None, due_at=0.0), raised=raised)
        self.wake_conductor()

    async def _hand_on_turned(self, run: Run, step: Step, why: Why, began: float, trouble: WorldError) -> None:
        turned = self._turned(run, step, why, began, trouble.reason)
        await self._hand_on(turned, raised=True)

    async def finish(self, run: Run) -> bool:
        """Take the last step of a run that is at it, whatever its owner. Return False if it is elsewhere or that fails.

        The subject may already show the work of that step, so a user may make the next request before the journal
        records the end of this run. Under a new epoch the step only runs once more.
        """
        if run.is_foreign or run.state != "open" or run.way != "forward" or run.problem:
            return False
        saga = self.registry.of(run)
        if saga.following(run.at, run.facts):
            return False
        step, began = saga.step(run.at), self._clock.now()
        mine = replace(run, owner=self.name, epoch=run.epoch + 1)
        try:
            await self._save(mine, raised=True)
            learned = await step.do(mine, self.parts.world)
            await self._save(self._advanced(mine, saga, step, began, learned))
        except Behind as behind:
            await self._hold_all(mine, behind)
            return False
        except Superseded:
            return True  # its owner continued it
        except WorldError:
            with suppress(WorldError):
                await self._hand_on(mine)
            return False
        return True

    async def judge(self, run_id: RunId, verdict: Verdict, status: str, action: Action) -> Run | None:
        """Wake a parked run with a verdict, leased to this engine, and drive it. The caller has seen its lock.

        Return None, and change nothing, if it does not wait for a verdict, or if no conductor is here.
        Raises: Unavailable.
        """
        if self.parts.adopt is None:
            return None
        woken = await self._journal.judge(run_id, action, lambda run: self._woken(run, verdict, status, action))
        if woken is not None and not self.parts.adopt(woken):
            await self._hand_on(woken)
        return woken

    def _woken(self, run: Run, verdict: Verdict, status: str, action: Action) -> Run | None:
        if run.state != "parked" or run.is_foreign:
            return None
        saga, now = self.registry.of(run), self._clock.now()
        woken = replace(
            run,
            state="open",
            verdict=verdict,
            status=status,
            action=action.request_id,
            owner=self.name,
            epoch=run.epoch + 1,
            due_at=now + self.lease_s,
            since=now,
            updated_at=now,
            parked_at=None,
        )
        if verdict == "confirm":
            woken = self._past_idle(self._advanced(woken, saga, saga.step(run.at), now, None), saga)
        return woken

    # Drive: what a conductor does

    async def drive(self, run: Run, *, begun_here: bool = False) -> None:
        """Drive a run until it ends, parks, has to wait long, or is taken over.

        begun_here: this process has just taken the lock of the subject; otherwise the lock is checked first.
        """
        try:
            if not begun_here:
                await self._check_lock(run)
            while run.state == "open" and run.owner == self.name:
                run = await self._step(run)
        except LockLost as lost:
            log.error("a run without its lock is stopped", run=run.id, saga=run.saga, at=run.at, reason=lost.reason)
            await self._stop(run, lost.reason, lost.reason)
        except Behind as behind:
            await self._hold_all(run, behind)
        except Superseded:
            log.info("run was taken over by another conductor", run=run.id, epoch=run.epoch)
        except Unavailable as trouble:
            log.warning("the journal does not answer; the lease will expire", run=run.id, reason=trouble.reason)
        except Exception:
            story = traceback.format_exc()
            log.error("a run is stopped by a bug", run=run.id, saga=run.saga, at=run.at, traceback=story)
            await self._stop(run, story, "stopped by a bug: see problem")

    async def _check_lock(self, run: Run) -> None:
        """Raises: LockLost. If the record cannot be read the run continues: agents and stores check its orders."""
        if self.parts.check_lock and self.registry.of(run).holds_lock(run):
            with suppress(Unavailable):
                await self.parts.check_lock(run)

    async def _hold_all(self, run: Run, behind: Behind) -> None:
        """Hold all runs: effects of this one are missing in the journal, so other runs may be outdated too."""
        log.error(
            "the database is older than what was carried out; all runs are held", run=run.id, reason=behind.reason
        )
        if self.parts.hold:
            try:
                await self.parts.hold(behind.reason)
            except WorldError as trouble:
                log.error("the runs could not be held", reason=trouble.reason)

    async def _step(self, run: Run) -> Run:
        saga = self.registry.of(run)
        if run.at == DEBTS:
            return await self._pay(run, saga)
        step = saga.step(run.at)
        if run.way == "back":
            return await self._back(run, saga, step)
        return await (self._wait(run, saga, step) if step.parks else self._forward(run, saga, step))

    # Forward

    async def _forward(self, run: Run, saga: Saga, step: Step) -> Run:
        began = self._clock.now()
        try:
            if step.shows:
                await self.parts.show(run, step.shows)
            learned = await step.do(run, self.parts.world)
        except Superseded:
            raise
        except (Refused, NotFound, WrongState) as refusal:
            if saga.may_turn_back(step.name) or step.settles:
                why: Why = "asked" if isinstance(refusal, TurnedBack) else "refused"
                turned = self._turned(run, step, why, began, refusal.reason)
                return await self._save(turned, raised=True, evidence=_evidence(step, began, refusal))
            return await self._ask_again(run, saga, step, began, refusal)
        except (Unavailable, Conflict) as silence:
            return await self._ask_again(run, saga, step, began, silence)
        advanced = self._past_idle(self._advanced(run, saga, step, began, learned), saga)
        evidence, usage = _evidence(step, began, learned), learned.usage if isinstance(learned, Decided) else None
        after = saga.step(advanced.at) if advanced.state == "open" else None
        if after and not evidence and not usage:
            if after.parks and run.verdict is None:
                return await self._park(advanced, after)
            if after.passive:
                return _unsaved(run, advanced)
        return await self._save(advanced, evidence=evidence, usage=usage)

    def _advanced(self, run: Run, saga: Saga, step: Step, began: float, learned: Any) -> Run:
        now = self._clock.now()
        decided = learned.facts if isinstance(learned, Decided) else learned
        facts = run.facts if decided is None else decided
        after = saga.following(step.name, facts)
        detail = f"after {run.tries + 1} tries" if run.tries else None
        run = replace(
            run,
            facts=facts,
            log=(*run.log, self._entry(run, step, "do", began, "done", detail)),
            tries=0,
            since=now,
            message=None,
            updated_at=now,
        )
        if after is None:
            return replace(run, state="done", status=saga.done_status, owner=None, finished_at=now)
        return replace(run, at=after.name, status=after.status or run.status)

    def _past_idle(self, run: Run, saga: Saga) -> Run:
        """Advance past the steps that do nothing."""
        while run.state == "open" and (step := saga.step(run.at)).idle:
            run = self._advanced(run, saga, step, self._clock.now(), None)
        return run

    async def _wait(self, run: Run, saga: Saga, step: Step) -> Run:
        now = self._clock.now()
        if run.verdict == "confirm":
            return await self._save(self._past_idle(self._advanced(run, saga, step, run.since, None), saga))
        if run.verdict == "revert":
            return await self._turn(run, step, "reverted", now, None)
        return await self._park(run, step)

    async def _park(self, run: Run, step: Step) -> Run:
        """Save the run at a step that waits, parked; open if the verdict has come meanwhile."""
        now, status = self._clock.now(), step.status or run.status
        parked = replace(run, state="parked", status=status, owner=None, parked_at=now, updated_at=now, unsaved=0)
        return await self._journal.park(parked)

    async def _ask_again(self, run: Run, saga: Saga, step: Step, began: float, trouble: WorldError) -> Run:
        now = self._clock.now()
        if saga.may_turn_back(step.name) and not step.waits and now - run.since > self.parts.step_timeout_s:
            return await self._turn(run, step, "refused", began, f"no answer: {trouble.reason}")
        self._warn(run, trouble.reason)
        return await self._pause(replace(run, tries=run.tries + 1, message=trouble.reason, updated_at=now))

    async def _pause(self, run: Run) -> Run:
        """Wait before the next try, then raise the epoch: the first order must not arrive after all is done."""
        pause = pause_s(run.tries, self.parts.rng)
        run = replace(run, epoch=run.epoch + 1)
        if pause > HOLD_S:
            return await self._save(replace(run, owner=None, due_at=self._clock.now() + pause), raised=True)
        run = await self._save(run, raised=True)
        await self._clock.sleep(pause)
        return run

    def _warn(self, run: Run, reason: str) -> None:
        """Log a run that is tried again: after half a minute, and then whenever its waiting time has doubled."""
        now = self._clock.now()
        if warnings_due(now - run.since) > warnings_due(run.updated_at - run.since):
            waited_s = round(now - run.since)
            log.warning("a run waits", run=run.id, saga=run.saga, at=run.at, waited_s=waited_s, reason=reason)

    # Back

    async def _turn(self, run: Run, step: Step, why: Why, began: float, reason: str | None) -> Run:
        return await self._save(self._turned(run, step, why, began, reason), raised=True)

    def _turned(self, run: Run, step: Step, why: Why, began: float, reason: str | None) -> Run:
        """Return the run rolling back; the step that failed is undone too, because its effect is unknown.

        The epoch rises: an order of this run that is still on its way must not arrive after its undo.
        """
        outcome: Literal["refused", "asked"] = "refused" if why == "refused" else "asked"
        return replace(
            run,
            epoch=run.epoch + 1,
            way="back",
            turned=why,
            tries=0,
            message=reason or run.message,
            log=(*run.log, self._entry(run, step, "do", began, outcome, reason)),
            updated_at=self._clock.now(),
        )

    async def _back(self, run: Run, saga: Saga, step: Step) -> Run:
        if step.again and run.turned == "refused" and not run.debts:
            other = step.again(run.facts) or (step.anew(run) if step.anew else None)
            if other is not None:
                return await self._save(self._forward_again(run, saga, step, other))
        began = self._clock.now()
        trouble = await self._undo(run, step)
        return await self._save(self._risen(run, saga, step, began, trouble), raised=bool(trouble))

    def _forward_again(self, run: Run, saga: Saga, step: Step, facts: Any) -> Run:
        after = saga.following(step.name, facts)
        assert after, "a choice is never the last line"
        now = self._clock.now()
        return replace(
            run, way="forward", turned=None, facts=facts, at=after.name, status=after.status or run.status, since=now
        )

    async def _undo(self, run: Run, step: Step) -> str | None:
        """Undo one step. Return the reason if it cannot be done yet."""
        if step.undo is None:
            return None
        owed = [name for name in (other.__name__ for other in step.after) if name in run.debts]
        if owed:
            return f"waits for the undo of {', '.join(owed)}"
        try:
            await step.undo(run, self.parts.world)
        except Superseded:
            raise
        except WorldError as trouble:
            return trouble.reason
        return None

    def _risen(self, run: Run, saga: Saga, step: Step, began: float, trouble: str | None) -> Run:
        if step.undo:
            entry = self._entry(run, step, "undo", began, "debt" if trouble else "done", trouble)
            run = replace(run, log=(*run.log, entry))
        if trouble:
            run = replace(run, debts=(*run.debts, step.name), epoch=run.epoch + 1)
        now = self._clock.now()
        before = saga.preceding(step.name, run.facts)
        run = replace(run, tries=0, since=now, updated_at=now)
        if before:
            return replace(run, at=before.name)
        return replace(run, at=DEBTS) if run.debts else self._undone(run, saga)

    async def _pay(self, run: Run, saga: Saga) -> Run:
        """Try every debt once, the deepest first, then wait. A run at the top without debts is undone."""
        troubles: list[str] = []
        for name in run.debts:
            began = self._clock.now()
            step = saga.step(name)
            trouble = await self._undo(run, step)
            if trouble:
                troubles.append(f"undo of {name}: {trouble}")
                continue
            paid = tuple(debt for debt in run.debts if debt != name)
            entry = self._entry(run, step, "undo", began, "done", "a debt is paid")
            run = await self._save(replace(run, debts=paid, log=(*run.log, entry), tries=0))  # before the next undo
        message = troubles[0] if troubles else _why_turned(run)  # others may only wait for the first
        if troubles:
            self._warn(run, troubles[0])
        run = replace(run, tries=run.tries + 1, message=message, updated_at=self._clock.now())
        return await (self._pause(run) if run.debts else self._save(self._undone(run, saga)))

    def _undone(self, run: Run, saga: Saga) -> Run:
        message = run.message or (_why_turned(run) if run.turned == "refused" else None)  # a retry clears the message
        status, now = saga.status_undone(run), self._clock.now()
        return replace(run, state="undone", status=status, message=message, owner=None, finished_at=now)

    # Both

    def _entry(
        self,
        run: Run,
        step: Step,
        way: Literal["do", "undo"],
        began: float,
        outcome: Literal["done", "refused", "debt", "asked"],
        detail: str | None,
    ) -> LogEntry:
        entry = LogEntry(
            step=step.name,
            way=way,
            began=began,
            took_s=round(self._clock.now() - began, 6),
            outcome=outcome,
            detail=detail,
            event=step.event if way == "do" else (step.undo_event if run.turned == "reverted" else None),
            action=run.action,
        )
        self.parts.took_step(run, entry)
        return entry

    async def _save(
        self, run: Run, raised: bool = False, evidence: Evidence | None = None, usage: QuotaUsage | None = None
    ) -> Run:
        """Save the run; while this engine owns it, this also extends the lease."""
        if run.owner:  # otherwise the due time that was read would revert a renewal
            run = replace(run, due_at=self._clock.now() + self.lease_s)
        saga = self.registry.of(run)
        run = saga.without_secrets(replace(run, unsaved=0)) if run.is_over else replace(run, unsaved=0)
        await self._journal.save(run, raised, evidence, usage)
        if run.is_over and saga.may_queue:
            self.wake_conductor()  # the next one may be queued
        return run

    async def _stop(self, run: Run, problem: str, message: str) -> None:
        """Stop a run where it is, visibly, until an operator retries it."""
        stopped = replace(run, problem=problem, message=message, owner=None, due_at=NEVER)
        try:
            await self._journal.save(stopped)
        except Superseded:
            log.info("a run was taken over before its stop was recorded", run=run.id, epoch=run.epoch)
        except WorldError as trouble:
            log.error("the problem of a run was not recorded", run=run.id, reason=trouble.reason)


def _unsaved(before: Run, run: Run) -> Run:
    """Return a run that has advanced since `before`, and whose next save is shared."""
    return replace(run, unsaved=before.unsaved + len(run.log) - len(before.log))


def _why_turned(run: Run) -> str | None:
    return next((entry.detail for entry in reversed(run.log) if entry.way == "do"), None)


def _evidence(step: Step, at: float, outcome: Decided | WorldError | Any) -> Evidence | None:
    document = outcome.evidence if isinstance(outcome, (Decided, Refused)) else None
    return None if document is None else Evidence(step=step.name, at=at, document=document)
