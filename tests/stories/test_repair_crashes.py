"""Repairs under every fault: they complete in the end, and nothing else changes."""

from contextlib import suppress
from typing import Any

import pytest

from tests.share import share
from tests.stories import breaking
from tests.stories.breaking import ADOPTED, CUT_OFF, MENDED, SWAP_TARGET, Break, Scene
from tests.stories.choosing import Chooses, chosen, may_come_late, of
from tests.stories.test_proof_sees import its_lock_is_lost
from tests.stories.test_repair_older import OLDER
from tests.stories.test_repair_owners import and_holds_nothing, both_say_another_project
from tools.scenarios.incarnations import Incarnations, sleeping, watched
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Conflict, Invalid, WorldError
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import ConsumerId, HostName, ServerId, Slot
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.moves import requests
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.proof.proof import prove
from whimbrel.proof.violation import Kind
from whimbrel.repair.service import repair, survey
from whimbrel.saga.engine import Engine
from whimbrel.servers.lookup import listing
from whimbrel.sim.checks.invariants import Violation, books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan, changes
from whimbrel.sim.world.equipment import VOLUME

pytestmark = pytest.mark.long

Books = dict[str, Any]

TOLD = (
    "a guest was started twice",
    "a guest of a deleted server runs",
    "everything is held twice",
    "a stranger holds something",
    "the directory lost a row",
    "a port is bound to another host too",
    "a deleted server has a port",
    "a server has a volume that it does not know",
    "a server counts for too much",
)
OF_OWNERS = (
    Break("another project is told where it is read", both_say_another_project,
          frozenset({"columns_differ", "wrong_owner"})),
    Break("a record says another project and holds nothing", and_holds_nothing,
          frozenset({"columns_differ", "missing_claim"})),
    Break("a move that waits has lost its lock", its_lock_is_lost, frozenset({"lost_lock"})),
)  # fmt: skip
BREAKS = (*(one for one in MENDED if one.name in TOLD), *OF_OWNERS, *OLDER, ADOPTED, *CUT_OFF)


async def all_books(world: World) -> Books:
    """Return also what only hands can have wrong: uses, zones, whose all is, and by what lists find it."""
    servers = [one.id for one in await listing(world.cloud, ServerQuery())]
    entries = await world.cloud.directory.entries(servers)
    return {
        **await books(world),
        "miscounts": await world.cloud.placement.miscounts(),
        "columns": await _columns(world),
        "homes": {server: entry.cell for server, entry in entries.items()},
        "projects": {server: entry.project_id for server, entry in entries.items()},
        "zones": {one.root: one.zone for one in await world.cloud.placement.zoned_hosts()},
        "owners": await world.cloud.placement.owners([ConsumerId(server) for server in servers]),
    }


async def _columns(world: World) -> Books:
    servers = await listing(world.cloud, ServerQuery())
    held = [await cell.servers.holds([one.id for one in servers]) for cell in world.cloud.cells.values()]
    return {server: (row.host, row.vm_state) for rows in held for server, row in rows.items()}


class Repairing(Incarnations):
    """Has one break repaired."""

    def __init__(self, broken: Break, *plans: Plan) -> None:
        super().__init__(*plans)
        self._broken = broken
        self.right: Books
        self._wrong: Books

    async def set_the_scene(self) -> None:
        if self._broken.name not in _SCENES:
            _SCENES[self._broken.name] = await _scene(self._broken)
        scene, self.subject, self.right = _SCENES[self._broken.name]
        self.scene = await scene.copy()
        self.server, self.world = scene.rich if self.subject == scene.rich.id else scene.plain, self.scene.world
        self.world.registry = watched(SAGAS, self.world)
        self._wrong = await all_books(self.world)
        assert self._wrong != self.right, "nothing was broken"

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        with suppress(Invalid):  # what came of an earlier try is that nothing is wrong
            await repair(cloud, engine, self.world.requester(), self.subject)
        await self._drive(cloud, engine)

    async def has_begun(self) -> bool:
        return bool(await self.world.cloud.journal.find(RunFilter(sagas=("repair",), only_open=True)))

    async def after_each(self, touch: str) -> None:
        """See that each part of the books is as it was, or right; of records how they are held is seen too."""
        if not changes(touch):
            return
        if self._broken.between:
            self._see_attachments(touch)
        for key, value in (await all_books(self.world)).items():
            is_passed = key in ("records", "claims", "servers", *self._broken.between)
            if not is_passed and value not in (self._wrong[key], self.right[key]):
                raise Violation(f"after {touch} {key} is {value}")

    def _see_attachments(self, touch: str) -> None:
        """See that each volume of the guest is attached by what the guest uses."""
        held = {one.id for one, _ in self.world.remains.volumes.everything()}
        if not held.issuperset(one.attachment_id for one in self._used()):
            raise Violation(f"after {touch} the guest uses a volume that is not attached")

    def _used(self) -> tuple[GuestVolume, ...]:
        key = GuestKey(self.server.id, Slot(self.server.slot or ""))
        return self.world.hypervisors[HostName(self.server.host or "")].volumes_of(key)

    def due(self) -> Books:
        """Return what is right in the end. A host that refuses to end a swap carries it out: so it ends well, too."""
        if not self._broken.between:
            return self.right
        uses = {one.connection["data"]["volume_id"] for one in self._used()}
        return {**self.right, "migrations": {VOLUME: "success" if SWAP_TARGET in uses else "error"}}

    async def end(self) -> None:
        """Repair it again if the repair was rolled back."""
        proof, findings = await survey(self.world.cloud)
        locks = [one.sentence for one in proof.violations if one.kind == Kind.LEAKED_LOCK]
        assert not locks, locks  # no break of these stories is one: a repair that was rolled back has left it
        engine = self.world.engine("at last")
        for one in findings:
            await repair(self.world.cloud, engine, self.world.requester(), ServerId(one.subject))
        await self.world.settle(engine)
        proof = await prove(self.world.cloud)
        assert proof.holds, proof.violations
        assert await all_books(self.world) == self.due()


_SCENES: dict[str, tuple[Scene, ServerId, Books]] = {}


async def _scene(broken: Break) -> tuple[Scene, ServerId, Books]:
    """Break it, and record the result of a repair without faults."""
    scene = await breaking.scene()
    await broken.act(scene)
    _, findings = await survey(scene.world.cloud)
    [subject] = {one.subject for one in findings}
    done = await scene.copy()
    engine = done.world.engine("setup")
    await repair(done.world.cloud, engine, done.world.requester(), ServerId(subject))
    await done.world.settle(engine)
    return scene, ServerId(subject), await all_books(done.world)


async def touches_of(broken: Break) -> list[str]:
    ended = await Repairing(broken).play()
    touches = ended.incarnations[0].touches
    await ended.world.close()
    return touches


async def play(broken: Break, *plans: Plan) -> None:
    try:
        ended = await Repairing(broken, *plans).play()
        assert len(ended.fired) == len(plans), "the fault did not happen"
    except (AssertionError, Violation, WorldError) as error:
        raise AssertionError(f"{broken} with {plans}: {error}") from error
    await ended.world.close()


def named(touches: list[str], chooses: Chooses = lambda _: True) -> list[tuple[int, str]]:
    """Choose touches that change anything, and some that only read, from where the repair is in the journal."""
    begins = touches.index("journal.accept")
    among = [touch for touch in range(begins, len(touches)) if changes(touches[touch]) or touch % 5 == 0]
    return chosen(touches, chooses, among)


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.LOST_ANSWER, Fault.UNANSWERED], ids=lambda one: one.name)
@pytest.mark.parametrize("broken", BREAKS, ids=str)
async def test_every_fault(broken: Break, fault: Fault) -> None:
    for touch, _ in share(named(await touches_of(broken))):
        await play(broken, {touch: fault})


@pytest.mark.parametrize("broken", BREAKS, ids=str)
async def test_every_refusal(broken: Break) -> None:
    for touch, _ in share(named(await touches_of(broken), of("agent", "placement", "network", "volumes"))):
        await play(broken, {touch: Fault.REFUSED})


@pytest.mark.parametrize("broken", BREAKS, ids=str)
async def test_every_order_that_arrives_late(broken: Break) -> None:
    """It is asked again and done; then the first one arrives, and changes nothing."""
    for touch, name in share(named(await touches_of(broken), may_come_late)):
        ended = await Repairing(broken, {touch: Fault.LATE}).play()
        after = await all_books(ended.world)
        [late] = ended.incarnations[0].late
        with suppress(WorldError):
            await late()
        assert await all_books(ended.world) == after, f"{broken}: {name} came late and did harm"
        await ended.world.close()


@pytest.mark.parametrize("broken", BREAKS, ids=str)
async def test_every_sleeper(broken: Break) -> None:
    """Who sleeps in the middle of a repair and wakes when another has done it can do no harm."""
    for touch, _ in share(named(await touches_of(broken))):
        trial = Repairing(broken, {touch: Fault.SLEEP})
        ended = await sleeping(trial)
        assert ended.fired
        assert await all_books(ended.world) == trial.due()
        await ended.world.close()


async def test_a_server_that_is_moving_is_not_repaired() -> None:
    scene = await breaking.scene()
    world: World = scene.world
    await breaking.guest("plain", "h3", runs=False)(scene)
    engine = world.engine("e", adopt=lambda run: True)
    await requests.migrate(world.cloud, engine, world.requester(), scene.plain, HostName("h1"))
    with pytest.raises(Conflict, match="is in progress"):
        await repair(world.cloud, engine, world.requester(), scene.plain.id)
    await world.close()
