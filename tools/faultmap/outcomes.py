"""Runs one point of the map and judges its outcome."""

from contextlib import suppress
from dataclasses import dataclass, replace

from tools.faultmap.environment import COPYING, LONG, CloudSnapshot
from tools.faultmap.rows import Marking, Row, rows_of
from tools.faultmap.troubles import AGENTS_RESTART, Strike, Strikes, Trouble, Troubled
from tools.scenarios.incarnations import Result, release_late_effects, sleeping
from tools.scenarios.moves import Story, Trial, expected_after
from whimbrel.domain.errors import WorldError
from whimbrel.domain.run import Run
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.checks.invariants import Invariants, Violation, books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Chaos, Plan, changes

ROUNDS = 15
"""How often conductors look for work while a host is unreachable: one minute in total."""


@dataclass(frozen=True)
class Outcome:
    """word: done, undone, waits, red; +: another conductor did it. why: what it waits for, or what is wrong."""

    word: str
    why: str = ""

    @property
    def is_red(self) -> bool:
        return self.word == "red"


class Unfired(Exception):
    """The fault did not occur, so the point has no outcome."""


class MapTrial(Trial):
    """Runs a story with faults, one plan for each incarnation."""

    def __init__(self, story: Story, *strikes: Strikes, copying: bool = False) -> None:
        super().__init__(story, *({} for _ in strikes))
        self._strikes = strikes
        self._copying = copying
        self.marking = Marking()
        self.snapshot: CloudSnapshot
        self.waits = ""  # what it waited for while a host was unreachable

    async def set_the_scene(self) -> None:
        await super().set_the_scene()
        if self._copying:
            await self._let_copies_take_time()
        self.snapshot = CloudSnapshot(self.world)
        self.world.registry = self.marking.marked(self.world.registry)

    async def _let_copies_take_time(self) -> None:
        registry = self.world.registry
        self.world = World(replace(self.world.plan, times=COPYING), self.world.remains)
        self.world.registry = registry
        for hypervisor in self.world.hypervisors.values():
            await hypervisor.guests()
        self._invariants = Invariants(self.world)

    def chaos(self, plan: Plan) -> Chaos:
        incarnation = len(self.incarnations)
        troubled = Troubled(
            self._strikes[incarnation] if incarnation < len(self._strikes) else {}, self.snapshot, self.after_each
        )
        self.marking.new_life(troubled.touches)
        return troubled

    async def settle(self) -> None:
        if not self.snapshot.gone:
            await super().settle()
            return
        _, _, engine = self._present
        with suppress(AssertionError):  # it waits for the host
            await self.world.settle(engine, ROUNDS)

    async def end(self) -> None:
        await super().end()
        if self.snapshot.gone:
            await self._wait_for_hosts()
            await super().end()

    async def _wait_for_hosts(self) -> None:
        """Record what the run waits for while hosts are unreachable; then restore the hosts, so that it ends."""
        run = await self.run()
        if run is not None and not run.is_over:
            self.waits = _waiting(run)
        self.snapshot.gone.clear()
        await self.settle()

    async def run(self) -> Run | None:
        """Return the move, or None if it was never saved."""
        found = await self.world.cloud.journal.find(
            RunFilter(subject=self.server.id, sagas=("resize", "migrate"), limit=1)
        )
        return found[0] if found else None


def _waiting(run: Run) -> str:
    """Return what a run waits for. Raises: Violation: the run does not report it."""
    if run.state != "open" or run.problem or not run.message or not (run.debts or run.tries):
        raise Violation(f"it is {run.state} at {run.at}, and does not say what it waits for: {run.problem}")
    return f"owes the undo of {', '.join(run.debts)}" if run.debts else f"stands at {run.at}"


# One point


async def play(story: Story, *strikes: Strikes, copying: bool = False) -> tuple[Outcome, MapTrial]:
    """Run a story with faults. copying: disk copies take time, even if none is interrupted. Raises: Unfired."""
    struck = [strike for incarnation in strikes for strike in incarnation.values()]
    trial = MapTrial(story, *strikes, copying=copying or any(cuts_a_copy(strike) for strike in struck))
    sleeps = any(strike.trouble is Trouble.SLEEP for strike in struck)
    try:
        result = await (sleeping(trial) if sleeps else trial.play())
        if len(result.fired) < len(struck):
            raise Unfired(f"only {result.fired} happened")
        if any(chaos.overtaken for chaos in result.incarnations if isinstance(chaos, Troubled)):
            raise Unfired("nothing overtook it")
        if any(strike.trouble is Trouble.REORDERED for strike in struck):
            await release_late_effects(result)  # a delayed request may have arrived after the rollback
        outcome = await _judged(result, trial, story)
    except (Exception, Violation) as error:
        if isinstance(error, Unfired):
            raise
        outcome = Outcome("red", f"{type(error).__name__}: {error}")
    if hasattr(trial, "world"):  # else the fixture failed
        await trial.world.close()
    return outcome, trial


def cuts_a_copy(strike: Strike) -> bool:
    return strike.trouble in AGENTS_RESTART and strike.touch.endswith(LONG)


async def _judged(result: Result, trial: MapTrial, story: Story) -> Outcome:
    if any(chaos.late for chaos in result.incarnations):
        await _deliver(result)
    run, after = await trial.run(), await books(result.world)
    word = _word(run)
    wanted = await expected_after(result, story) if word == "done" and story.end == "confirm" else result.before
    if after != wanted:
        return Outcome("red", "; ".join(f"{k} is {after[k]}, not {wanted[k]}" for k in wanted if after[k] != wanted[k]))
    if trial.waits:
        return Outcome("waits", trial.waits)
    by_another = any(changes(touch) for chaos in result.incarnations[1:] for touch in chaos.touches)
    return Outcome(f"{word}+" if by_another else word)


def _word(run: Run | None) -> str:
    if run is None or (run.state == "undone" and run.turned != "reverted"):
        return "undone"
    assert run.is_over, f"it is {run.state} at {run.at}"
    return "done"


async def _deliver(result: Result) -> None:
    """Deliver late requests, and clean up after them. They must change nothing."""
    before = await books(result.world)
    for chaos in result.incarnations:
        for late in chaos.late:
            with suppress(WorldError):
                await late()
    await release_late_effects(result)
    if await books(result.world) != before:
        raise Violation("what came late did harm")


async def first_result(story: Story) -> tuple[list[Row], list[str]]:
    """Run a story without faults; return its steps and touches. Raises: Violation: it fails."""
    outcome, trial = await play(story, {})
    if outcome.word != "done":
        raise Violation(f"{story} without any trouble: {outcome}")
    [chaos] = trial.incarnations
    return rows_of(chaos.touches, trial.marking.incarnations[0]), chaos.touches
