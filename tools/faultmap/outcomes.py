"""Runs one point of the map and judges its outcome."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace as struct_with

from tests.stories import attaching
from tests.stories.lifecycle import Lifecycle, Scenario, without_images
from tools.faultmap.environment import COPY_DISK_S, LONG, CloudSnapshot
from tools.faultmap.rows import Marking, Row, rows_of
from tools.faultmap.troubles import AGENTS_RESTART, Strike, Strikes, Trouble, Troubled
from tools.scenarios import evacuations
from tools.scenarios.evacuations import Evacuating
from tools.scenarios.incarnations import Incarnations, Result, release_late_effects, sleeping
from tools.scenarios.moves import Story, Trial, expected_after
from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Run
from whimbrel.moves import evacuation_facts
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.checks.invariants import Invariants, Violation, books
from whimbrel.sim.faults.chaos import Chaos, Plan, changes

Told = Story | Scenario | Evacuating | attaching.Scenario

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


class Mapped(Incarnations):
    """Runs a story or a scenario with faults, one plan for each incarnation."""

    sagas: tuple[str, ...] | None = None  # of the run that was asked for; None: any
    which = -1  # of these runs, from the newest on

    def __init__(self, told: Told, *strikes: Strikes, copying: bool = False) -> None:
        super().__init__(told, *({} for _ in strikes))  # type: ignore[arg-type]  # of the story, or the scenario
        self.told = told
        self._strikes = strikes
        self._copying = copying
        self.marking = Marking()
        self.snapshot: CloudSnapshot
        self.waits = ""  # what it waited for while a host was unreachable
        self._earlier: set[RunId] = set()  # runs of the initial state

    async def set_the_scene(self) -> None:
        await super().set_the_scene()
        runs = await self.world.cloud.journal.find(RunFilter(subject=self.server.id))
        self._earlier = {run.id for run in runs}
        if self._copying:
            await self._let_copies_take_time()
        self.snapshot = CloudSnapshot(self.world)
        self.world.registry = self.marking.marked(self.world.registry)

    async def _let_copies_take_time(self) -> None:
        registry = self.world.registry
        self.world = await self.world.with_times(struct_with(self.world.plan.times, copy_disk_s=COPY_DISK_S))
        self.world.registry = registry
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
        """Return the run that was asked for, or None if it was never saved."""
        found = await self.world.cloud.journal.find(RunFilter(subject=self.server.id, sagas=self.sagas))
        asked = [run for run in found if run.id not in self._earlier]
        return asked[self.which] if asked else None

    async def wanted(self, result: Result, word: str, run: Run | None) -> dict[str, Any]:
        """Return the books with which a run that ended so is right."""
        raise NotImplementedError


class MapTrial(Mapped, Trial):
    """A move."""

    @property
    def which(self) -> int:  # type: ignore[override]
        """A maintenance tries again what was undone."""
        assert isinstance(self.told, Story)
        return 0 if self.told.maintained else -1

    async def end(self) -> None:
        await super().end()
        if isinstance(self.told, Story) and self.told.maintained:
            await self.end_maintenance()

    async def wanted(self, result: Result, word: str, run: Run | None) -> dict[str, Any]:
        assert isinstance(self.told, Story)
        return (
            await expected_after(result, self.told) if word == "done" and self.told.end == "confirm" else result.before
        )


class MapEvacuation(Mapped, evacuations.Trial):
    """An evacuation."""

    sagas = (evacuation_facts.NAME,)

    async def end(self) -> None:
        """Run a round, which follows the power of a server that was not evacuated."""
        await super().end()
        await release_late_effects(Result(self.world, {}, self.server, self.incarnations))

    async def wanted(self, result: Result, word: str, run: Run | None) -> dict[str, Any]:
        assert isinstance(self.told, Evacuating)
        if word == "done":
            return await evacuations.expected_after(result, self.told)
        return await evacuations.expected_unless_evacuated(result)


class MapLifecycle(Mapped, Lifecycle):
    """Something else in the life of a server."""

    async def wanted(self, result: Result, word: str, run: Run | None) -> dict[str, Any]:
        assert isinstance(self.told, Scenario)
        if word == "done":
            return without_images(await self.told.meant(result))
        if self.told.refused and run and run.turned == "refused":
            return without_images(await self.told.refused(result))
        return without_images(result.before)


class MapOperation(Mapped, attaching.Operation):
    """An operation on a server's devices."""

    async def wanted(self, result: Result, word: str, run: Run | None) -> dict[str, Any]:
        assert isinstance(self.told, attaching.Scenario)
        return self.told.meant(result, run) if run else result.before


def _waiting(run: Run) -> str:
    """Return what a run waits for. Raises: Violation: the run does not report it."""
    if run.state != "open" or run.problem or not run.message or not (run.debts or run.tries):
        raise Violation(f"it is {run.state} at {run.at}, and does not say what it waits for: {run.problem}")
    return f"owes the undo of {', '.join(run.debts)}" if run.debts else f"stands at {run.at}"


# One point


async def play(told: Told, *strikes: Strikes, copying: bool = False) -> tuple[Outcome, Mapped]:
    """Run a story or a scenario with faults.

    copying: disk copies take time, even if none is interrupted. Raises: Unfired.
    """
    struck = [strike for incarnation in strikes for strike in incarnation.values()]
    kind = _KINDS[type(told)]
    trial = kind(told, *strikes, copying=copying or any(cuts_a_copy(strike) for strike in struck))
    sleeps = any(strike.trouble is Trouble.SLEEP for strike in struck)
    try:
        result = await (sleeping(trial) if sleeps else trial.play())
        if len(result.fired) < len(struck):
            raise Unfired(f"only {result.fired} happened")
        if any(chaos.overtaken for chaos in result.incarnations if isinstance(chaos, Troubled)):
            raise Unfired("nothing overtook it")
        if any(strike.trouble is Trouble.REORDERED for strike in struck):
            await release_late_effects(result)  # a delayed request may have arrived after the rollback
        outcome = await _judged(result, trial)
    except (Exception, Violation) as error:
        if isinstance(error, Unfired):
            raise
        outcome = Outcome("red", f"{type(error).__name__}: {error}")
    if hasattr(trial, "world"):  # else the fixture failed
        await trial.world.close()
    return outcome, trial


_KINDS: dict[type[Told], type[Mapped]] = {
    Story: MapTrial,
    Evacuating: MapEvacuation,
    Scenario: MapLifecycle,
    attaching.Scenario: MapOperation,
}


def cuts_a_copy(strike: Strike) -> bool:
    return strike.trouble in AGENTS_RESTART and strike.touch.endswith(LONG)


async def _judged(result: Result, trial: Mapped) -> Outcome:
    if any(chaos.late for chaos in result.incarnations):
        await _deliver(result)
    run, after = await trial.run(), await books(result.world)
    word = _word(run, trial.told)
    wanted = await trial.wanted(result, word, run)
    if differs := [f"{key} is {after[key]}, not {wanted[key]}" for key in wanted if after[key] != wanted[key]]:
        return Outcome("red", "; ".join(differs))
    if trial.waits:
        return Outcome("waits", trial.waits)
    by_another = any(changes(touch) for chaos in result.incarnations[1:] for touch in chaos.touches)
    return Outcome(f"{word}+" if by_another else word)


def _word(run: Run | None, told: Told) -> str:
    if run is not None and run.status == "cancelled" and isinstance(told, Story) and told.end != "confirm":
        return "done"  # a live migration, aborted by its policy as the story says
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


async def first_result(told: Told, copying: bool = False) -> tuple[list[Row], list[str]]:
    """Run it without faults; return its steps and touches. copying: disk copies take time.

    Raises: Violation: it fails.
    """
    outcome, trial = await play(told, {}, copying=copying)
    is_refused = isinstance(told, Scenario) and told.refused is not None and outcome.word == "undone"
    if outcome.word != "done" and not is_refused:
        raise Violation(f"{told} without any trouble: {outcome}")
    [chaos] = trial.incarnations
    return rows_of(chaos.touches, trial.marking.incarnations[0]), chaos.touches
