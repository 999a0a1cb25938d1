"""A host that has lost its cloud stops its guests, and the cloud counts on that only when it is true."""

import asyncio
from random import Random

import pytest

from tests.depth import one_in
from tests.stories.fenced_host import T, fenced_host, random_rate, simulated
from whimbrel.agent.lease_holder import WATCHED_WITHIN_S
from whimbrel.domain.self_fencing import DRIFT, POLL_S, STOP_S, counted_after_s
from whimbrel.ports.hosts.control_plane import ANSWERED_WITHIN_S, BEAT_S, SHORTEST_LEASE_S
from whimbrel.ports.hosts.leases import Lease

LONG_S = 2 * counted_after_s(T)
"""After this time everything is over."""


@simulated
async def test_a_host_that_is_cut_off_stops_its_guests_and_then_the_cloud_counts_on_it() -> None:
    async with fenced_host() as host:
        assert (await host.row()).self_fence_s == T
        await host.wait(100.0)
        assert host.is_live
        host.wire.is_cut, began = True, host.clock.now()
        await host.wait(T - BEAT_S - ANSWERED_WITHIN_S)
        assert host.is_live, "not before its time"
        await host.wait(BEAT_S + ANSWERED_WITHIN_S + 2 * POLL_S)
        assert not host.is_live
        assert await host.counted_at() is None, "the cloud cannot know it yet"
        await host.wait(LONG_S)
        at = await host.counted_at()
        assert at is not None
        assert T < at - began <= counted_after_s(T)
        [done] = host.leases.fencings()
        assert done.stopped == ["server-1/run-1"]
        assert done.lease
        assert done.lease.session == 1


@pytest.mark.parametrize("end", ["hang", "kill"])
@simulated
async def test_an_agent_that_hangs_or_was_killed_is_fenced(end: str) -> None:
    async with fenced_host() as host:
        host.hang_agent() if end == "hang" else host.kill_agent()
        await host.wait(T + 2 * POLL_S)
        assert not host.is_live
        assert host.process.is_dead, "what it had begun must not go on"
        await host.wait(LONG_S)
        assert await host.counted_at()


@simulated
async def test_a_short_outage_costs_nothing() -> None:
    async with fenced_host() as host:
        for _ in range(5):
            host.wire.is_cut = True
            await host.wait(T - BEAT_S - ANSWERED_WITHIN_S - POLL_S)
            host.wire.is_cut = False
            await host.wait(2 * BEAT_S + ANSWERED_WITHIN_S)
        assert host.is_live
        assert not host.leases.fencings()


@simulated
async def test_one_lost_answer_does_not_end_the_shortest_lease() -> None:
    async with fenced_host() as host:
        host.kill_agent()
        host.self_fence_s = SHORTEST_LEASE_S
        host.start_agent()
        await host.wait(20.0)
        host.wire.loses_answers = True
        await host.wait(BEAT_S + 1)  # one heartbeat is on its way
        host.wire.loses_answers = False
        await host.wait(100.0)
        assert host.is_live
        assert (await host.row()).self_fence_s == SHORTEST_LEASE_S


@simulated
async def test_a_lease_counts_from_when_the_heartbeat_was_sent() -> None:
    async with fenced_host() as host:
        host.wire.takes_s = 4.0
        await host.wait(20.0)
        before = host.leases.lease()
        while (lease := host.leases.lease()) == before:
            await host.clock.sleep(0.1)
        assert isinstance(lease, Lease)
        assert host.boot_clock.now() - lease.sent_at >= 2 * host.wire.takes_s


@simulated
async def test_an_agent_that_starts_again_in_time_renews_the_lease() -> None:
    async with fenced_host() as host:
        host.kill_agent()
        await host.wait(T / 2)
        host.start_agent()
        await host.wait(LONG_S)
        assert host.is_live
        assert (await host.row()).self_fence_s == T


@simulated
async def test_an_agent_that_starts_while_the_guests_are_stopped_is_left_alone() -> None:
    async with fenced_host() as host:
        host.wire.is_cut = True
        host.kill_agent()
        await host.wait(T + 10.0)
        host.start_agent()
        await host.wait(30.0)
        assert not host.process.is_dead, "it obeys nothing before it is registered"
        host.wire.is_cut = False
        await host.wait(40.0)
        await host.boot()
        await host.wait(LONG_S)
        assert host.is_live
        assert await host.counted_at() is None


@simulated
async def test_guests_that_appear_after_that_are_stopped_too() -> None:
    """libvirt carries out what the agent had ordered, when both had hung."""
    async with fenced_host() as host:
        host.hang_agent()
        await host.wait(T + 10.0)
        assert not host.is_live
        [guest] = host.guests.observed()
        await host.guests.start(guest.key)
        await host.clock.sleep(2 * POLL_S)
        assert not host.is_live
        assert [each.stopped for each in host.leases.fencings()] == [["server-1/run-1"]] * 2


@simulated
async def test_a_hypervisor_that_hangs_has_its_guests_killed() -> None:
    async with fenced_host() as host:
        host.hypervisor_hangs = True
        host.kill_agent()
        await host.wait(T + STOP_S)
        assert host.kills
        assert not host.is_live
        assert host.leases.fencings()[0].killed == ["all"]


@simulated
async def test_an_agent_that_cannot_be_killed_keeps_no_guest() -> None:
    """It waits for a disk that hangs: it does nothing, and ends when that answers. Its guests may be on other disks."""
    async with fenced_host() as host:
        host.agent_never_ends = True
        host.hang_agent()
        await host.wait(LONG_S)
        assert not host.is_live
        assert await host.counted_at()


@simulated
async def test_guests_are_killed_if_asking_the_hypervisor_fails_by_a_bug() -> None:
    async with fenced_host() as host:
        host.hypervisor_bug = KeyError("a domain that nobody expected")
        host.kill_agent()
        await host.wait(LONG_S)
        assert host.kills
        assert not host.is_live


@simulated
async def test_a_hypervisor_that_does_not_answer_renews_nothing() -> None:
    """Its heartbeats are not stored either: the cloud counts the time from the last good one."""
    async with fenced_host() as host:
        host.answers = False
        await host.wait(LONG_S)
        assert not host.is_live
        assert (await host.row()).self_fence_s == T
        assert await host.counted_at()


@simulated
async def test_a_host_that_comes_back_with_a_dead_hypervisor_promises_nothing() -> None:
    """Its stored heartbeat is hours old, and its guests may run: the promise would count at once."""
    async with fenced_host() as host:
        await host.wait(LONG_S)
        host.kill_agent()
        await host.wait(T / 2)
        host.answers = False
        host.start_agent()
        await host.wait(LONG_S)
        assert (await host.row()).self_fence_s is None
        assert await host.counted_at() is None


@simulated
async def test_without_a_watchdog_nothing_is_promised() -> None:
    async with fenced_host() as host:
        host.watchdog.is_dead = True
        await host.wait(WATCHED_WITHIN_S + 2 * BEAT_S)
        assert (await host.row()).self_fence_s is None
        host.kill_agent()
        await host.wait(LONG_S)
        assert host.is_live
        assert await host.counted_at() is None
        host.start_agent()
        await host.wait(20.0)
        host.start_watchdog()
        await host.wait(20.0)
        assert (await host.row()).self_fence_s == T
        assert host.is_live, "the lease was renewed before the watchdog came"


@simulated
async def test_an_agent_that_is_stopped_takes_its_promise_back() -> None:
    async with fenced_host() as host:
        host.kill_agent()
        task = host.start_agent()
        await host.wait(20.0)
        task.cancel()
        await asyncio.wait((task,))
        assert host.leases.lease() is None
        await host.wait(LONG_S)
        assert host.is_live
        assert await host.counted_at() is None


@simulated
async def test_an_agent_that_is_stopped_while_cut_off_leaves_its_lease_in_force() -> None:
    async with fenced_host() as host:
        host.kill_agent()
        task = host.start_agent()
        await host.wait(20.0)
        host.wire.is_cut = True
        task.cancel()
        await asyncio.wait((task,))
        await host.wait(LONG_S)
        assert not host.is_live
        assert await host.counted_at()


@simulated
async def test_a_promise_that_is_on_its_way_does_not_outlive_the_lease() -> None:
    """The description with it arrives after the agent has been stopped, and the session has ended by then."""
    async with fenced_host() as host:
        host.kill_agent()
        host.wire.takes_s = 4.0
        task = host.start_agent()
        while host.leases.lease() is None or (await host.row()).session < 2:
            await host.wait(1.0)
        await host.wait(BEAT_S + 3 * host.wire.takes_s + 1.5)  # the description is on its way
        host.wire.takes_s = 0.0
        task.cancel()
        await asyncio.wait((task,))
        await host.wait(LONG_S)
        assert host.is_live
        assert (await host.row()).self_fence_s is None


@pytest.mark.parametrize("self_fence_s", [40.0, 600.0, None])
@simulated
async def test_another_length_holds_from_its_start(self_fence_s: float | None) -> None:
    async with fenced_host() as host:
        host.kill_agent()
        host.self_fence_s = self_fence_s
        host.start_agent()
        await host.wait(30.0)
        assert (await host.row()).self_fence_s == self_fence_s
        host.kill_agent()
        await host.wait(2 * counted_after_s(self_fence_s or T))
        assert host.is_live == (self_fence_s is None)


@simulated
async def test_after_a_reboot_nothing_may_run() -> None:
    async with fenced_host() as host:
        host.kill_agent()
        host.boot_clock.reboot()
        await host.wait(2 * POLL_S)
        assert not host.is_live


@simulated
async def test_a_damaged_lease_is_over() -> None:
    async with fenced_host() as host:
        host.kill_agent()
        host.leases.is_damaged = True
        await host.wait(2 * POLL_S)
        assert not host.is_live
        assert host.leases.fencings()[0].lease is None


@simulated
async def test_a_lease_that_cannot_be_written_ends() -> None:
    """The watchdog cannot say that it lives, either, so that the promise ends as well."""
    async with fenced_host() as host:
        host.leases.is_full = True
        await host.wait(LONG_S)
        assert not host.is_live
        assert (await host.row()).self_fence_s is None


@pytest.mark.parametrize("seed", one_in(4, range(25)))
@simulated
async def test_the_cloud_never_counts_on_a_guest_that_runs(seed: int) -> None:
    """Outages, lost and late messages, hung and killed agents, other settings, clocks that drift: as a seed says."""
    rng = Random(seed)
    async with fenced_host(rng.choice([1 - DRIFT, 1 + DRIFT, random_rate(rng, DRIFT)])) as host:
        host.agent_dies_in_s = STOP_S - POLL_S
        for _ in range(12):
            match rng.choice(["cut", "lose", "slow", "hang", "kill", "libvirt", "length", "calm"]):
                case "cut":
                    host.wire.is_cut = True
                case "lose":
                    host.wire.loses_answers = True
                case "slow":
                    host.wire.takes_s = rng.uniform(0, 12.0)
                case "hang":
                    host.hang_agent()
                case "kill":
                    host.kill_agent()
                case "libvirt":
                    host.answers = False
                case "length":
                    host.self_fence_s = rng.choice([SHORTEST_LEASE_S, T, 200.0])
                    host.kill_agent()
            await host.wait(rng.choice([5.0, 30.0, 70.0, 130.0, 400.0]) * rng.uniform(0.8, 1.2))
            host.wire.is_cut = host.wire.loses_answers = False
            host.wire.takes_s, host.answers = 0.0, True
            if host.agent is None:
                host.kill_agent()
                host.start_agent()
            await host.wait(rng.uniform(0.0, 60.0))
            if host.agent and not host.is_live:
                await host.boot()
        await host.wait(STOP_S)
        if host.agent is None:  # the watchdog had begun to end it when the cloud came back
            host.start_agent()
        await host.wait(60.0)
        host.wire.is_cut = True
        await host.wait(2 * counted_after_s(host.self_fence_s or T))
        assert await host.counted_at()
        assert not host.is_live
