"""A move, followed by a replacement of databases by older copies: the reaction of the cloud, and its restore.

The copies are made at one touch of the move. Hosts, ports and volumes are unchanged: only databases are replaced.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tools.scenarios.moves import Story, Trial
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof import ledgers
from whimbrel.proof.proof import Proof, prove
from whimbrel.saga.engine import Engine
from whimbrel.sim.checks.invariants import Violation
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Plan
from whimbrel.sim.runs.operator_restore import restore

ROUNDS = 12
"""How often leases expire before the restore begins: long enough for a restored run to do all possible damage."""


@dataclass
class Restored:
    """noticed: why the journal is stale, as detected at the start."""

    world: World
    server: ServerId
    touch: str
    noticed: list[str]
    held_at_once: bool
    stopped_by: str  # why runs were held, or this one stopped, before the restore began; empty: neither
    left: list[str]
    proof: Proof


class Copying(Trial):
    """Runs a move, and copies databases after one of its touches."""

    def __init__(self, story: Story, touch: int, which: Collection[str], *plans: Plan) -> None:
        super().__init__(story, *plans)
        self._touch = touch
        self._which = which
        self.copies: dict[str, SqliteDatabase] = {}
        self.name = ""

    async def after_each(self, touch: str) -> None:
        await super().after_each(touch)
        if not self.copies and sum(len(chaos.touches) for chaos in self.incarnations) > self._touch:
            databases = self.world.remains.databases
            self.copies = {name: databases[name].copy() for name in databases if name.split("_")[0] in self._which}
            self.name = touch


async def play(story: Story, touch: int, which: Collection[str], *, checked: bool = True) -> Restored:
    """Run the move to its end, replace databases by the copies, and restore the cloud.

    which: kinds of databases (global, cell, placement). checked: the start compares the ledgers, as it always does;
    False: it does not, which tests each further line of defence.
    Raises: Violation: a guest was lost, or ran twice.
    """
    trial = Copying(story, touch, which)
    await trial.play()
    assert trial.copies, f"the move has no touch {touch}"
    return await put_back(trial.world, trial.server.id, trial.copies, trial.name, checked=checked)


async def put_back(
    before: World, server: ServerId, copies: Mapping[str, SqliteDatabase], name: str, *, checked: bool = True
) -> Restored:
    """Replace databases of a cloud without processes by these copies, and restore it. name, checked: see `play`."""
    world = _with(before, copies)
    engine = world.engine("restored")
    noticed = await ledgers.check(world.cloud)
    if checked and noticed:
        await world.cloud.restores.hold(noticed[0], world.cloud.clock.now())
    held_at_once = (await world.cloud.restores.state()).hold is not None
    for _ in range(ROUNDS):
        await _drive(world, engine)
        await _see_guest(world, server, f"after a restore to {name}")
    stopped_by = await _why_stopped(world, server)
    left = await restore(world.cloud, engine, world.requester, lambda: _drive_often(world, engine, 3))
    await _drive_often(world, engine, ROUNDS)
    await _see_guest(world, server, f"after the repairs of a restore to {name}")
    proof = await prove(world.cloud)
    return Restored(world, server, name, noticed, held_at_once, stopped_by, left, proof)


def _with(world: World, copies: Mapping[str, SqliteDatabase]) -> World:
    """Return the cloud after a start with these databases."""
    remains = replace(world.remains, databases={**world.remains.databases, **copies})
    restored = World(world.plan, remains)
    restored.simulated.double_runs += world.simulated.double_runs
    return restored


async def _drive(world: World, engine: Engine) -> None:
    clock = world.cloud.clock
    await clock.sleep(engine.lease_s + 1)
    for run in await world.cloud.journal.take(engine.name, clock.now(), engine.lease_s, 1000):
        await engine.drive(run)


async def _drive_often(world: World, engine: Engine, times: int) -> None:
    for _ in range(times):
        await _drive(world, engine)


async def _why_stopped(world: World, server: ServerId) -> str:
    if hold := (await world.cloud.restores.state()).hold:
        return hold.because
    run = await world.cloud.journal.open_run(server)
    return (run.problem if run else None) or ""


async def _see_guest(world: World, server: ServerId, when: str) -> None:
    """Check that the server has a complete guest, and that at most one runs."""
    found = await _guests(world, server)
    running = [host for host, guest in found if guest.power == "running"]
    if len(running) > 1 or world.simulated.double_runs:
        raise Violation(f"{when}: it runs on {', '.join(running)}")
    if not any(guest.has_disk for _, guest in found):
        seen = ", ".join(f"{guest.power} on {host}" for host, guest in found) or "nothing"
        runs = await world.cloud.journal.find(RunFilter(subject=server, limit=1))
        raise Violation(f"{when}: no whole guest is left ({seen}); {[(run.at, run.way, run.message) for run in runs]}")


async def _guests(world: World, server: ServerId) -> list[tuple[HostName, Guest]]:
    found = [(host, guest) for host, hv in world.hypervisors.items() for guest in await hv.guests()]
    return [(host, guest) for host, guest in found if guest.key.server == server]
