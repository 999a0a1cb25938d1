"""What every hypervisor does when a volume is swapped under a live guest: its data are there, and it goes on."""

import asyncio
import time
import uuid

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, LibvirtPair, SimulatedPair, new_spec, quiet
from tests.contracts.test_hypervisor_devices import NO_TIME_S, ids, looked, on_volume
from tests.processes import HANG_S
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.embedded.tick_guest import ticks
from whimbrel.ports.hosts.hypervisor import Hypervisor


async def seen(pair: HypervisorPair, host: Hypervisor, key: GuestKey, boots: int) -> str:
    """Wait for a boot as `HypervisorPair.seen` does. Volumes of simulated hosts have no contents that mark them."""
    return "" if isinstance(pair, SimulatedPair) else await pair.seen(host, key, boots)


async def booted(pair: HypervisorPair) -> tuple[GuestSpec, GuestVolume, str]:
    """Boot a guest on host a from a volume. Return its spec, the volume, and what marks it."""
    volume = pair.new_volume("/dev/vda", boot_index=0)
    spec = on_volume(new_spec(), volume)
    await pair.made_on_volume(pair.a, spec)
    await pair.a.start(spec.key)
    return spec, volume, await seen(pair, pair.a, spec.key, boots=1)


def another(pair: HypervisorPair) -> GuestVolume:
    """Return a volume as the target of a copy: as large, and with other contents."""
    return pair.new_volume("/dev/vda", boot_index=0)


async def ticking(pair: HypervisorPair, spec: GuestSpec) -> None:
    """Wait until a real guest has written to its disk twice more."""
    if isinstance(pair, SimulatedPair):
        return
    first = ticks(await pair.a.console_log(spec.key, None))[-1].ticks
    deadline = time.monotonic() + HANG_S
    while ticks(await pair.a.console_log(spec.key, None))[-1].ticks < first + 2:
        assert time.monotonic() < deadline, "the guest stands still"
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("state", ["running", "paused"])
async def test_a_live_guest_goes_on_with_the_new_volume(pair: HypervisorPair, state: str) -> None:
    spec, old, mark = await booted(pair)
    new = another(pair)
    if state == "paused":
        await pair.a.pause(spec.key)
    for _ in "ab":
        await pair.a.swap_volume(spec.key, old.volume_id, new, quiet)
        pair.restart()
    guest = await looked(pair.a, spec.key)
    assert (guest.power, guest.volumes) == (state, (old.volume_id,))
    with pytest.raises(Refused, match="new volume"):
        await pair.a.end_volume_swap(spec.key, old.volume_id, new.attachment_id)
    if state == "paused":
        await pair.a.resume(spec.key)
    await ticking(pair, spec)
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark, (
        "the data were copied, and its definition names the copy"
    )
    back = replace(old, attachment_id=str(uuid.uuid4()))
    await pair.a.swap_volume(spec.key, old.volume_id, back, quiet)
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=3) == mark, "what it wrote to the copy was copied back"
    await pair.a.destroy(spec.key)


async def test_what_cannot_be_swapped_is_refused_and_stays(pair: HypervisorPair) -> None:
    spec, old, mark = await booted(pair)
    new = another(pair)
    with pytest.raises(Refused, match="no volume"):
        await pair.a.swap_volume(spec.key, str(uuid.uuid4()), new, quiet)
    with pytest.raises(NotFound):
        await pair.a.swap_volume(new_spec().key, old.volume_id, new, quiet)
    with pytest.raises(Refused, match="no connection"):
        await pair.a.swap_volume(spec.key, old.volume_id, replace(new, connection={}), quiet)
    for _ in "ab":
        await pair.a.end_volume_swap(spec.key, old.volume_id, new.attachment_id)
        await pair.a.end_volume_swap(new_spec().key, old.volume_id, new.attachment_id)
    await pair.a.stop(spec.key, NO_TIME_S)
    with pytest.raises(Refused, match="run"):
        await pair.a.swap_volume(spec.key, old.volume_id, new, quiet)
    guest = await looked(pair.a, spec.key)
    assert (guest.power, guest.volumes) == ("stopped", ids((), (old,))[1])
    await pair.a.start(spec.key)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await pair.a.destroy(spec.key)


@ALSO_REAL
async def test_another_slot_of_the_server_is_not_taken_for_the_one_that_runs(pair: HypervisorPair) -> None:
    spec, old, _ = await booted(pair)
    new = another(pair)
    there = on_volume(new_spec(spec.key.server), replace(old, connection=another(pair).connection))
    await pair.made_on_volume(pair.a, there)
    with pytest.raises((Refused, NotFound)):
        await pair.a.swap_volume(there.key, old.volume_id, new, quiet)
    await pair.a.end_volume_swap(there.key, old.volume_id, new.attachment_id)
    assert (await looked(pair.a, spec.key)).power == "running"
    await pair.a.destroy(there.key)
    await pair.a.destroy(spec.key)


@pytest.mark.long
async def test_a_swap_goes_on_in_another_process(libvirt_pair: LibvirtPair) -> None:
    """The process dies at each poll, before and after the pivot."""
    pair = libvirt_pair
    spec, old, mark = await booted(pair)
    new = another(pair)
    for after in (0, 1, 2):
        copies = pair.a._copies
        for _ in range(after):
            if await copies.carry_on(spec.key, old.volume_id, new, begun=False) is None:
                break
        pair.restart()
        assert (await looked(pair.a, spec.key)).volumes == (old.volume_id,)
    await pair.a.swap_volume(spec.key, old.volume_id, new, quiet)
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await pair.a.destroy(spec.key)


@pytest.mark.long
async def test_an_ended_swap_leaves_the_old_volume(libvirt_pair: LibvirtPair) -> None:
    pair = libvirt_pair
    spec, old, mark = await booted(pair)
    new = another(pair)
    assert await pair.a._copies.carry_on(spec.key, old.volume_id, new, begun=False) is not None
    pair.restart()
    for _ in "ab":
        await pair.a.end_volume_swap(spec.key, old.volume_id, new.attachment_id)
    await ticking(pair, spec)
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await pair.a.destroy(spec.key)


@pytest.mark.long
async def test_a_guest_that_goes_off_after_the_pivot_has_the_new_volume(libvirt_pair: LibvirtPair) -> None:
    pair = libvirt_pair
    spec, old, mark = await booted(pair)
    new = another(pair)
    copies, definition = pair.a._copies, pair.slot_directory("a", spec.key) / "domain.xml"
    before = definition.read_text()
    for _ in range(200):
        await copies.carry_on(spec.key, old.volume_id, new, begun=False)
        disk = await copies._disk(spec.key, old.volume_id)
        if disk.target is None:
            break
        await asyncio.sleep(0.05)
    assert definition.read_text() == before, "the process died before it wrote the definition"
    with pair.hosts.connection("a") as connection:
        connection.lookupByUUIDString(spec.key.server).destroy()
    pair.restart()
    with pytest.raises(Refused, match="new volume"):
        await pair.a.end_volume_swap(spec.key, old.volume_id, new.attachment_id)
    await pair.a.swap_volume(spec.key, old.volume_id, new, quiet)
    await pair.a.start(spec.key)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await pair.a.destroy(spec.key)


async def test_volumes_of_a_share_are_swapped(pair: HypervisorPair) -> None:
    """The host connects them: the old one is disconnected after the swap, the new one when the guest is gone."""
    data = pair.new_share_volume("/dev/vdb")
    spec = replace(new_spec(), volumes=(data,))
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    mark = await seen(pair, pair.a, spec.key, boots=1)
    new = pair.new_share_volume("/dev/vdb")
    await pair.a.swap_volume(spec.key, data.volume_id, new, quiet)
    assert (await looked(pair.a, spec.key)).volumes == (data.volume_id,)
    await pair.a.release_volumes()
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await pair.a.stop(spec.key, NO_TIME_S)
    assert not await pair.mounted(pair.a)
    await pair.a.destroy(spec.key)
