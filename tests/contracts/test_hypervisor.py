"""What every hypervisor does: small phases that may be repeated, undone though they never were, and taken up again."""

import uuid

import msgspec
import pytest

from tests.contracts.hypervisors import ALSO_REAL, LARGE_IMAGE, SMALL_IMAGE, HypervisorPair, new_spec, quiet
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.guest import DiskExport, Guest, GuestKey, GuestSpec
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice
from whimbrel.ports.hosts.hypervisor import Hypervisor

NO_TIME_S = 0.0
ENOUGH_TIME_S = 30.0


async def running(pair: HypervisorPair, host: Hypervisor, spec: GuestSpec) -> None:
    await pair.made(host, spec)
    await host.start(spec.key)


async def carried(source: Hypervisor, key: GuestKey, target: Hypervisor, spec: GuestSpec) -> None:
    """Create a stopped guest's disk on `target` too, and a guest defined with it."""
    export = await source.export_disk(key)
    await target.reserve(spec)
    await target.import_disk(spec, export, quiet)
    await source.unexport_disk(key)
    await target.define(spec)


async def power(host: Hypervisor, key: GuestKey) -> str | None:
    guest = await host.look(key)
    return guest.power if guest else None


async def snapshot(host: Hypervisor, key: GuestKey, percents: list[int]) -> bytes:
    return b"".join([chunk async for chunk in host.read_snapshot(key, percents.append)])


@ALSO_REAL
async def test_a_guest_is_made_phase_by_phase_and_each_may_be_repeated(pair: HypervisorPair) -> None:
    host, spec = pair.a, new_spec()
    expected = Guest(key=spec.key, power="reserved", vcpus=1, memory_mib=32, root_gib=1, has_disk=False)
    assert await host.look(spec.key) is None
    assert await host.guests() == []
    for _ in "ab":
        await host.reserve(spec)
        assert await host.guests() == [expected]
    for _ in "ab":
        await host.create_disk(spec, quiet)
        assert await host.look(spec.key) == msgspec.structs.replace(expected, has_disk=True, disks=("root",))
    for _ in "ab":
        await host.define(spec)
        assert await host.look(spec.key) == msgspec.structs.replace(
            expected, has_disk=True, disks=("root",), power="stopped"
        )
    for _ in "ab":
        await host.start(spec.key)
        assert await host.guests() == [
            msgspec.structs.replace(expected, has_disk=True, disks=("root",), power="running")
        ]
    await pair.seen(host, spec.key, boots=1)
    for _ in "ab":
        await host.stop(spec.key, ENOUGH_TIME_S)
        assert await host.guests() == [
            msgspec.structs.replace(expected, has_disk=True, disks=("root",), power="stopped")
        ]
    for _ in "ab":
        await host.destroy(spec.key)
        assert await host.guests() == []
    assert await host.look(spec.key) is None


@ALSO_REAL
async def test_it_tells_its_load_and_uptime(pair: HypervisorPair) -> None:
    for _ in "ab":  # the first answer may have no shares
        told = await pair.a.metrics()
    assert all(name.startswith("cpu.") for name in told)
    assert 0.0 <= told.get("cpu.percent", 0.0) <= 1.0
    assert "load average" in await pair.a.uptime()


@ALSO_REAL
async def test_it_lists_its_network_cards_and_pci_devices(pair: HypervisorPair) -> None:
    expected = pair.hardware()
    nics, devices = await pair.a.nics(["no-such-nic"]), await pair.a.pci_devices()
    assert tuple(FoundNic(name=nic.name, mac=nic.mac, mtu=nic.mtu) for nic in nics) == expected.nics
    assert expected.pci == tuple(
        FoundPciDevice(address=one.address, vendor_id=one.vendor_id, product_id=one.product_id, driver=one.driver)
        for one in devices
    )


@ALSO_REAL
async def test_a_guest_larger_than_the_host_is_refused(pair: HypervisorPair) -> None:
    room = await pair.a.capacity()
    for too_much in ({"memory_mib": room.memory_mib + 1}, {"root_gib": room.disk_gib + 1}):
        spec = msgspec.structs.replace(new_spec(), **too_much)
        with pytest.raises(Refused):
            await pair.a.reserve(spec)
        assert await pair.a.look(spec.key) is None


@ALSO_REAL
async def test_phases_that_build_on_one_that_is_missing_find_nothing(pair: HypervisorPair) -> None:
    host, spec = pair.a, new_spec()
    with pytest.raises(NotFound):
        await host.create_disk(spec, quiet)
    for verb in (host.export_disk(spec.key), host.start(spec.key), host.reboot(spec.key, hard=True)):
        with pytest.raises(NotFound):
            await verb
    with pytest.raises(NotFound):
        await host.console_log(spec.key, None)
    await host.reserve(spec)
    with pytest.raises(NotFound):
        await host.define(spec)
    with pytest.raises(NotFound):
        await host.export_disk(spec.key)
    with pytest.raises(NotFound):
        await snapshot(host, spec.key, [])
    await host.create_disk(spec, quiet)
    with pytest.raises(NotFound):
        await host.start(spec.key)
    with pytest.raises(NotFound):
        await host.reboot(spec.key, hard=False)
    assert await power(host, spec.key) == "reserved"


@ALSO_REAL
async def test_undoing_what_never_was_is_fine(pair: HypervisorPair) -> None:
    key = new_spec().key
    for _ in "ab":
        await pair.a.unexport_disk(key)
        await pair.a.discard_disk(key)
        await pair.a.stop(key, NO_TIME_S)
        await pair.a.destroy(key)
    assert await pair.a.guests() == []


@ALSO_REAL
async def test_a_guest_boots_from_its_own_disk_each_time(pair: HypervisorPair) -> None:
    host, spec = pair.a, new_spec()
    await running(pair, host, spec)
    mark = await pair.seen(host, spec.key, boots=1)
    await host.start(spec.key)
    await host.reboot(spec.key, hard=False)
    assert await pair.seen(host, spec.key, boots=2) == mark
    await host.reboot(spec.key, hard=True)
    assert await pair.seen(host, spec.key, boots=3) == mark
    await host.stop(spec.key, NO_TIME_S)
    with pytest.raises(Refused):
        await host.reboot(spec.key, hard=False)
    assert await power(host, spec.key) == "stopped"
    await host.reboot(spec.key, hard=True)
    assert await power(host, spec.key) == "running"
    assert await pair.seen(host, spec.key, boots=4) == mark


async def test_the_console_gives_its_last_lines(pair: HypervisorPair) -> None:
    host, spec = pair.a, new_spec()
    await pair.made(host, spec)
    assert await host.console_log(spec.key, None) == ""
    await host.start(spec.key)
    await pair.seen(host, spec.key, boots=1)
    await host.reboot(spec.key, hard=True)
    await pair.seen(host, spec.key, boots=2)
    await host.stop(spec.key, NO_TIME_S)
    lines = (await host.console_log(spec.key, None)).splitlines(keepends=True)
    assert len(lines) >= 2
    assert await host.console_log(spec.key, 1) == lines[-1]
    assert await host.console_log(spec.key, 0) == ""
    assert await host.console_log(spec.key, 10_000) == "".join(lines)


async def test_a_running_guest_keeps_its_disk_to_itself(pair: HypervisorPair) -> None:
    host, spec = pair.a, new_spec()
    await running(pair, host, spec)
    with pytest.raises(Refused):
        await host.export_disk(spec.key)
    with pytest.raises(Refused):
        await host.discard_disk(spec.key)
    assert await power(host, spec.key) == "running"
    await pair.seen(host, spec.key, boots=1)


async def test_a_disk_is_carried_whole_and_grows(pair: HypervisorPair) -> None:
    old = new_spec()
    new = new_spec(old.key.server, root_gib=2)
    await running(pair, pair.a, old)
    mark = await pair.seen(pair.a, old.key, boots=1)
    await pair.a.stop(old.key, NO_TIME_S)
    await carried(pair.a, old.key, pair.b, new)
    await carried(pair.a, old.key, pair.b, new)
    assert (await pair.b.export_disk(new.key)).size_bytes == 2 << 30
    await pair.b.start(new.key)
    assert await pair.seen(pair.b, new.key, boots=2) == mark
    await pair.b.stop(new.key, NO_TIME_S)
    await pair.a.start(old.key)
    assert await pair.seen(pair.a, old.key, boots=2) == mark, "the source's disk is as it was"


async def test_a_disk_goes_by_the_image_service_to_a_host_that_knows_nothing_of_the_other(pair: HypervisorPair) -> None:
    old, image = new_spec(), str(uuid.uuid4())
    new = new_spec(old.key.server, root_gib=2)
    await running(pair, pair.a, old)
    mark = await pair.seen(pair.a, old.key, boots=1)
    await pair.a.stop(old.key, ENOUGH_TIME_S)
    await pair.add_image(image, await snapshot(pair.a, old.key, []))
    with pytest.raises(NotFound):
        await pair.b.fetch_disk(new, image, quiet)
    await pair.b.reserve(new)
    for _ in "ab":
        await pair.b.fetch_disk(new, image, quiet)
    await pair.b.define(new)
    await pair.b.start(new.key)
    assert await pair.seen(pair.b, new.key, boots=2) == mark
    await pair.b.stop(new.key, NO_TIME_S)
    assert (await pair.b.export_disk(new.key)).size_bytes == 2 << 30


@ALSO_REAL
async def test_an_image_that_cannot_be_fetched_is_refused_and_leaves_nothing(pair: HypervisorPair) -> None:
    spec = new_spec()
    await pair.a.reserve(spec)
    for image in (LARGE_IMAGE, str(uuid.uuid4())):
        with pytest.raises(Refused):
            await pair.a.fetch_disk(spec, image, quiet)
    assert not any(guest.has_disk for guest in await pair.a.guests())


async def test_a_cached_image_is_not_read_again(pair: HypervisorPair) -> None:
    for _ in "ab":
        await pair.a.cache_image(SMALL_IMAGE)
    await pair.add_image(SMALL_IMAGE, b"what cannot boot", (await pair.images.show(SMALL_IMAGE)).disk_format or "")
    spec = new_spec()
    await running(pair, pair.a, spec)
    await pair.seen(pair.a, spec.key, boots=1)
    with pytest.raises(Refused):
        await pair.a.cache_image(str(uuid.uuid4()))


async def test_an_export_can_be_read_until_it_is_taken_back(pair: HypervisorPair) -> None:
    old, new = new_spec(), new_spec()
    await pair.made(pair.a, old)
    await pair.b.reserve(new)
    export = await pair.a.export_disk(old.key)
    pair.restart()
    assert await pair.a.export_disk(old.key) == export, "found again, not made anew"
    for _ in "ab":
        await pair.a.unexport_disk(old.key)
    with pytest.raises(Unavailable):
        await pair.b.import_disk(new, export, quiet)
    looked = await pair.b.look(new.key)
    assert looked
    assert not looked.has_disk
    await pair.b.import_disk(new, await pair.a.export_disk(old.key), quiet)


@pytest.mark.parametrize("ending", ["start", "destroy"])
async def test_a_disk_that_changes_or_goes_is_offered_no_more(pair: HypervisorPair, ending: str) -> None:
    old, new = new_spec(), new_spec()
    await pair.made(pair.a, old)
    await pair.b.reserve(new)
    export = await pair.a.export_disk(old.key)
    await getattr(pair.a, ending)(old.key)
    with pytest.raises(Unavailable):
        await pair.b.import_disk(new, export, quiet)


async def test_disks_that_cannot_be_are_refused_and_leave_nothing(pair: HypervisorPair) -> None:
    source, larger = new_spec(root_gib=2), new_spec(image_id=LARGE_IMAGE)
    unknown, smaller = new_spec(image_id=str(uuid.uuid4())), new_spec()
    for spec in (source, larger, unknown, smaller):
        await pair.a.reserve(spec)
    await pair.a.create_disk(source, quiet)
    for spec in (larger, unknown):
        with pytest.raises(Refused):
            await pair.a.create_disk(spec, quiet)
    with pytest.raises(Refused):
        await pair.a.import_disk(smaller, await pair.a.export_disk(source.key), quiet)
    foreign = DiskExport(scheme="pigeon", location="loft 7", size_bytes=1)
    with pytest.raises(Refused):
        await pair.a.import_disk(smaller, foreign, quiet)
    assert {guest.key for guest in await pair.a.guests() if guest.has_disk} == {source.key}


async def test_a_disk_without_a_size_is_as_large_as_its_image(pair: HypervisorPair) -> None:
    spec = new_spec(root_gib=0, image_id=LARGE_IMAGE)
    await pair.made(pair.a, spec)
    assert (await pair.a.export_disk(spec.key)).size_bytes == 2 << 30


async def test_of_two_slots_on_one_host_one_runs(pair: HypervisorPair) -> None:
    host, old = pair.a, new_spec()
    new = new_spec(old.key.server, root_gib=2)
    await running(pair, host, old)
    mark = await pair.seen(host, old.key, boots=1)
    await host.stop(old.key, NO_TIME_S)
    await carried(host, old.key, host, new)
    await host.start(old.key)
    with pytest.raises(Refused):
        await host.start(new.key)
    with pytest.raises(Refused):
        await host.reboot(new.key, hard=True)
    await host.stop(new.key, NO_TIME_S)
    assert [await power(host, key) for key in (old.key, new.key)] == ["running", "stopped"]
    await host.define(new)
    await host.stop(old.key, NO_TIME_S)
    await host.start(new.key)
    assert await pair.seen(host, new.key, boots=2) == mark
    pair.restart()
    assert {guest.key: guest.power for guest in await pair.a.guests()} == {old.key: "stopped", new.key: "running"}
    await pair.a.destroy(old.key)
    assert [(guest.key, guest.power) for guest in await pair.a.guests()] == [(new.key, "running")]


async def test_going_back_to_the_old_slot_finds_it_as_it_was(pair: HypervisorPair) -> None:
    host, old = pair.a, new_spec()
    new = new_spec(old.key.server)
    await pair.made(host, old)
    await carried(host, old.key, host, new)
    await host.start(new.key)
    await pair.seen(host, new.key, boots=1)
    await host.destroy(new.key)
    await host.start(old.key)
    await pair.seen(host, old.key, boots=1)
    assert [guest.key for guest in await host.guests()] == [old.key]


@ALSO_REAL
async def test_a_half_made_disk_is_no_disk_and_is_made_again(pair: HypervisorPair) -> None:
    spec = new_spec()
    await pair.a.reserve(spec)
    await pair.leave_half_made(pair.a, spec)
    guest = await pair.a.look(spec.key)
    assert guest
    assert not guest.has_disk
    with pytest.raises(NotFound):
        await pair.a.define(spec)
    with pytest.raises(NotFound):
        await pair.a.export_disk(spec.key)
    await pair.a.create_disk(spec, quiet)
    await pair.a.define(spec)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)


@pytest.mark.parametrize("undo", ["discard_disk", "destroy"])
async def test_a_half_made_disk_can_be_thrown_away(pair: HypervisorPair, undo: str) -> None:
    spec = new_spec()
    await pair.a.reserve(spec)
    await pair.leave_half_made(pair.a, spec)
    for _ in "ab":
        await getattr(pair.a, undo)(spec.key)
    guest = await pair.a.look(spec.key)
    assert guest is None if undo == "destroy" else guest and not guest.has_disk


async def test_a_disk_that_was_discarded_can_be_made_again(pair: HypervisorPair) -> None:
    spec = new_spec()
    await pair.made(pair.a, spec)
    for _ in "ab":
        await pair.a.discard_disk(spec.key)
        guest = await pair.a.look(spec.key)
        assert guest
        assert not guest.has_disk
    with pytest.raises(NotFound):
        await pair.a.start(spec.key)
    await pair.a.create_disk(spec, quiet)
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)


@ALSO_REAL
async def test_guests_are_found_again_by_a_new_process(pair: HypervisorPair) -> None:
    reserved, still, moving = new_spec(), new_spec(), new_spec()
    await pair.a.reserve(reserved)
    await pair.made(pair.a, still)
    await running(pair, pair.a, moving)
    await pair.seen(pair.a, moving.key, boots=1)
    before = {guest.key: guest for guest in await pair.a.guests()}
    pair.restart()
    assert {guest.key: guest for guest in await pair.a.guests()} == before
    assert await pair.b.guests() == []
    await pair.a.start(moving.key)
    await pair.seen(pair.a, moving.key, boots=1)
    await pair.a.stop(moving.key, NO_TIME_S)
    assert await power(pair.a, moving.key) == "stopped"


@pytest.mark.parametrize("state", ["stopped", "running"])
async def test_a_snapshot_is_an_image_that_boots(pair: HypervisorPair, state: str) -> None:
    old, percents = new_spec(), list[int]()
    await running(pair, pair.a, old)
    mark = await pair.seen(pair.a, old.key, boots=1)
    if state == "stopped":
        await pair.a.stop(old.key, NO_TIME_S)
    file = await snapshot(pair.a, old.key, percents)
    assert await snapshot(pair.a, old.key, percents)
    assert percents == [percent for percent in percents if 0 <= percent <= 100]
    assert await power(pair.a, old.key) == state
    new = new_spec(image_id=str(uuid.uuid4()))
    assert new.image_id
    await pair.add_image(new.image_id, file)
    await running(pair, pair.b, new)
    assert await pair.seen(pair.b, new.key, boots=2) == mark


async def test_a_guest_that_runs_is_measured_and_interrupted(pair: HypervisorPair) -> None:
    host, spec = pair.a, new_spec()
    await pair.made(host, spec)
    for act in (host.diagnostics, host.inject_nmi):
        with pytest.raises(Refused):
            await act(spec.key)
    await host.start(spec.key)
    await pair.seen(host, spec.key, boots=1)
    found = await host.diagnostics(spec.key)
    assert (found.state, found.memory_maximum_mib, len(found.cpus)) == ("running", spec.memory_mib, spec.vcpus)
    assert [disk.device for disk in found.disks] == ["vda"]
    await host.inject_nmi(spec.key)
    await host.pause(spec.key)
    assert (await host.diagnostics(spec.key)).state == "paused"


@ALSO_REAL
async def test_a_guest_is_started_paused_and_let_run(pair: HypervisorPair) -> None:
    host, spec = pair.a, new_spec()
    await pair.made(host, spec)
    for _ in "ab":
        await host.start(spec.key, paused=True)
        assert await power(host, spec.key) == "paused"
    with pytest.raises(Refused):
        await host.start(spec.key)
    for _ in "ab":
        await host.resume(spec.key)
        assert await power(host, spec.key) == "running"
    await host.start(spec.key, paused=True)  # it runs already
    assert await power(host, spec.key) == "running"
