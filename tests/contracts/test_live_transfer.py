"""What every hypervisor does in a live transfer: the guest is at exactly one host, with its memory, whatever is
repeated and whatever ends in between.
"""

import asyncio

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, POLL_S, HypervisorPair, new_nic, new_spec
from tests.processes import HANG_S
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.ids import Slot
from whimbrel.domain.live_transfer import GuestCpu, Steering, TransferOptions, TransferProgress, TransferTarget
from whimbrel.ports.hosts.hypervisor import Hypervisor

OPTIONS = TransferOptions()
SLOWLY = TransferOptions(bandwidth_mib_s=1)
STOP_S = 5.0
NO_TIME_S = 0.0


def slot_at_target(spec: GuestSpec) -> GuestSpec:
    return replace(spec, key=GuestKey(spec.key.server, Slot(new_spec().key.slot)))


async def ready(pair: HypervisorPair) -> tuple[GuestSpec, GuestSpec, TransferTarget]:
    """Run a guest on a, and make b wait for it. Return both specs and how a reaches b."""
    here = new_spec()
    await pair.made(pair.a, here)
    await pair.a.start(here.key)
    await pair.seen(pair.a, here.key, boots=1)
    there = slot_at_target(here)
    await pair.b.reserve(there)
    target = await pair.b.receive(there, await pair.a.examine(here.key))
    return here, there, target


async def power(host: Hypervisor, spec: GuestSpec) -> str | None:
    guest = await host.look(spec.key)
    return guest.power if guest else None


async def ended(host: Hypervisor, key: GuestKey, target: TransferTarget) -> TransferProgress:
    """Wait until a transfer is not active any more."""
    async with asyncio.timeout(HANG_S):
        while True:
            progress = await host.transfer_progress(key, target.address)
            if progress.state != "active":
                return progress
            await asyncio.sleep(POLL_S)


@ALSO_REAL
async def test_a_guest_arrives_with_its_memory_and_each_phase_may_be_repeated(pair: HypervisorPair) -> None:
    here, there, target = await ready(pair)
    memory, screen = await pair.memory(pair.a, here.key), await pair.a.connect_console(here.key, "vnc")
    assert await power(pair.b, there) == "incoming"
    assert await pair.b.receive(there, await pair.a.examine(here.key)) == target
    assert await pair.a.transfer_progress(here.key, target.address) == TransferProgress(state="none")
    for _ in "ab":
        await pair.a.start_transfer(here.key, target, OPTIONS)
        progress = await ended(pair.a, here.key, target)
        assert progress.state == "arrived", progress.trouble
        if await power(pair.b, there) == "running":
            break
    for _ in "ab":
        await pair.b.settle_arrival(there.key)
    assert (await power(pair.a, here), await power(pair.b, there)) == ("stopped", "running")
    assert await pair.memory(pair.b, there.key) == memory
    async with asyncio.timeout(HANG_S):
        while await screen.read():  # it ends with the guest at the source
            pass
        assert await (await pair.b.connect_console(there.key, "vnc")).read()
    await pair.a.destroy(here.key)
    assert await power(pair.b, there) == "running"


async def test_a_guest_that_has_left_does_not_start_again(pair: HypervisorPair) -> None:
    here, _, target = await ready(pair)
    await pair.a.start_transfer(here.key, target, OPTIONS)
    assert (await ended(pair.a, here.key, target)).state == "arrived"
    for refused in (pair.a.start(here.key), pair.a.start_transfer(here.key, target, OPTIONS), pair.a.examine(here.key)):
        with pytest.raises(Refused):
            await refused


async def test_a_paused_guest_arrives_paused(pair: HypervisorPair) -> None:
    here, there, target = await ready(pair)
    for _ in "ab":
        await pair.a.pause(here.key)
        assert await power(pair.a, here) == "paused"
    await pair.a.start_transfer(here.key, target, OPTIONS)
    assert (await ended(pair.a, here.key, target)).state == "arrived"
    assert await power(pair.b, there) == "paused"
    for _ in "ab":
        await pair.b.resume(there.key)
        assert await power(pair.b, there) == "running"


async def test_a_paused_guest_is_stopped_and_does_not_count_as_started(pair: HypervisorPair) -> None:
    here, _, _ = await ready(pair)
    await pair.a.pause(here.key)
    with pytest.raises(Refused):
        await pair.a.start(here.key)
    await pair.a.stop(here.key, STOP_S)
    assert await power(pair.a, here) == "stopped"
    for refused in (pair.a.pause(here.key), pair.a.resume(here.key)):
        with pytest.raises(Refused):
            await refused


async def test_an_ended_transfer_leaves_the_guest_where_it_was(pair: HypervisorPair) -> None:
    here, there, target = await ready(pair)
    await pair.a.start_transfer(here.key, target, SLOWLY)
    assert (await pair.a.transfer_progress(here.key, target.address)).state == "active"
    for _ in "ab":
        await pair.a.end_transfer(here.key)
        assert (await pair.a.transfer_progress(here.key, target.address)).state == "none"
    assert await power(pair.a, here) == "running"
    assert await power(pair.b, there) != "running"
    for _ in "ab":
        await pair.b.destroy(there.key)
        assert await power(pair.b, there) is None
    await pair.a.stop(here.key, STOP_S)
    await pair.a.start(here.key)


async def test_a_transfer_to_a_target_that_is_gone_fails(pair: HypervisorPair) -> None:
    here, there, target = await ready(pair)
    await pair.b.destroy(there.key)
    await pair.a.start_transfer(here.key, target, OPTIONS)
    progress = await ended(pair.a, here.key, target)
    assert progress.state == "failed"
    assert progress.trouble
    assert await power(pair.a, here) == "running"


async def test_two_transfers_of_one_guest_exclude_each_other(pair: HypervisorPair) -> None:
    here, _, target = await ready(pair)
    await pair.a.start_transfer(here.key, target, SLOWLY)
    with pytest.raises(Refused):
        await pair.a.start_transfer(here.key, replace(target, address="elsewhere"), SLOWLY)
    await pair.a.end_transfer(here.key)
    assert await power(pair.a, here) == "running"


async def test_a_suspended_guest_runs_when_it_has_arrived(pair: HypervisorPair) -> None:
    here, there, target = await ready(pair)
    await pair.a.start_transfer(here.key, target, SLOWLY)
    for _ in "ab":
        await pair.a.steer_transfer(here.key, Steering(suspend=True))
    await pair.a.steer_transfer(here.key, Steering(bandwidth_mib_s=1000, max_pause_ms=5000))
    assert (await ended(pair.a, here.key, target)).state == "arrived"
    assert await power(pair.b, there) == "running"


async def test_post_copy_needs_leave(pair: HypervisorPair) -> None:
    here, there, target = await ready(pair)
    await pair.a.start_transfer(here.key, target, SLOWLY)
    with pytest.raises(Refused):
        await pair.a.steer_transfer(here.key, Steering(post_copy=True))
    await pair.a.end_transfer(here.key)
    await pair.a.start_transfer(here.key, target, replace(SLOWLY, post_copy=True))
    if not pair.has_post_copy:
        with pytest.raises(Refused):
            await pair.a.steer_transfer(here.key, Steering(post_copy=True))
        return
    await pair.a.steer_transfer(here.key, Steering(post_copy=True))
    assert (await ended(pair.a, here.key, target)).state == "arrived"
    assert await power(pair.b, there) == "running"


async def test_progress_is_counted(pair: HypervisorPair) -> None:
    here, _, target = await ready(pair)
    await pair.a.start_transfer(here.key, target, SLOWLY)
    progress = await pair.a.transfer_progress(here.key, target.address)
    assert progress.memory_total >= progress.memory_remaining >= 0
    await pair.a.end_transfer(here.key)


async def test_a_new_process_finds_the_transfer(pair: HypervisorPair) -> None:
    here, there, target = await ready(pair)
    await pair.a.start_transfer(here.key, target, SLOWLY)
    pair.restart()
    progress = await pair.a.transfer_progress(here.key, target.address)
    assert progress.state == "active"
    await pair.a.steer_transfer(here.key, Steering(bandwidth_mib_s=1000, max_pause_ms=5000))
    assert (await ended(pair.a, here.key, target)).state == "arrived"
    assert (await power(pair.a, here), await power(pair.b, there)) == ("stopped", "running")


@ALSO_REAL
async def test_what_is_not_here_cannot_be_moved(pair: HypervisorPair) -> None:
    spec = new_spec()
    with pytest.raises(NotFound):
        await pair.a.examine(spec.key)
    await pair.a.end_transfer(spec.key)
    await pair.made(pair.a, spec)
    with pytest.raises(Refused):
        await pair.a.examine(spec.key)


async def test_an_incoming_guest_is_neither_defined_nor_started(pair: HypervisorPair) -> None:
    _, there, _ = await ready(pair)
    for refused in (pair.b.define(there), pair.b.start(there.key)):
        with pytest.raises((Refused, NotFound)):
            await refused
    assert await power(pair.b, there) == "incoming"


async def test_the_target_has_the_devices_that_were_asked_for(pair: HypervisorPair) -> None:
    nics, volume = (new_nic(), new_nic()), pair.new_volume()
    here = replace(new_spec(), nics=nics, volumes=(volume,))
    await pair.made(pair.a, here)
    await pair.a.start(here.key)
    nic = replace(nics[0], vif_details={"bridge": "other"})
    there = replace(slot_at_target(here), nics=(nic, nics[1]))
    await pair.b.reserve(there)
    target = await pair.b.receive(there, await pair.a.examine(here.key))
    await pair.a.start_transfer(here.key, target, OPTIONS)
    assert (await ended(pair.a, here.key, target)).state == "arrived"
    await pair.b.settle_arrival(there.key)
    for _ in "ab":
        guest = await pair.b.look(there.key)
        assert guest
        assert (guest.ports, guest.volumes) == (tuple(nic.port_id for nic in nics), (volume.volume_id,))
        await pair.b.stop(there.key, NO_TIME_S)


@ALSO_REAL
async def test_a_host_tells_whether_it_has_a_processor(pair: HypervisorPair) -> None:
    here, _, _ = await ready(pair)
    assert (await pair.b.compare_cpu((await pair.a.examine(here.key)).cpu)).fits
    other = await pair.b.compare_cpu(GuestCpu(arch="no-such-processor"))
    if not other.fits:
        assert other.reason
