"""How an agent comes to its cloud, stays there, and leaves when it is replaced."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tests.host_room import H1, Room, boot, order, spec
from whimbrel.adapters.bus.remote_agent import TIMEOUT_S
from whimbrel.agent.presence import DESCRIBE_S, PRUNE_S, PRUNED_AFTER_S, Presence
from whimbrel.domain.errors import Refused, Superseded, Unavailable, WorldError
from whimbrel.domain.host import SERVICE_DOWN_S
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import HostName
from whimbrel.domain.image_grant import ImageAccess
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.control_plane import BEAT_S, AgentHello, Beat, BeatAnswer, ImageGrant, Welcome
from whimbrel.sim.world.loop import LoopClock, new_loop

DESCRIPTION = HostDescription(
    name=H1, zone="nova", driver="simulated", vcpus=8, memory_mib=1024, disk_gib=10, net=HostNet(host=H1)
)


class Control:
    """A control plane in memory. troubles: raised one after the other by the next calls."""

    def __init__(self) -> None:
        self.session = 0
        self.incarnation = 1
        self.described: HostDescription | None = None
        self.beats: list[Beat] = []
        self.troubles: list[WorldError] = []
        self.unanswered = 0  # so many heartbeats get no answer, as those that the bus gives to a stopped process
        self.beaten = asyncio.Event()

    def _may(self) -> None:
        if self.troubles:
            raise self.troubles.pop(0)

    async def register(self, host: HostName, hello: AgentHello) -> Welcome:
        self._may()
        self.session += 1
        self.described = hello.description
        return Welcome(session=self.session, incarnation=self.incarnation)

    async def beat(self, host: HostName, beat: Beat) -> BeatAnswer:
        self._may()
        if self.unanswered:
            self.unanswered -= 1
            await asyncio.sleep(TIMEOUT_S)
            raise Unavailable("no answer")
        self.beats.append(beat)
        self.beaten.set()
        known = self.described and self.described.digest()
        return BeatAnswer(session=self.session, describe=known != beat.digest)

    async def describe(self, host: HostName, session: int, description: HostDescription) -> None:
        self._may()
        self.described = description

    async def image_grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        raise Refused("not here")


class Scene:
    def __init__(self, clock: Clock | None = None) -> None:
        self.room = Room(clock=clock)
        self.control = Control()
        self.description = DESCRIPTION
        self.descriptions = 0
        self.trouble: WorldError | None = None  # of the hypervisor
        self.serving: set[int] = set()
        self.presence = self.new_presence()

    def new_presence(self) -> Presence:
        agent, clock = self.room.agents[H1], self.room.clock
        return Presence(
            agent, self.control, self.describe, self.metrics, self.serve, clock, release="1.0", verbs={"look": ("key",)}
        )

    async def describe(self) -> HostDescription:
        self.descriptions += 1
        return replace(self.description, answers=self.trouble is None)

    async def metrics(self) -> dict[str, float]:
        if self.trouble:
            raise self.trouble
        return {"cpu.percent": 0.5}

    @asynccontextmanager
    async def serve(self, session: int) -> AsyncIterator[None]:
        self.serving.add(session)
        try:
            yield
        finally:
            self.serving.remove(session)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[None]"]:
        """Run the presence, and wait for its first heartbeat."""
        task = asyncio.create_task(self.presence.run())
        beat = asyncio.create_task(self.control.beaten.wait())
        await asyncio.wait((task, beat), return_when=asyncio.FIRST_COMPLETED)
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait((task,))


async def test_an_agent_serves_under_its_session_and_sends_heartbeats() -> None:
    scene = Scene()
    async with scene.running():
        assert scene.serving == {1}
        beat = scene.control.beats[0]
        assert (beat.session, beat.digest, beat.metrics) == (1, DESCRIPTION.digest(), {"cpu.percent": 0.5})
    assert not scene.serving


def test_unanswered_heartbeats_let_no_host_count_as_down() -> None:
    """Of several processes that answer agents one is stopped, and the bus gives it a share of the questions."""
    loop = new_loop(0)

    async def story() -> float:
        scene = Scene(LoopClock(loop, 1_800_000_000.0))
        scene.control.unanswered = 3
        async with scene.running():
            return loop.time()

    assert loop.run_until_complete(story()) < SERVICE_DOWN_S


async def test_an_agent_that_is_replaced_ends() -> None:
    scene = Scene()
    async with scene.running() as task:
        scene.control.session += 1  # another agent of the host has registered
        with pytest.raises(Superseded, match="session 2"):
            await task
    assert not scene.serving


async def test_an_agent_waits_for_its_cloud() -> None:
    scene = Scene()
    scene.control.troubles = [Unavailable("nobody is there")] * 3
    async with scene.running():
        assert scene.serving == {1}


async def test_an_agent_that_is_not_admitted_ends() -> None:
    scene = Scene()
    scene.control.troubles = [Refused("the key of host h1 is retired")]
    with pytest.raises(Refused, match="retired"):
        await scene.presence.run()
    assert not scene.serving


async def test_an_unreachable_cloud_does_not_end_an_agent() -> None:
    scene = Scene()
    scene.control.session = 1
    scene.control.troubles = [Unavailable("no answer"), Refused("a release that does not know beats")]
    await scene.presence.beat(1)
    await scene.presence.beat(1)
    await scene.presence.beat(1)
    assert len(scene.control.beats) == 1


async def test_a_host_that_has_changed_is_described_again() -> None:
    scene = Scene()
    async with scene.running():
        scene.description = replace(DESCRIPTION, memory_mib=2048)
        await scene.room.clock.sleep(DESCRIBE_S)
        await scene.presence.beat(1)
        assert scene.control.described == scene.description


async def test_heartbeats_within_a_minute_have_one_description() -> None:
    scene = Scene()
    scene.control.session = 1
    for _ in range(int(2 * DESCRIBE_S / BEAT_S)):
        await scene.presence.beat(1)
        await scene.room.clock.sleep(BEAT_S)
    assert len({beat.digest for beat in scene.control.beats}) == 1
    assert (scene.descriptions, len(scene.control.beats)) == (2, 24)


async def test_a_hypervisor_that_does_not_answer_is_reported_at_once() -> None:
    scene = Scene()
    scene.control.session = 1
    for trouble in (None, Unavailable("libvirt does not answer"), None):
        scene.trouble = trouble
        await scene.presence.beat(1)
    assert [beat.answers for beat in scene.control.beats] == [True, False, True]


async def test_orders_of_older_incarnations_are_refused_from_the_start() -> None:
    scene = Scene()
    scene.control.incarnation = 3
    async with scene.running():
        with pytest.raises(Superseded, match="incarnation"):
            await scene.room.agents[H1].destroy(replace(order(), incarnation=2), spec().key)


async def test_old_entries_of_the_ledger_are_deleted_now_and_then() -> None:
    scene = Scene()
    await boot(scene.room.agents[H1], spec(), order("old"))
    async with scene.running():
        await scene.room.clock.sleep(PRUNED_AFTER_S + PRUNE_S)
        for _ in range(3):
            scene.control.beaten.clear()
            await scene.control.beaten.wait()
        assert not (await scene.room.agents[H1].ledger()).entries
