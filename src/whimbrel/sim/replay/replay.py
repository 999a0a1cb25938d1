"""Replay an exported move of a real cloud in a simulated cloud.

The same engine runs the same list of steps. Answers that the journal records (a refusal, no answer, an operator's
verdict, a conductor that stopped) are repeated at the same steps. From the real move's current step on, all calls are
answered, which shows how the move would continue.

Invariant: a step without a recorded failure is never made to fail.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace as with_

from whimbrel.domain.errors import Refused, Superseded, TurnedBack, Unavailable, WorldError
from whimbrel.domain.ids import HostName
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import live_requests, requests
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.journal_export import Export, hosts_in_order
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Decided, Saga, SagaRegistry, Step
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.cloud.traced_journal import TracedJournal
from whimbrel.sim.faults.chaos import Crash
from whimbrel.sim.record.trace import Line, Trace
from whimbrel.sim.replay.replayed_cloud import plain, set_scene
from whimbrel.sim.replay.script import script_of

ROUNDS = 400


class Replayed(NamedTuple):
    told: list[Line]
    stood: str  # state of the real move
    stands: str  # final state of the simulated move
    differs: str | None  # where the two differ
    run: Run | None  # None: the API refused the request


class Replay:
    def __init__(self, export: Export) -> None:
        self._export = export
        self._facts: MoveFacts = export.facts
        self._script = script_of(export)
        self._trace = Trace()
        self._conductors = 0
        self._world: World
        self._server: Server
        self._engine: Engine

    async def tell(self) -> Replayed:
        self._world, self._server = await set_scene(self._export)
        began = self._world.cloud.clock.now()
        self._began = began
        run = await self._begin()
        if run is None:
            return self._replayed("the API refused it", None)
        for _ in range(ROUNDS):
            run = await self._world.cloud.journal.get(run.id)
            if run.is_over or (run.state == "parked" and not self._verdict(run)):
                break
            await self._go_on(run)
        run = await self._world.cloud.journal.get(run.id)
        return self._replayed(state_of(run), run)

    # The move

    async def _begin(self) -> Run | None:
        world = self._world
        world.registry = self._scripted(world.registry)
        self._next_conductor()
        cloud, requester, server = self._cloud(), world.requester(), self._server
        try:
            return await self._ask(cloud, requester, server)
        except WorldError as refusal:
            self._tell("user", f"is told: {refusal.reason}")
            return await world.cloud.journal.open_run(server.id)

    async def _ask(self, cloud: Cloud, requester: Requester, server: Server) -> Run:
        """Send the request that was sent in the real cloud."""
        facts = self._facts
        if live := facts.live:
            return await live_requests.migrate_live(
                cloud,
                self._engine,
                requester,
                server,
                facts.wanted_host,
                block_migration=live.block_migration,
                zone=facts.asked_zone,
                leaves_zone=facts.leaves_zone,
                leaves_cell=facts.leaves_cell,
                policy=msgspec.to_builtins(live.policy),
            )
        wanted = requests.Wanted(
            flavor=plain(facts.new_flavor) if self._export.run["saga"] == "resize" else None,
            zone=facts.asked_zone,
            host=facts.wanted_host,
            leaves_zone=facts.leaves_zone,
            leaves_cell=facts.leaves_cell,
        )
        return await requests.move(cloud, self._engine, requester, server, wanted)

    async def _go_on(self, run: Run) -> None:
        world = self._world
        if run.state == "parked":
            verdict = self._verdict(run)
            say = requests.confirm if verdict == "confirm" else requests.revert
            await say(self._cloud(), self._engine, world.requester(), await lookup.find(world.cloud, self._server.id))
        clock = world.cloud.clock
        due = max(run.due_at - clock.now(), 0.0) + 0.001 if run.state == "open" else 0.0
        await clock.sleep(due)
        for taken in await self._cloud().journal.take(self._engine.name, clock.now(), self._engine.lease_s, 10):
            try:
                await self._engine.drive(taken)
            except Crash:
                self._tell(self._engine.name, "gives no sign of life any more")
                self._next_conductor()
                self._tell(self._engine.name, "takes it over when the lease has run out")

    def _verdict(self, run: Run) -> str | None:
        given = self._export.run["verdict"]
        return given if given and not run.verdict else None

    def _next_conductor(self) -> None:
        self._conductors += 1
        name = f"conductor{self._conductors}"
        self._engine = self._world.engine(name, self._cloud(name))

    def _cloud(self, name: str = "user") -> Cloud:
        name = self._engine.name if name == "user" and self._conductors else name
        databases, registry = self._world.remains.databases, self._world.registry
        journal = TracedJournal(databases["global"], registry, lambda run, what: self._tell(name, f"{run.saga} {what}"))
        return replace(self._world.cloud, journal=journal)

    # The script

    def _scripted(self, registry: SagaRegistry) -> SagaRegistry:
        return SagaRegistry(*(self._scripted_saga(saga) for saga in registry))

    def _scripted_saga(self, saga: Saga) -> Saga:
        if saga.name != self._export.run["saga"]:
            return saga

        def lines(steps: tuple[Step, ...]) -> tuple[Step, ...]:
            return tuple(self._scripted_step(step) for step in steps)

        return replace(saga, undoable=lines(saga.undoable), forward_only=lines(saga.forward_only))

    def _scripted_step(self, step: Step) -> Step:
        async def do(run: Run, cloud: Cloud) -> Any:
            self._maybe_die(step)
            await self._answer(step, run)
            learned = await step.do(run, cloud)
            if isinstance(learned, MoveFacts) and step.settles:
                return self._same_switch_over(learned)
            return self._same_choice(learned) if isinstance(learned, Decided) and learned.facts else learned

        do.__name__ = step.name
        return replace(step, do=do, undo=self._scripted_undo(step) if step.undo else None)

    def _scripted_undo(self, step: Step) -> Callable[[Run, Any], Awaitable[Any]]:
        async def undo(run: Run, cloud: Cloud) -> None:
            self._maybe_die(step)
            beats = self._script.at(step.name, "undo")
            if beats and (debt := beats.pop(0).debt):
                self._tell("world", f"undo of {step.name}: {debt}")
                raise Unavailable(debt)
            assert step.undo
            await step.undo(run, cloud)

        return undo

    def _maybe_die(self, step: Step) -> None:
        left = self._script.takeovers.get(step.name, 0)
        if left and not step.in_request:
            self._script.takeovers[step.name] = left - 1
            raise Crash(step.name)

    async def _answer(self, step: Step, run: Run) -> None:
        """Return the answer that the journal records; without one, the simulated answer."""
        beats = self._script.at(step.name, "do")
        if not beats:
            return
        beat = beats[0]
        if beat.silences > 0:
            beat.silences -= 1
            self._tell("world", f"{step.name}: {beat.why}")
            raise Unavailable(beat.why)
        beats.pop(0)
        if beat.refusal is not None:
            self._tell("world", f"{step.name}: no: {beat.refusal}")
            raise Refused(beat.refusal)
        if beat.turned:
            self._tell("operator", f"turns it back at {step.name}")
            if step.settles:
                raise TurnedBack("it was aborted")  # as the step itself does
            await self._world.cloud.journal.turn_back(run, self._world.cloud.clock.now())
            raise Superseded("an operator turned it back")

    def _same_choice(self, decided: Decided) -> Decided:
        """Make it choose the hosts that were chosen in the real cloud."""
        facts = decided.facts
        assert facts
        assert facts.target
        places = {place.host: place for place in (facts.target, *facts.alternates)}
        order = [places[name] for name in hosts_in_order(self._facts) if name in places]
        if not order:
            return decided
        target, *others = order
        tried = (HostName(target.host),)
        return Decided(with_(facts, target=target, alternates=tuple(others), tried=tried), decided.evidence)

    def _same_switch_over(self, facts: MoveFacts) -> MoveFacts:
        """Make it a post-copy if it was one in the real cloud."""
        assert facts.live
        was_post_copy = self._facts.live is not None and self._facts.live.is_post_copy
        return with_(facts, live=with_(facts.live, is_post_copy=was_post_copy))

    # Output

    def _tell(self, who: str, what: str) -> None:
        if " is taken, " in what:
            return  # the owner is already set: a replay has one conductor at a time
        self._trace.tell(self._world.cloud.clock.now() - self._began, who, what)

    def _replayed(self, state: str, run: Run | None) -> Replayed:
        real_state = state_of(msgspec.convert(self._export.run, Run))
        steps = [(e.step, e.way, e.outcome) for e in self._export.log]
        again = [(e.step, e.way, e.outcome) for e in run.log] if run else []
        return Replayed(self._trace.told, real_state, state, _difference(steps, again), run)


def _difference(then: Sequence[tuple[str, str, str]], now: Sequence[tuple[str, str, str]]) -> str | None:
    """Return where the two differ; later steps of the simulated move are no difference."""
    for number, entry in enumerate(then):
        if number >= len(now):
            return f"step {number + 1} was {' '.join(entry)}, and it did not come to that"
        if entry != now[number]:
            return f"step {number + 1} was {' '.join(entry)}, and is {' '.join(now[number])}"
    return None


def state_of(run: Run) -> str:
    if run.is_over:
        return f"{run.state}" + (f": {run.message}" if run.message else "")
    way = "" if run.way == "forward" else "on its way back "
    word = "waits for a verdict" if run.state == "parked" else f"{way}at {run.at}"
    if run.problem:
        return f"{word}, where it stopped at a bug: {run.problem.strip().splitlines()[-1]}"
    return word + (f", after {run.tries} tries: {run.message}" if run.tries else "")
