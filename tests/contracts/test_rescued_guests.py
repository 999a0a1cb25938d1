"""The contract of rescued guests for every hypervisor: it boots from a rescue disk, and gets its own back unchanged."""

import asyncio
import time
import uuid

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, LARGE_IMAGE, POLL_S, SMALL_IMAGE, HypervisorPair, new_spec, quiet
from tests.processes import HANG_S
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import Guest, GuestSpec
from whimbrel.domain.rescue_disk import RescueDisk

STOP_S = 0.0
FIRST = RescueDisk(image_id=SMALL_IMAGE)
BESIDE = replace(FIRST, is_stable=True)


@pytest.fixture
async def spec(pair: HypervisorPair) -> GuestSpec:
    """Return a guest that has booted once, and is off."""
    spec = new_spec()
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)
    await pair.a.stop(spec.key, STOP_S)
    return spec


async def seen(pair: HypervisorPair, spec: GuestSpec) -> Guest:
    guest = await pair.a.look(spec.key)
    assert guest
    return guest


async def rescued(pair: HypervisorPair, spec: GuestSpec, disk: RescueDisk) -> None:
    for _ in "ab":
        await pair.a.create_rescue_disk(spec.key, disk, quiet)
        assert (await seen(pair, spec)).rescue == disk
    for _ in "ab":
        await pair.a.enter_rescue(spec.key)
        pair.restart()
    await pair.a.start(spec.key)
    await pair.a.enter_rescue(spec.key)  # late, it changes nothing
    assert (await seen(pair, spec)).in_rescue


async def boots(pair: HypervisorPair, spec: GuestSpec, count: int) -> list[int]:
    """Wait for this many boots; return how many each disk had seen."""
    deadline = time.monotonic() + HANG_S
    while len(found := pair.boots(await pair.a.console_log(spec.key, None))) < count:
        assert time.monotonic() < deadline, f"there are only {found}"
        await asyncio.sleep(POLL_S)
    return [number for number, _ in found]


KINDS = (FIRST, BESIDE, replace(BESIDE, bus="sata", device="cdrom"), replace(BESIDE, bus="usb"))


@pytest.mark.parametrize("disk", KINDS, ids=repr)
async def test_a_guest_gets_its_own_disk_back(pair: HypervisorPair, spec: GuestSpec, disk: RescueDisk) -> None:
    before = await seen(pair, spec)
    await rescued(pair, spec, disk)
    with pytest.raises(Refused):
        await pair.a.leave_rescue(spec.key)
    with pytest.raises(Refused):
        await pair.a.discard_rescue_disk(spec.key)
    if disk.device == "disk":  # the guest of this test writes down its boots
        assert await boots(pair, spec, 2) == [1, 1]
    await pair.a.stop(spec.key, STOP_S)
    for _ in "ab":
        await pair.a.leave_rescue(spec.key)
        pair.restart()
    for _ in "ab":
        await pair.a.discard_rescue_disk(spec.key)
    assert await seen(pair, spec) == before
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=2)  # of its own disk, which has not booted in between


async def test_a_guest_that_runs_is_not_rescued(pair: HypervisorPair, spec: GuestSpec) -> None:
    with pytest.raises(NotFound):
        await pair.a.enter_rescue(spec.key)
    await pair.a.start(spec.key)
    await pair.a.create_rescue_disk(spec.key, FIRST, quiet)
    with pytest.raises(Refused):
        await pair.a.enter_rescue(spec.key)
    await pair.a.leave_rescue(spec.key)  # it is not rescued
    guest = await seen(pair, spec)
    assert (guest.power, guest.in_rescue) == ("running", False)


async def test_another_image_replaces_a_rescue_disk_that_is_not_used(pair: HypervisorPair, spec: GuestSpec) -> None:
    other = replace(FIRST, image_id=LARGE_IMAGE)
    await pair.a.create_rescue_disk(spec.key, other, quiet)
    await rescued(pair, spec, FIRST)
    with pytest.raises(Refused):
        await pair.a.create_rescue_disk(spec.key, other, quiet)


async def test_a_hard_reboot_ends_a_rescue(pair: HypervisorPair, spec: GuestSpec) -> None:
    await rescued(pair, spec, FIRST)
    await pair.a.reboot(spec.key, hard=True)
    assert not (await seen(pair, spec)).in_rescue
    await pair.seen(pair.a, spec.key, boots=2)


@ALSO_REAL
async def test_a_rescued_guest_goes_without_a_trace(pair: HypervisorPair, spec: GuestSpec) -> None:
    await rescued(pair, spec, FIRST)
    await pair.a.destroy(spec.key)
    assert await pair.a.guests() == []


async def test_a_guest_that_is_not_there_leaves_its_rescue(pair: HypervisorPair) -> None:
    key = new_spec(str(uuid.uuid4())).key
    await pair.a.leave_rescue(key)
    await pair.a.discard_rescue_disk(key)
