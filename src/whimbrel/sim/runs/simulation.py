"""One run of a story in a simulated cloud: its events happen, then faults stop, and all runs must end.

Invariant: the result of a run depends on its story alone.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from structlog.testing import capture_logs

from whimbrel.domain.ids import ServerId
from whimbrel.domain.maintenance_plan import HOLDING
from whimbrel.domain.run import Run
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.checks import at_rest, maintenances, used_volumes
from whimbrel.sim.checks.event_checks import EventChecks
from whimbrel.sim.checks.failure_kinds import kind_of
from whimbrel.sim.checks.invariants import WAITING, Invariants, Violation
from whimbrel.sim.checks.read_cache import ReadCache
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.cloud.fixture import copy_into, stage
from whimbrel.sim.cloud.processes import RIGHT_CLOCKS, Clocks, Staff
from whimbrel.sim.cloud.users import Users
from whimbrel.sim.cloud.watched_hosts import LOGGED
from whimbrel.sim.faults.fault_state import FaultState, line_of
from whimbrel.sim.faults.planned_events import MAINTENANCE, VOLUME_ACTS, Act, Decision, Story
from whimbrel.sim.record.statistics import Counts
from whimbrel.sim.record.trace import Line, Trace
from whimbrel.sim.runs.database_restores import EXPECTED, Restores
from whimbrel.sim.runs.injection import Faults
from whimbrel.sim.world.loop import Process, Stuck, at_once, new_loop, without_a_wait

ENDS_WITHIN_S = 900.0
"""All moves end within this time after the last fault."""

LOOKS_EVERY_S = 5.0
LOOKS_AT_ALL_S = 5.0
"""Interval of the checks of all servers, in small clouds."""
ROUNDS_S = 20.0
"""Interval of the checks of all servers with open runs."""
OF_NO_INVARIANT = frozenset({"journal.renew", "journal.take_round", "journal.add_action", "journal.note_proof"})
"""Changes that no invariant of every instant reads: leases, lists. Nor does any read images."""
LATE_EFFECTS_S = 310.0
"""How long late effects may remain in the network or volume service."""


class Outcome(NamedTuple):
    story: Story
    failure: str | None
    told: list[Line]
    hash: str
    events: int
    seconds: float  # simulated
    counts: Counts

    @property
    def kind(self) -> str:
        """Return the kind of failure: shrinking must keep it."""
        return kind_of(self.failure)


def _clocks(story: Story) -> Clocks:
    return Clocks(story.seed) if story.size.clocks else RIGHT_CLOCKS


class Violated(BaseException):
    """A check failed. Its text begins with one word and a colon."""


def run(story: Story, change: Callable[[World], None] | None = None) -> Outcome:
    """Run a story. change: changes the world before it begins (plants a bug, for example)."""
    staged, servers = new_loop("stage").run_until_complete(stage(story.size))
    with capture_logs() as logs:
        return _Run(story, staged, servers, logs, change).tell()


class _Run:
    def __init__(
        self, story: Story, staged: World, servers: list[str], logs: Any, change: Callable[[World], None] | None
    ) -> None:
        self._story = story
        self._logs = logs
        self.loop = new_loop(story.order)
        self.trace = Trace()
        self.world = copy_into(self.loop, staged)
        if change:
            change(self.world)
        cache = ReadCache(self.world)
        self._invariants, self._event_checks = Invariants(self.world, cache), EventChecks(self.world, cache)
        has_maintenance = any(one.what == MAINTENANCE for one in story.decisions)
        self._disabled = maintenances.DisabledHosts(self.world) if has_maintenance else None
        self._next_look = 0.0  # of all servers
        self._next_round = 0.0  # of all servers with open runs
        self._stamp: tuple[int, ...] = ()
        self.failure: str | None = None
        self.fault_state = FaultState(story.order)
        self.staff = Staff(self.world, self.loop, self.fault_state, self.trace, self.check, _clocks(story))
        for server in servers:
            self.staff.names.of(server)
        self.users = Users(self.staff, self.trace, list(servers), story.size)
        self.restores = Restores(self.staff, self.users, self.trace, (self._invariants, self._event_checks))
        self.faults = Faults(self.staff, self.trace, self.restores)
        self._busy: set[asyncio.Task[None]] = set()

    def tell(self) -> Outcome:
        try:
            self._tell()
        except Stuck as stuck:
            self.failure = self.failure or f"stuck: {stuck}"
        finally:
            self.loop.close()
        trace = self.trace
        trace.tally.ended(at_once(self.world.cloud.journal.find(RunFilter())))
        counts = trace.tally.counts()
        return Outcome(self._story, self.failure, trace.told, trace.hash, trace.events, self.loop.time(), counts)

    def _tell(self) -> None:
        director = Process("director")
        task = self.loop.spawn(director, self._direct())
        task.add_done_callback(lambda _: self.loop.stop())
        self.loop.run_forever()
        if task.done() and not task.cancelled() and (error := task.exception()):
            self.fail(str(error) if isinstance(error, Violated) else f"{type(error).__name__}: {error}")

    async def _direct(self) -> None:
        for host in self.world.hypervisors:
            await self.staff.start_agent(host)
        self.staff.watched.start()
        self.loop.spawn(Process("heartbeats"), self.staff.beat())
        self.loop.spawn(Process("operator"), self.faults.keep_hosts_on())
        for name in self._story.size.processes:
            self.staff.start(name)
        if any(decision.what in VOLUME_ACTS for decision in self._story.decisions):
            self.loop.spawn(Process("volume service"), self.users.volume_service.assist())
        for decision in self._story.decisions:
            await asyncio.sleep(max(0.0, decision.at - self.loop.time()))
            self._begin(decision)
        await self._calm()
        if self.restores.problem:
            raise Violated(f"restore: {self.restores.problem}")
        if self.restores.left:
            return  # to a person
        await self._end_maintenances()
        if self._story.seed % 3 == 1:
            await self._let_wait()
        await self._end_all()
        await self._rest()

    def _begin(self, decision: Decision) -> None:
        work = self.users.act(decision) if isinstance(decision, Act) else self.faults.happen(decision)
        task = self.loop.spawn(Process("world"), work)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    # The end

    async def _calm(self) -> None:
        """Wait until the open runs have ended, without new faults."""
        while self._busy:
            await asyncio.wait(self._busy)
        self.fault_state.clear()
        self.trace.tell(self.loop.time(), "fault", "nothing goes wrong any more")

    async def _end_maintenances(self) -> None:
        """Wait until maintenances are over; resume those that failures have paused."""
        began = self.loop.time()
        while holding := await self.world.cloud.maintenances.find(HOLDING):
            for one in holding:
                if self.loop.time() - began > ENDS_WITHIN_S:
                    raise Violated(f"unended: maintenance of {one.target} is {one.state}: {one.message or ''}")
                if one.state == "paused":
                    await self.faults.operator.change(one.id, "resume", lambda state: state != "paused")
            await asyncio.sleep(LOOKS_EVERY_S)

    async def _let_wait(self) -> None:
        """Check the runs that wait for a verdict, some time after all others have ended."""
        began = self.loop.time()
        while not all(map(_is_parked, open_runs := await self._open())):
            self._check_time(began, open_runs)
            await asyncio.sleep(LOOKS_EVERY_S)
        if open_runs:
            await asyncio.sleep(LATE_EFFECTS_S)
            if problems := at_once(Invariants(self.world).at_rest(WAITING)):
                raise Violated("rest: before a verdict: " + "; ".join(problems))

    async def _end_all(self) -> None:
        """Wait until no run is open; give verdicts to those that wait for one. Raises: Violated: it takes too long."""
        began = self.loop.time()
        while open_runs := await self._open():
            self._check_time(began, open_runs)
            for number, run in enumerate(filter(_is_parked, open_runs)):
                what = "confirm" if (self._story.seed + number) % 2 else "revert"
                await self._say(what, run.subject)
            await asyncio.sleep(LOOKS_EVERY_S)

    def _check_time(self, began: float, open_runs: list[Any]) -> None:
        """Raises: Violated: they should have ended."""
        if self.loop.time() - began > ENDS_WITHIN_S:
            stands = "; ".join(_state_of(run, self.staff) for run in open_runs)
            raise Violated(f"unended: after {ENDS_WITHIN_S:.0f} s without faults: {stands}")

    async def _say(self, what: str, server: str) -> None:
        body = {"confirm": {"confirmResize": None}, "revert": {"revertResize": None}}[what]
        answer = await self.staff.ask("door1", "POST", f"/servers/{server}/action", body)
        self.trace.tell(self.loop.time(), "user", f"{what} {self.staff.names.of(server)} at the end: {answer.status}")

    async def _open(self) -> list[Any]:
        cloud = self.world.cloud
        runs = await cloud.journal.find(RunFilter(only_open=True))
        return runs or await cloud.directory.wanted_deletes()

    async def _rest(self) -> None:
        await asyncio.sleep(LATE_EFFECTS_S)
        await self._end_all()
        self._next_look = 0.0
        self._stamp = ()
        self.check("the end")
        if problems := at_once(at_rest.problems(self.world, journal_is_whole="global" not in self.restores.which)):
            raise Violated("rest: " + "; ".join(problems))
        given_up = self.users.volume_service.given_up
        known = used_volumes.problems(self.world, given_up, is_restored=bool(self.restores.which))
        if problems := at_once(known):
            raise Violated("rest: " + "; ".join(problems))
        if problems := at_once(maintenances.problems(self.world)):
            raise Violated("maintenance: " + "; ".join(problems))

    # Failures

    def check(self, after: str, about: ServerId | None = None) -> None:
        """Check what an event can have changed. about: the server of the event; None: any."""
        if self.failure or after in OF_NO_INVARIANT or line_of(after) == "images":
            return
        is_whole = not (self.restores.is_on or self.restores.left)
        if is_whole and not self._has_changed(after):
            return
        try:
            if is_whole:
                self._look(after, about)
            else:
                self.restores.check(after)
        except Violation as violation:
            self.fail(_invariant(str(violation)))
        except Exception as error:  # hidden from the code under test
            self.fail(f"check: {after}: {error!r}")
        self._check_for_bugs()

    def _has_changed(self, after: str) -> bool:
        """Return False after a call of a database that changed none, as of the last time."""
        stamp = tuple(database.changes for database in self.world.remains.databases.values())
        is_new, self._stamp = stamp != self._stamp, stamp
        return is_new or line_of(after) not in self._story.size.databases

    def _check_for_bugs(self) -> None:
        if self.loop.troubles:
            self.fail(f"bug: {self.loop.troubles[0]}")
        if self.users.problems:
            self.fail(f"answer-500: {self.users.problems[0]}")
        expected = (*LOGGED, *(EXPECTED if self.restores.which else ()))
        errors = (entry for entry in self._logs if entry["log_level"] in ("error", "critical"))
        bugs = [entry for entry in errors if entry["event"] not in expected]
        if bugs:
            self.fail(f"bug: {msgspec.json.encode(bugs[0], enc_hook=repr).decode()}")

    def _look(self, after: str, about: ServerId | None) -> None:
        """Check the server of the event, and more servers at intervals."""
        now = self.loop.time()
        if self._disabled and line_of(after) == "placement":
            at_once(self._disabled.check(after))
        if now >= self._next_look:
            self._next_look = now + LOOKS_AT_ALL_S * (1 + self._story.size.servers / 5)
            at_once(self._invariants.check(after))
            at_once(self.restores.check_ledgers(after))
        elif about and now < self._next_round:
            without_a_wait(self._event_checks.check_server(about, after))
        else:
            self._next_round = now + ROUNDS_S
            without_a_wait(self._event_checks.check_open_runs(after))

    def fail(self, failure: str) -> None:
        if self.failure is None:
            self.failure = failure
            self.trace.tell(self.loop.time(), "law", failure)
        self.loop.stop()


def _invariant(violation: str) -> str:
    """Return the violation with its invariant in front."""
    after, _, what = violation.partition(": ")
    invariant, _, rest_ = what.partition(":")
    return f"{invariant}: {after}: {rest_.strip()}"


def _is_parked(run: Any) -> bool:
    return isinstance(run, Run) and run.state == "parked"


def _state_of(run: Any, staff: Staff) -> str:
    if isinstance(run, tuple):
        return f"a delete of {staff.names.of(run[0])} waits"
    way = "" if run.way == "forward" else "back "
    said = run.problem or run.message or ""
    return f"{run.saga} of {staff.names.of(run.subject)} is {run.state} {way}at {run.at}: {said}"
