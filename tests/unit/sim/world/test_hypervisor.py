"""The simulated hypervisor is no kinder than a real one, and what it has done survives its process."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.hand_clock import HandClock, settle
from tests.host_room import H1, H2, IMAGE, Room, SlowKeep, spec
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.guest import DiskExport, GuestSpec
from whimbrel.domain.ids import HostName
from whimbrel.domain.server_devices import GuestNic
from whimbrel.ports.services.images import Image
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.phases import Times

PCI = "0000:81:00.1"
OLD, NEW = spec(slot="old"), spec(slot="new", root_gib=2)


def ignore(_percent: int) -> None:
    pass


async def boot(host: SimulatedHypervisor, what: GuestSpec) -> None:
    await host.reserve(what)
    await host.create_disk(what, ignore)
    await host.define(what)
    await host.start(what.key)


async def power(host: SimulatedHypervisor, what: GuestSpec) -> str | None:
    guest = await host.look(what.key)
    return guest.power if guest else None


async def test_each_phase_shows_and_may_be_repeated() -> None:
    h1 = Room().hypervisors[H1]
    assert await h1.look(OLD.key) is None
    phases: tuple[tuple[Callable[[], Awaitable[None]], tuple[str, bool]], ...] = (
        (lambda: h1.reserve(OLD), ("reserved", False)),
        (lambda: h1.create_disk(OLD, ignore), ("reserved", True)),
        (lambda: h1.define(OLD), ("stopped", True)),
        (lambda: h1.start(OLD.key), ("running", True)),
        (lambda: h1.stop(OLD.key, 60), ("stopped", True)),
        (lambda: h1.discard_disk(OLD.key), ("stopped", False)),
    )
    for phase, after in phases:
        for _ in range(2):
            await phase()
            guest = await h1.look(OLD.key)
            assert guest
            assert (guest.power, guest.has_disk) == after
    for _ in range(2):
        await h1.destroy(OLD.key)
        assert await h1.guests() == []
    await h1.stop(OLD.key, 60)
    await h1.discard_disk(OLD.key)
    await h1.unexport_disk(OLD.key)


async def test_a_start_that_is_repeated_boots_once() -> None:
    h1 = Room().hypervisors[H1]
    await boot(h1, OLD)
    await h1.start(OLD.key)
    disk = await h1.disk(OLD.key)
    assert disk
    assert disk.contents.boots == 1


async def test_reserve_refuses_what_does_not_fit() -> None:
    h1 = Room().hypervisors[H1]
    await h1.reserve(spec("a", memory_mib=3000, root_gib=30))
    with pytest.raises(Refused, match="1096 MiB of memory left"):
        await h1.reserve(spec("b", memory_mib=1097))
    with pytest.raises(Refused, match="10 GiB of disk left"):
        await h1.reserve(spec("b", root_gib=11))
    await h1.reserve(spec("a", memory_mib=3000, root_gib=30))
    await h1.reserve(spec("b", memory_mib=1096, root_gib=10))


async def test_two_reserves_at_once_do_not_take_the_same_room() -> None:
    h1 = Room(keep=SlowKeep()).hypervisors[H1]
    wanted = [spec(name, memory_mib=3000) for name in ("a", "b")]
    outcomes = await asyncio.gather(*(h1.reserve(each) for each in wanted), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), Refused]


async def test_a_host_refuses_the_phases_it_is_set_to() -> None:
    h1 = Room().hypervisors[H1]
    h1.refusing = {"reserve"}
    with pytest.raises(Refused, match="told to refuse"):
        await h1.reserve(OLD)
    assert await h1.guests() == []


async def test_only_one_slot_of_a_server_runs() -> None:
    h1 = Room().hypervisors[H1]
    await boot(h1, OLD)
    with pytest.raises(Refused, match="runs on h1 already"):
        await boot(h1, NEW)
    await h1.stop(OLD.key, 60)
    await h1.start(NEW.key)
    with pytest.raises(Refused, match="runs on h1 already"):
        await h1.reboot(OLD.key, hard=True)
    assert await power(h1, OLD) == "stopped"


async def test_of_two_slots_that_boot_at_once_one_runs() -> None:
    clock = HandClock()
    h1 = Room(clock=clock, times=Times(start_s=1.0)).hypervisors[H1]
    for each in (OLD, NEW):
        await h1.reserve(each)
        await h1.create_disk(each, ignore)
        await h1.define(each)
    starts = asyncio.gather(h1.start(OLD.key), h1.start(NEW.key), return_exceptions=True)
    await clock.advance(2.0)
    assert [type(outcome) for outcome in await starts] == [type(None), Refused]


async def test_the_world_counts_a_server_that_runs_twice() -> None:
    room = Room()
    await boot(room.hypervisors[H1], OLD)
    assert room.world.double_runs == []
    await boot(room.hypervisors[H2], NEW)
    assert len(room.world.double_runs) == 1
    assert {host for host, _ in room.world.running()} == {H1, H2}


async def test_a_disk_comes_along_and_its_console_says_so() -> None:
    room = Room()
    h1, h2 = room.hypervisors[H1], room.hypervisors[H2]
    await boot(h1, OLD)
    await h1.stop(OLD.key, 60)
    await h2.reserve(NEW)
    await h2.import_disk(NEW, await h1.export_disk(OLD.key), ignore)
    await h1.unexport_disk(OLD.key)
    await h2.define(NEW)
    await h2.start(NEW.key)
    there = await h2.disk(NEW.key)
    assert there
    assert there.contents.marker == "server-1 on h1"
    assert there.contents.boots == 2
    assert there.size_bytes == 2 * 1024**3
    assert "boot 2, now on h2" in await h2.console_log(NEW.key, None)
    here = await h1.disk(OLD.key)
    assert here
    assert here.contents.boots == 1, "the copy is another disk"


async def test_the_console_keeps_a_line_for_each_boot() -> None:
    h1 = Room().hypervisors[H1]
    await boot(h1, OLD)
    await h1.reboot(OLD.key, hard=False)
    await h1.reboot(OLD.key, hard=True)
    assert (await h1.console_log(OLD.key, None)).count("boot ") == 3
    assert "boot 3" in await h1.console_log(OLD.key, 1)
    assert await h1.console_log(OLD.key, 0) == ""
    with pytest.raises(NotFound):
        await h1.console_log(NEW.key, None)


async def test_a_soft_reboot_needs_a_running_guest_and_a_hard_one_does_not() -> None:
    h1 = Room().hypervisors[H1]
    await boot(h1, OLD)
    await h1.stop(OLD.key, 60)
    with pytest.raises(Refused, match="does not run"):
        await h1.reboot(OLD.key, hard=False)
    await h1.reboot(OLD.key, hard=True)
    assert await power(h1, OLD) == "running"


async def test_a_reboot_that_was_cut_short_can_be_asked_for_again() -> None:
    clock = HandClock()
    room = Room(clock=clock)
    await boot(room.hypervisors[H1], OLD)
    room.times = Times(start_s=1.0, stop_s=1.0)
    room.start_processes()
    reboot = asyncio.ensure_future(room.hypervisors[H1].reboot(OLD.key, hard=False))
    await clock.advance(1.5)
    reboot.cancel()
    room.start_processes()
    again = asyncio.ensure_future(room.hypervisors[H1].reboot(OLD.key, hard=False))
    await clock.advance(2.0)
    await again
    assert await power(room.hypervisors[H1], OLD) == "running"


async def test_what_must_be_there_is_asked_for() -> None:
    h1 = Room().hypervisors[H1]
    with pytest.raises(NotFound):
        await h1.create_disk(OLD, ignore)
    await h1.reserve(OLD)
    for attempt in (h1.define(OLD), h1.start(OLD.key), h1.export_disk(OLD.key)):
        with pytest.raises(NotFound):
            await attempt


async def test_a_running_disk_is_neither_offered_nor_discarded() -> None:
    h1 = Room().hypervisors[H1]
    await boot(h1, OLD)
    with pytest.raises(Refused):
        await h1.export_disk(OLD.key)
    with pytest.raises(Refused):
        await h1.discard_disk(OLD.key)


async def test_destroy_takes_the_slot_that_is_named() -> None:
    h1 = Room().hypervisors[H1]
    await boot(h1, OLD)
    await h1.reserve(NEW)
    await h1.destroy(NEW.key)
    assert await power(h1, OLD) == "running"
    assert await h1.look(NEW.key) is None


async def test_everything_survives_the_process() -> None:
    room = Room()
    await boot(room.hypervisors[H1], OLD)
    await room.hypervisors[H1].reserve(spec("other"))
    before = set(await room.hypervisors[H1].guests())
    room.start_processes()
    assert set(await room.hypervisors[H1].guests()) == before
    assert "boot 1" in await room.hypervisors[H1].console_log(OLD.key, None)


async def test_a_half_made_disk_is_no_disk_and_is_redone() -> None:
    clock = HandClock()
    room = Room(clock=clock, times=Times(build_disk_s=10.0))
    seen: list[int] = []
    await room.hypervisors[H1].reserve(OLD)
    build = asyncio.ensure_future(room.hypervisors[H1].create_disk(OLD, seen.append))
    await clock.advance(5.0)
    build.cancel()
    await settle()
    room.start_processes()
    h1 = room.hypervisors[H1]
    half = await h1.disk(OLD.key)
    guest = await h1.look(OLD.key)
    assert half
    assert guest
    assert not half.whole
    assert not guest.has_disk
    assert seen[-1] == 50
    with pytest.raises(NotFound):
        await h1.define(OLD)
    again = asyncio.ensure_future(h1.create_disk(OLD, seen.append))
    await clock.advance(10.0)
    await again
    assert seen[-1] == 100
    await h1.define(OLD)


async def test_a_copy_of_a_disk_that_was_started_meanwhile_is_not_whole() -> None:
    clock = HandClock()
    room = Room(clock=clock, times=Times(copy_disk_s=10.0))
    h1, h2 = room.hypervisors[H1], room.hypervisors[H2]
    await boot(h1, OLD)
    await h1.stop(OLD.key, 60)
    export = await h1.export_disk(OLD.key)
    await h2.reserve(NEW)
    copy = asyncio.ensure_future(h2.import_disk(NEW, export, ignore))
    await clock.advance(5.0)
    await h1.start(OLD.key)
    await clock.advance(5.0)
    with pytest.raises(Unavailable):
        await copy
    guest = await h2.look(NEW.key)
    assert guest
    assert not guest.has_disk


async def test_an_offer_survives_the_process_that_made_it() -> None:
    room = Room()
    await boot(room.hypervisors[H1], OLD)
    await room.hypervisors[H1].stop(OLD.key, 60)
    export = await room.hypervisors[H1].export_disk(OLD.key)
    room.start_processes()
    await room.hypervisors[H2].reserve(NEW)
    await room.hypervisors[H2].import_disk(NEW, export, ignore)
    assert await room.hypervisors[H2].disk(NEW.key)


async def test_an_offer_ends_when_the_guest_starts() -> None:
    room = Room()
    h1, h2 = room.hypervisors[H1], room.hypervisors[H2]
    await boot(h1, OLD)
    await h1.stop(OLD.key, 60)
    export = await h1.export_disk(OLD.key)
    await h1.start(OLD.key)
    await h2.reserve(NEW)
    with pytest.raises(Unavailable):
        await h2.import_disk(NEW, export, ignore)


async def test_hosts_read_only_what_is_offered_in_their_cell() -> None:
    room = Room()
    h1 = room.hypervisors[H1]
    far = room.hypervisor(HostName("far"), cell="c2")
    await boot(h1, OLD)
    await h1.stop(OLD.key, 60)
    export = await h1.export_disk(OLD.key)
    await far.reserve(NEW)
    with pytest.raises(Refused, match="of cell c1"):
        await far.import_disk(NEW, export, ignore)
    h2 = room.hypervisors[H2]
    await h2.reserve(NEW)
    await h1.unexport_disk(OLD.key)
    with pytest.raises(Unavailable):
        await h2.import_disk(NEW, export, ignore)
    with pytest.raises(Unavailable):
        await h2.import_disk(NEW, DiskExport(scheme="simulated", location="gone/a/b", size_bytes=1), ignore)
    with pytest.raises(Refused, match="offered by nbd"):
        await h2.import_disk(NEW, DiskExport(scheme="nbd", location="nbd://h1", size_bytes=1), ignore)


async def test_a_disk_does_not_shrink() -> None:
    room = Room()
    h1, h2 = room.hypervisors[H1], room.hypervisors[H2]
    await h1.reserve(NEW)
    await h1.create_disk(NEW, ignore)
    await h2.reserve(OLD)
    with pytest.raises(Refused, match="do not fit"):
        await h2.import_disk(OLD, await h1.export_disk(NEW.key), ignore)


async def test_an_image_that_is_not_there_is_refused() -> None:
    h1 = Room().hypervisors[H1]
    lost = spec(image_id="lost")
    await h1.reserve(lost)
    with pytest.raises(Refused, match="lost"):
        await h1.create_disk(lost, ignore)


async def test_a_snapshot_holds_what_the_disk_held() -> None:
    room = Room()
    h1 = room.hypervisors[H1]
    await boot(h1, OLD)
    image = Image(id="shot", name="shot", status="queued", disk_format="qcow2", size_bytes=0, checksum=None)
    await room.images.create(image)
    await room.images.write("shot", h1.read_snapshot(OLD.key, ignore))
    other = spec("server-2", image_id="shot")
    await boot(h1, other)
    disk = await h1.disk(other.key)
    assert disk
    assert disk.contents.marker == "server-1 on h1"
    assert disk.contents.boots == 2
    assert IMAGE not in disk.contents.origin, "the origin is the image's checksum"


async def test_a_pci_device_is_in_one_running_guest() -> None:
    h1 = Room().hypervisors[H1]
    one, two = replace(spec("server-1"), pci=(PCI,)), replace(spec("server-2"), pci=(PCI,))
    await boot(h1, one)
    with pytest.raises(Refused, match=f"{PCI} is in a running guest of server server-1"):
        await boot(h1, two)
    await h1.stop(one.key, 60)
    await h1.start(two.key)
    with pytest.raises(Refused, match=PCI):
        await h1.start(one.key)
    assert (await power(h1, one), await power(h1, two)) == ("stopped", "running")


async def test_a_virtual_function_is_not_plugged_into_a_second_running_guest() -> None:
    h1 = Room().hypervisors[H1]
    await boot(h1, replace(spec("server-1"), pci=(PCI,)))
    await boot(h1, spec("server-2"))
    nic = GuestNic(port_id="p", mac="fa:16:3e:00:00:01", vif_type="hw_veb", pci_address=PCI)
    with pytest.raises(Refused, match=PCI):
        await h1.plug(spec("server-2").key, nic)
    await h1.stop(spec("server-2").key, 60)
    await h1.plug(spec("server-2").key, nic)


async def test_a_guest_on_a_volume_takes_no_room_on_the_disk() -> None:
    h1 = Room().hypervisors[H1]
    await h1.reserve(spec("a", root_gib=40))
    await h1.reserve(replace(spec("b", root_gib=40), has_local_root=False))
    with pytest.raises(Refused, match="0 GiB of disk left"):
        await h1.reserve(spec("c"))
