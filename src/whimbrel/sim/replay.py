"""Tells in a simulated cloud what happened to a move in a real one, by its exported journal.

The same list of steps is walked by the same engine; what the journal says that the world answered (no, nothing, an
operator's word, a conductor that gave no sign of life) is answered again at the same steps. From where the real move
stands on, all answers come, so that one sees where it would go.

Laws: hosts, cells, flavors, ports and volumes are those of the move; what a flavor or a port asks of a host is left
out, for it was answered then. A step that the journal does not tell of is never made to fail.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace as with_

from whimbrel.domain.devices import WishedNic, WishedVolume
from whimbrel.domain.errors import Refused, Superseded, Unavailable, WorldError
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName
from whimbrel.domain.run import LogEntry, Run
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.moves.export import Export, hosts_in_order, places_of
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.network import Port
from whimbrel.ports.volumes import Volume
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Book, Decided, Saga, Step
from whimbrel.servers import create, lookup, power
from whimbrel.sim import equipment
from whimbrel.sim.chaos import Crash
from whimbrel.sim.told_journal import ToldJournal
from whimbrel.sim.trace import Line, Trace
from whimbrel.sim.world import IMAGE, PROJECT, World

ENDLESS = 10**6
ROUNDS = 400
WAITS = "waits for the undo of"
NOWHERE = "nobody answered"


class Replayed(NamedTuple):
    told: list[Line]
    stood: str  # where the real one stood
    stands: str  # where the simulated one has come to in the end
    differs: str | None  # where it went another way than the real one
    run: Run | None  # None: it was refused at the door


@dataclass
class Beat:
    """What the world said at one step, once: so many silences, then a no, a word, or nothing special."""

    silences: int = 0
    why: str = NOWHERE
    refusal: str | None = None
    turned: bool = False
    debt: str | None = None


@dataclass
class Script:
    beats: dict[tuple[str, str], list[Beat]] = field(default_factory=dict)
    takeovers: dict[str, int] = field(default_factory=dict)

    def at(self, step: str, way: str) -> list[Beat]:
        return self.beats.setdefault((step, way), [])


def script_of(export: Export) -> Script:
    """Read off the journal what the world said."""
    script, log = Script(), export.log
    for entry in log:
        if beat := _beat(entry):
            script.at(entry.step, entry.way).append(beat)
    if export.run["state"] == "open" and export.run["tries"] and export.run["way"] == "forward":
        beat = Beat(silences=export.run["tries"], why=export.run["message"] or NOWHERE)
        script.at(export.run["at"], "do").append(beat)
    for takeover in export.takeovers:
        step = next((e.step for e in log if e.began + e.took_s >= takeover.at), export.run["at"])
        script.takeovers[step] = script.takeovers.get(step, 0) + 1
    return script


def _beat(entry: LogEntry) -> Beat | None:
    detail = entry.detail or ""
    if entry.way == "undo":
        if entry.outcome == "debt" and detail.startswith(WAITS):
            return None  # that follows from the other debts
        return Beat(debt=detail) if entry.outcome == "debt" else Beat()
    if entry.outcome == "refused":
        if detail.startswith("no answer: "):
            return Beat(silences=ENDLESS, why=detail.removeprefix("no answer: "))
        return Beat(refusal=detail)
    if entry.outcome == "asked":
        return Beat(turned=True)
    tries = detail.removeprefix("after ").removesuffix(" tries")
    return Beat(silences=int(tries) if tries.isdigit() else 0)


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
        await self._set_the_scene()
        began = self._world.cloud.clock.now()
        self._began = began
        run = await self._begin()
        if run is None:
            return self._come_to("the door refused it", None)
        for _ in range(ROUNDS):
            run = await self._world.cloud.journal.get(run.id)
            if run.is_over or (run.state == "parked" and not self._verdict(run)):
                break
            await self._go_on(run)
        run = await self._world.cloud.journal.get(run.id)
        return self._come_to(standing(run), run)

    # The scene

    async def _set_the_scene(self) -> None:
        facts, hosts = self._facts, self._hosts()
        assert facts.source
        assert facts.old_flavor
        rules = Rules(
            allow_resize_to_same_host=facts.same_host,
            max_attempts=len(hosts) + 1,
            cpu_allocation_ratio=100.0,
            patience_s=60.0,
        )
        cells: dict[str, list[str]] = {}
        for name, cell in hosts.items():
            cells.setdefault(cell, []).append(name)
        size = max(facts.old_flavor.memory_mib, facts.new_flavor.memory_mib) * 8
        disk = max(facts.old_flavor.root_gib, facts.new_flavor.root_gib, 1) * 8
        self._world = await World.build(
            cells={cell: tuple(names) for cell, names in cells.items()},
            rules=rules,
            vcpus=64,
            memory_mib=size,
            disk_gib=disk,
            equipped=True,
        )
        await self._add_devices()
        await self._create_server()

    def _hosts(self) -> dict[str, str]:
        """Give all hosts that it had to do with, each with its cell."""
        known = {str(host.name): str(host.cell) for host in self._export.hosts}
        known |= {str(place.host): str(place.cell) for place in places_of(self._facts)}
        source = self._facts.source
        assert source
        return known | {str(name): known.get(str(name), str(source.cell)) for name in self._facts.tried}

    async def _add_devices(self) -> None:
        for port in self._facts.ports:
            self._world.remains.network.add_port(
                Port(id=port.nic.port_id, network_id=equipment.NETWORK, project_id=PROJECT, mac=port.nic.mac)
            )
        for volume in self._facts.volumes:
            made = Volume(id=volume.volume_id, project_id=PROJECT, name="", status="available", size_gib=1, zone="nova")
            self._world.remains.volumes.add_volume(with_(made, is_bootable=volume.boot_index == 0))

    async def _create_server(self) -> None:
        world, facts = self._world, self._facts
        assert facts.source
        assert facts.old_flavor
        made = with_(
            world.new_server(facts.name, _plain(facts.old_flavor)),
            wished_nics=tuple(
                WishedNic(port_id=port.nic.port_id, network_id=equipment.NETWORK) for port in facts.ports
            ),
            wished_volumes=tuple(
                WishedVolume(volume_id=volume.volume_id, boot_index=volume.boot_index, device=volume.device)
                for volume in facts.volumes
            ),
            image_id=IMAGE if facts.image_id else None,
        )
        engine = world.engine("scene")
        await create.accept(world.cloud, engine, world.asker(), [made], facts.source.host)
        await world.settle(engine)
        if facts.was == "stopped":
            await power.stop(world.cloud, engine, world.asker(), await lookup.find(world.cloud, made.id))
            await world.settle(engine)
        self._server = await lookup.find(world.cloud, made.id)

    # The move

    async def _begin(self) -> Run | None:
        world = self._world
        world.book = self._scripted(world.book)
        self._next_conductor()
        cloud, asker, server = self._cloud(), world.asker(), self._server
        try:
            if self._export.run["saga"] == "resize":
                new = _plain(self._facts.new_flavor)
                far = self._facts.leaves_cell
                return await requests.resize(cloud, self._engine, asker, server, new, leaves_cell=far)
            wanted = self._facts.wanted_host
            far = self._facts.leaves_cell
            return await requests.migrate(cloud, self._engine, asker, server, wanted, leaves_cell=far)
        except WorldError as refusal:
            self._tell("user", f"is told: {refusal.reason}")
            return await world.cloud.journal.open_run(server.id)

    async def _go_on(self, run: Run) -> None:
        world = self._world
        if run.state == "parked":
            verdict = self._verdict(run)
            say = requests.confirm if verdict == "confirm" else requests.revert
            await say(self._cloud(), self._engine, world.asker(), await lookup.find(world.cloud, self._server.id))
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
        databases, book = self._world.remains.databases, self._world.book
        journal = ToldJournal(
            databases["global"], book.facts_type, lambda run, what: self._tell(name, f"{run.saga} {what}")
        )
        return replace(self._world.cloud, journal=journal)

    # The script

    def _scripted(self, book: Book) -> Book:
        return Book(*(self._scripted_saga(saga) for saga in book))

    def _scripted_saga(self, saga: Saga) -> Saga:
        if saga.name != self._export.run["saga"]:
            return saga

        def lines(steps: tuple[Step, ...]) -> tuple[Step, ...]:
            return tuple(self._scripted_step(step) for step in steps)

        return replace(saga, undoable=lines(saga.undoable), forward_only=lines(saga.forward_only))

    def _scripted_step(self, step: Step) -> Step:
        async def do(run: Run, cloud: Cloud) -> Any:
            self._maybe_die(step)
            await self._answer(step.name, run)
            learned = await step.do(run, cloud)
            return self._same_choice(learned) if isinstance(learned, Decided) else learned

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
        if left and not step.door:
            self._script.takeovers[step.name] = left - 1
            raise Crash(step.name)

    async def _answer(self, step: str, run: Run) -> None:
        """Answer as the journal says that the world did; without a word of it: as the simulated one does."""
        beats = self._script.at(step, "do")
        if not beats:
            return
        beat = beats[0]
        if beat.silences > 0:
            beat.silences -= 1
            self._tell("world", f"{step}: {beat.why}")
            raise Unavailable(beat.why)
        beats.pop(0)
        if beat.refusal is not None:
            self._tell("world", f"{step}: no: {beat.refusal}")
            raise Refused(beat.refusal)
        if beat.turned:
            self._tell("operator", f"turns it back at {step}")
            await self._world.cloud.journal.turn_back(run, self._world.cloud.clock.now())
            raise Superseded("an operator turned it back")

    def _same_choice(self, decided: Decided) -> Decided:
        """Have it choose the hosts that were chosen then."""
        facts: MoveFacts = decided.facts
        assert facts.target
        places = {place.host: place for place in (facts.target, *facts.alternates)}
        order = [places[name] for name in hosts_in_order(self._facts) if name in places]
        if not order:
            return decided
        target, *others = order
        tried = (HostName(target.host),)
        return Decided(with_(facts, target=target, alternates=tuple(others), tried=tried), decided.evidence)

    # What is told

    def _tell(self, who: str, what: str) -> None:
        if " is taken, " in what:
            return  # by whom it is had already: a replay has one conductor at a time
        self._trace.tell(self._world.cloud.clock.now() - self._began, who, what)

    def _come_to(self, stands: str, run: Run | None) -> Replayed:
        stood = standing(msgspec.convert(self._export.run, Run))
        steps = [(e.step, e.way, e.outcome) for e in self._export.log]
        again = [(e.step, e.way, e.outcome) for e in run.log] if run else []
        return Replayed(self._trace.told, stood, stands, _difference(steps, again), run)


def _difference(then: Sequence[tuple[str, str, str]], now: Sequence[tuple[str, str, str]]) -> str | None:
    """Say where the two went apart; what the simulated one did beyond the real one is no difference."""
    for number, entry in enumerate(then):
        if number >= len(now):
            return f"step {number + 1} was {' '.join(entry)}, and it did not come to that"
        if entry != now[number]:
            return f"step {number + 1} was {' '.join(entry)}, and is {' '.join(now[number])}"
    return None


def standing(run: Run) -> str:
    if run.is_over:
        return f"{run.state}" + (f": {run.message}" if run.message else "")
    way = "" if run.way == "forward" else "on its way back "
    word = "waits for a verdict" if run.state == "parked" else f"{way}at {run.at}"
    if run.problem:
        return f"{word}, where it stands still at a bug: {run.problem.strip().splitlines()[-1]}"
    return word + (f", after {run.tries} tries: {run.message}" if run.tries else "")


def _plain(flavor: Flavor) -> Flavor:
    """Give a flavor without what it asks of a host: that was answered then."""
    name = f"{flavor.name} {flavor.vcpus}x{flavor.memory_mib}x{flavor.root_gib}"
    return with_(flavor, extra_specs={}, flavor_id=f"replayed-{flavor.flavor_id}", name=name)
