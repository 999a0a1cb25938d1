"""What counts as evidence that a guest cannot run, what does not, and what happens to a host that comes back."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tools.scenarios.evacuations import SOURCE, Evacuating, Trial
from whimbrel.adapters.sql.tables.cell import hosts
from whimbrel.domain.errors import Conflict, Unavailable
from whimbrel.domain.evidence import Evidence
from whimbrel.domain.guest import GuestKey, Order
from whimbrel.domain.ids import HostName, RunId, ServerId
from whimbrel.domain.run import Action
from whimbrel.domain.self_fencing import counted_after_s
from whimbrel.moves import requests
from whimbrel.moves.evacuation_facts import Evacuation, EvacuationFacts
from whimbrel.moves.evacuation_requests import evacuate, wake_waiting
from whimbrel.moves.facts import key_at, source_of
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.agent import Agent, Agents
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import prove
from whimbrel.reconcilers.returned_sources import clear_returned_sources
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import delete
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import CELL

DEAD = Evacuating("a dead host")
CUT_OFF = Evacuating("a host that is cut off", death="cut off, has a fence")


class Teller:
    """An evacuation of one server of h1, in parts."""

    def __init__(self, trial: Trial) -> None:
        self.world, self.server = trial.world, trial.server
        self.cloud, self.engine = trial.world.cloud, trial.world.engine("e")
        self.fence = self.world.fences.by_host.get(SOURCE)
        self._invariants = Invariants(self.world)

    async def evacuate(self, rounds: int = 12) -> Evacuation:
        """Ask for it, and drive it; return it."""
        await evacuate(self.cloud, self.engine, self.world.requester(), await lookup.find(self.cloud, self.server.id))
        return await self.go_on(rounds)

    async def go_on(self, rounds: int = 12) -> Evacuation:
        for _ in range(rounds):
            await self.cloud.clock.sleep(40.0)
            for run in await self.cloud.journal.take("e", self.cloud.clock.now(), 3.0, 10):
                await self.engine.drive(run)
        await self._invariants.check()
        return await self.last()

    async def last(self) -> Evacuation:
        [run] = await self.cloud.journal.find(RunFilter(sagas=("evacuate",), limit=1))
        assert isinstance(run.facts, EvacuationFacts)
        return run

    async def force_down(self, forced: bool) -> None:
        hosts = self.cloud.cell(CELL).hosts
        await hosts.set_service(SOURCE, enabled=True, disabled_reason=None, forced_down=forced)
        await wake_waiting(self.cloud, self.engine, SOURCE)

    async def come_back(self) -> int:
        """Let the host come back; return how many guests were cleared there."""
        self.world.simulated.power_on(SOURCE)
        self.world.reconnect(SOURCE)
        await self.force_down(False)
        cleared = await clear_returned_sources(self.cloud, self.engine)
        await self._invariants.check()
        return cleared

    def guests(self) -> list[tuple[str, str]]:
        return sorted((host, guest.power) for host, guest in self.world.simulated.guests())


@asynccontextmanager
async def told(story: Evacuating) -> AsyncIterator[Teller]:
    trial = Trial(story)
    await trial.set_the_scene()
    yield Teller(trial)
    await trial.world.close()


async def test_the_fence_cuts_the_power_and_confirms_it() -> None:
    async with told(CUT_OFF) as story:
        assert story.guests() == [("h1", "running")]
        run = await story.evacuate()
        assert (run.state, story.guests()[0]) == ("done", ("h1", "stopped"))
        now = run.facts.evidence
        assert now == Evidence(kind="power_off", at=now.at if now else 0.0, origin="simulated simulated:h1")


async def test_a_host_that_fences_itself_counts_as_dead_after_the_bound_and_not_before() -> None:
    async with told(CUT_OFF) as story:
        await mute(story)
        lost_at = story.cloud.clock.now()
        async with story.world.remains.databases[f"cell_{CELL}"].write() as tx:
            alone = {"seen_at": lost_at, "self_fence_s": 1000.0, "session": 1}
            await tx.run(sa.update(hosts).where(hosts.c.name == SOURCE).values(alone))
        run = await story.evacuate()
        assert run.message
        assert "it fences itself, which counts in" in run.message
        await story.world.hypervisors[SOURCE].lose_power()  # as its watchdog does
        await story.cloud.clock.sleep(1000.0)
        run = await story.go_on()
        evidence = run.facts.evidence
        assert evidence
        assert (run.state, evidence.kind, evidence.at) == ("done", "self_fenced", lost_at + counted_after_s(1000.0))


async def stuck(story: Teller) -> None:
    assert story.fence
    story.fence.is_stuck = True


async def mute(story: Teller) -> None:
    assert story.fence
    story.fence.unanswered |= {"power_off", "power"}


async def refusing(story: Teller) -> None:
    assert story.fence
    story.fence.refused.add("power_off")


async def half_mute(story: Teller) -> None:
    assert story.fence
    story.fence.unanswered.add("power")


@pytest.mark.parametrize("fails", [stuck, mute, refusing, half_mute], ids=lambda f: f.__name__)
async def test_a_fence_that_does_not_confirm_is_no_evidence(fails: Callable[[Teller], Awaitable[None]]) -> None:
    async with told(CUT_OFF) as story:
        await fails(story)
        run = await story.evacuate()
        assert (run.state, run.at, run.status, run.facts.target) == ("open", "find_evidence", "accepted", None)
        assert run.message
        assert "its fence device simulated simulated:h1 has not confirmed that it is off" in run.message
        assert story.fence
        story.fence.is_stuck = False
        story.fence.unanswered.clear()
        story.fence.refused.clear()
        assert (await story.go_on()).state == "done"


async def test_an_agent_that_sees_the_guest_run_refutes_a_person() -> None:
    async with told(DEAD) as story:
        story.world.reconnect(SOURCE)
        assert story.server.slot
        await story.world.hypervisors[SOURCE].start(GuestKey(story.server.id, story.server.slot))
        run = await story.evacuate()
        assert (run.state, run.facts.evidence) == ("open", None)
        assert run.message
        assert "the host's agent answers and says that it is running" in run.message


async def test_a_host_that_comes_up_while_it_waits_keeps_its_servers() -> None:
    async with told(CUT_OFF) as story:
        await stuck(story)
        await story.evacuate()
        assert await story.come_back() == 0
        run = await story.go_on()
        assert (run.state, run.status, run.turned) == ("undone", "error", "refused")
        assert run.message == "Host h1 is up again: its servers stay there."
        assert story.guests() == [("h1", "running")]
        assert (await lookup.find(story.cloud, story.server.id)).vm_state == "active"


async def test_no_time_out_turns_it_back_and_an_operator_does() -> None:
    async with told(CUT_OFF) as story:
        await mute(story)
        run = await story.evacuate()
        assert run.way == "forward"
        await requests.turn_back(story.cloud, story.engine, run.id)
        assert (await story.go_on()).state == "undone"
        assert (await lookup.find(story.cloud, story.server.id)).task_state is None


async def test_a_delete_turns_it_back_and_waits_for_the_host() -> None:
    async with told(CUT_OFF) as story:
        await mute(story)
        await story.evacuate()
        server = await lookup.find(story.cloud, story.server.id)
        await delete.accept(story.cloud, story.engine, story.world.requester(), server)
        assert (await story.go_on()).state == "undone"


async def test_what_is_left_on_a_returned_host_is_destroyed_once_and_nothing_else() -> None:
    async with told(DEAD) as story:
        run = await story.evacuate()
        assert (run.status, story.guests()) == ("done", [("h1", "stopped"), (run.facts.tried[-1], "running")])
        assert not (await prove(story.cloud)).violations
        assert await story.come_back() == 1
        assert (await story.last()).status == "completed"
        assert story.guests() == [(run.facts.tried[-1], "running")]
        assert await clear_returned_sources(story.cloud, story.engine) == 0


class Asked:
    """Agents that note which hosts they are asked for. stuck: a guest that its agent cannot destroy."""

    def __init__(self, agents: Agents, stuck: GuestKey | None = None) -> None:
        self._agents = agents
        self._stuck = stuck
        self.hosts: list[HostName] = []

    def at(self, host: HostName) -> Agent:
        self.hosts.append(host)
        agent = self._agents.at(host)
        return cast(Agent, _Stuck(agent, self._stuck)) if self._stuck else agent


class _Stuck:
    def __init__(self, agent: Agent, guest: GuestKey) -> None:
        self._agent = agent
        self._guest = guest

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._agent, verb)

    async def destroy(self, order: Order, guest: GuestKey) -> None:
        if guest == self._guest:
            raise Unavailable("its process does not end")
        await self._agent.destroy(order, guest)


async def with_others(story: Teller, run: Evacuation, count: int) -> list[Evacuation]:
    """Add evacuations of further servers of the same host to the journal."""
    others = [
        replace(run, id=RunId(f"other-{number}"), subject=ServerId(f"other-{number}"), action=f"req-{number}")
        for number in range(count)
    ]
    for other in others:
        action = Action(
            server_id=other.subject, request_id=other.action, run_id=other.id, name="evacuate",
            project_id=other.project_id, user_id=other.user_id, started_at=other.created_at,
        )  # fmt: skip
        await story.cloud.journal.accept(other, action)
    return others


def asking(story: Teller, agents: Asked) -> Cloud:
    cell = dataclasses.replace(story.cloud.cell(CELL), agents=agents)
    return dataclasses.replace(story.cloud, cells={CELL: cell})


async def test_a_silent_host_is_asked_once_for_all_that_was_left_there() -> None:
    async with told(CUT_OFF) as story:
        await with_others(story, await story.evacuate(), 5)
        asked = Asked(story.cloud.cell(CELL).agents)
        assert await clear_returned_sources(asking(story, asked), story.engine) == 0
        assert asked.hosts == [SOURCE, SOURCE]  # for a guest, and whether there is anything at all


async def test_a_guest_that_cannot_be_destroyed_keeps_no_other_one() -> None:
    async with told(DEAD) as story:
        others = await with_others(story, await story.evacuate(), 5)
        story.world.simulated.power_on(SOURCE)
        story.world.reconnect(SOURCE)
        stuck = key_at(others[-1], source_of(others[-1]))
        asked = Asked(story.cloud.cell(CELL).agents, stuck)
        assert await clear_returned_sources(asking(story, asked), story.engine) == 5
        assert (await story.cloud.journal.get(others[-1].id)).status == "done"


class Deaf:
    """Agents whose answers to a destruction are lost."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    def at(self, host: HostName) -> Agent:
        return cast(Agent, _Deaf(self._agents.at(host)))


class _Deaf:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._agent, verb)

    async def destroy(self, order: Order, guest: GuestKey) -> None:
        await self._agent.destroy(order, guest)
        raise Unavailable("the answer is lost")


async def test_a_server_that_has_moved_back_meanwhile_keeps_no_other_source_from_being_cleared() -> None:
    """Its host refuses the order of the evacuation, which is older than those of the move."""
    async with told(DEAD) as story:
        run = await story.evacuate()
        story.world.simulated.power_on(SOURCE)
        story.world.reconnect(SOURCE)
        await story.force_down(False)
        cell = dataclasses.replace(story.cloud.cell(CELL), agents=Deaf(story.cloud.cell(CELL).agents))
        deaf = dataclasses.replace(story.cloud, cells={CELL: cell})
        assert await clear_returned_sources(deaf, story.engine) == 0
        server = await lookup.find(story.cloud, story.server.id)
        await requests.migrate(story.cloud, story.engine, story.world.requester(), server, SOURCE)
        await story.go_on()
        before = story.guests()
        assert ("h1", "running") in before
        assert await clear_returned_sources(story.cloud, story.engine) == 1
        assert (await story.cloud.journal.get(run.id)).status == "completed"
        assert story.guests() == before


async def test_the_guest_of_an_evacuation_that_was_undone_is_kept() -> None:
    """Nova destroys it here, and it is the only copy."""
    async with told(DEAD) as story:
        for host in ("h2", "h3"):
            story.world.hypervisors[HostName(host)].refusing |= {"reserve", "create_disk"}
        run = await story.evacuate()
        assert (run.state, run.status) == ("undone", "error")
        assert await story.come_back() == 0
        assert story.guests() == [("h1", "stopped")]


async def test_a_guest_that_waits_to_be_evacuated_again_is_kept() -> None:
    async with told(DEAD) as story:
        first = await story.evacuate()
        assert await story.come_back() == 1
        assert first.facts.target
        await story.world.lose_host(first.facts.target.host)
        hosts = story.cloud.cell(CELL).hosts
        await hosts.set_service(first.facts.target.host, enabled=True, disabled_reason=None, forced_down=True)
        second = await story.evacuate()
        assert (second.state, second.facts.source) == ("done", second.facts.source)
        assert (first.facts.target.host, "stopped") in story.guests()


async def test_another_run_excludes_it() -> None:
    async with told(CUT_OFF) as story:
        await mute(story)
        await story.evacuate()
        with pytest.raises(Conflict):
            await story.evacuate()


async def test_a_host_that_returns_with_its_guest_before_the_start_keeps_it() -> None:
    """The evidence was a person's word, which was wrong: the host was only cut off."""
    async with told(Evacuating("a host that is cut off", death="cut off")) as story:
        for host in ("h2", "h3"):
            story.world.disconnect(HostName(host))  # the evidence is found, and then it waits for its target
        run = await story.evacuate(rounds=1)
        assert (run.at, run.facts.evidence and run.facts.evidence.kind) == ("prepare_target", "administrator")
        await story.come_back()
        for host in ("h2", "h3"):
            story.world.reconnect(HostName(host))
        run = await story.go_on()
        assert story.guests() == [("h1", "running")]
        assert (run.state, run.status, run.turned) == ("undone", "error", "asked")
        assert (await lookup.find(story.cloud, story.server.id)).vm_state == "active"


async def test_what_was_left_on_a_source_is_cleared_after_a_restore_that_another_process_has_made() -> None:
    async with told(DEAD) as story:
        run = await story.evacuate()
        story.world.simulated.power_on(SOURCE)
        story.world.reconnect(SOURCE)
        await story.cloud.restores.begin(2, "a database was restored", story.cloud.clock.now())
        await story.cloud.agent(CELL, SOURCE).adopt(2)
        await story.cloud.restores.end()
        assert await story.come_back() == 1
        assert (await story.cloud.journal.get(run.id)).status == "completed"
