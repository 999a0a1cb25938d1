"""What every hypervisor does when a volume service asks for its help with snapshots: it changes a volume's files."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, LibvirtPair, new_spec, quiet
from tests.contracts.test_hypervisor_devices import NO_TIME_S, looked, on_volume
from tests.contracts.test_live_transfer import OPTIONS, ended, slot_at_target
from tests.contracts.test_volume_swaps import seen, ticking
from whimbrel.domain.device_assignment import connected_to
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestSpec
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.domain.volume_merge import Merge

NOWHERE = "00000000-0000-4000-8000-000000000000"


async def booted(pair: HypervisorPair) -> tuple[GuestSpec, GuestVolume, str]:
    """Boot a guest on host a from a volume of a share. Return its spec, the volume, and what marks it."""
    volume = pair.new_share_volume("/dev/vda", boot_index=0)
    spec = on_volume(new_spec(), volume)
    await pair.made_on_volume(pair.a, spec)
    await pair.a.start(spec.key)
    return spec, volume, await seen(pair, pair.a, spec.key, boots=1)


async def snapshot(pair: HypervisorPair, spec: GuestSpec, volume: GuestVolume) -> str:
    """Let the guest write to another file, twice. Return its name."""
    [active, *_] = await pair.files(pair.a, spec.key, volume)
    file = pair.add_file(volume, active)
    for _ in "ab":
        await pair.a.take_volume_snapshot(spec.key, volume.volume_id, file)
        pair.restart()
    assert (await pair.files(pair.a, spec.key, volume))[:2] == [file, active]
    return file


async def merge(pair: HypervisorPair, spec: GuestSpec, volume: GuestVolume, base: str | None, top: str | None) -> None:
    for _ in "ab":
        await pair.a.merge_volume_files(spec.key, volume.volume_id, Merge(base=base, top=top), quiet)
        pair.restart()


def name(volume: GuestVolume) -> str:
    found: str = volume.connection["data"]["name"]
    return found


@pytest.mark.parametrize("state", ["running", "paused", "stopped"])
async def test_a_guest_goes_on_with_another_file(pair: HypervisorPair, state: str) -> None:
    spec, volume, mark = await booted(pair)
    if state == "paused":
        await pair.a.pause(spec.key)
    if state == "stopped":
        await pair.a.stop(spec.key, NO_TIME_S)
    first, second = [await snapshot(pair, spec, volume) for _ in "ab"]
    guest = await looked(pair.a, spec.key)
    assert guest.files == (second,)
    assert (guest.power, guest.volumes) == (state, (volume.volume_id,) if state != "stopped" else guest.volumes)
    if state == "paused":
        await pair.a.resume(spec.key)
        await ticking(pair, spec)
    for boots in (2, 3):
        await pair.a.reboot(spec.key, hard=True)
        assert await seen(pair, pair.a, spec.key, boots=boots) == mark, "its definition names the new file"
        assert await pair.files(pair.a, spec.key, volume) == [second, first, name(volume)]
        assert (await looked(pair.a, spec.key)).files == (second,)
    await pair.a.destroy(spec.key)
    assert not await pair.mounted(pair.a)


async def test_files_are_merged_in_a_live_guest(pair: HypervisorPair) -> None:
    spec, volume, mark = await booted(pair)
    base, (a, b, c) = name(volume), [await snapshot(pair, spec, volume) for _ in "abc"]
    await ticking(pair, spec)
    await merge(pair, spec, volume, base=base, top=a)
    assert await pair.files(pair.a, spec.key, volume) == [c, b, base]
    pair.remove_file(a)
    await ticking(pair, spec)
    await merge(pair, spec, volume, base=base, top=None)
    assert await pair.files(pair.a, spec.key, volume) == [c, base]
    pair.remove_file(b)
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await merge(pair, spec, volume, base=None, top=None)
    assert await pair.files(pair.a, spec.key, volume) == [c]
    pair.remove_file(base)
    await ticking(pair, spec)
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=3) == mark
    await pair.a.destroy(spec.key)


async def test_files_are_merged_into_the_active_one_of_a_stopped_guest(pair: HypervisorPair) -> None:
    spec, volume, mark = await booted(pair)
    base, (a, b) = name(volume), [await snapshot(pair, spec, volume) for _ in "ab"]
    await ticking(pair, spec)
    await pair.a.stop(spec.key, NO_TIME_S)
    with pytest.raises(Refused, match="does not run"):
        await pair.a.merge_volume_files(spec.key, volume.volume_id, Merge(base=base, top=a), quiet)
    await merge(pair, spec, volume, base=base, top=None)
    assert await pair.files(pair.a, spec.key, volume) == [b, base]
    pair.remove_file(a)
    await merge(pair, spec, volume, base=None, top=None)
    assert await pair.files(pair.a, spec.key, volume) == [b]
    pair.remove_file(base)
    assert not await pair.mounted(pair.a)
    await pair.a.start(spec.key)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await pair.a.destroy(spec.key)


async def test_a_swapped_volume_has_the_files_of_the_new_one(pair: HypervisorPair) -> None:
    spec, volume, mark = await booted(pair)
    first = await snapshot(pair, spec, volume)
    await merge(pair, spec, volume, base=None, top=None)
    new = replace(pair.new_share_volume(), volume_id=volume.volume_id)
    await pair.a.swap_volume(spec.key, volume.volume_id, new, quiet)
    assert (await looked(pair.a, spec.key)).files == (name(new),) != (first,)
    second = await snapshot(pair, spec, new)
    assert await pair.files(pair.a, spec.key, new) == [second, name(new)]
    await merge(pair, spec, new, base=None, top=None)
    assert (await looked(pair.a, spec.key)).files == (second,)
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await pair.a.destroy(spec.key)


async def test_what_cannot_be_done_is_refused_and_changes_nothing(pair: HypervisorPair) -> None:
    spec, volume, mark = await booted(pair)
    base, (a, b) = name(volume), [await snapshot(pair, spec, volume) for _ in "ab"]
    wrong = [Merge(base=NOWHERE), Merge(base=NOWHERE, top=a), Merge(base=a, top=base), Merge(base=base, top=b)]
    for each in wrong:
        with pytest.raises(Refused, match="chain"):
            await pair.a.merge_volume_files(spec.key, volume.volume_id, each, quiet)
    file = pair.add_file(volume, b)
    with pytest.raises(Refused, match="no volume"):
        await pair.a.take_volume_snapshot(spec.key, NOWHERE, file)
    with pytest.raises(Refused, match="no volume"):
        await pair.a.merge_volume_files(spec.key, NOWHERE, Merge(), quiet)
    with pytest.raises(NotFound):
        await pair.a.take_volume_snapshot(new_spec().key, volume.volume_id, file)
    with pytest.raises(NotFound):
        await pair.a.merge_volume_files(new_spec().key, volume.volume_id, Merge(), quiet)
    await pair.a.suspend(spec.key)
    with pytest.raises(Refused):
        await pair.a.take_volume_snapshot(spec.key, volume.volume_id, file)
    with pytest.raises(Refused):
        await pair.a.merge_volume_files(spec.key, volume.volume_id, Merge(), quiet)
    await pair.a.resume(spec.key)
    assert await pair.files(pair.a, spec.key, volume) == [b, a, base]
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await pair.a.destroy(spec.key)


@ALSO_REAL
async def test_a_guest_that_must_be_frozen_and_cannot_is_refused(pair: HypervisorPair) -> None:
    volume = pair.new_share_volume("/dev/vda", boot_index=0)
    spec = replace(on_volume(new_spec(), volume), requires_quiesce=True)
    await pair.made_on_volume(pair.a, spec)
    await pair.a.start(spec.key)
    file = pair.add_file(volume, name(volume))
    with pytest.raises(Refused, match="requires to be frozen"):
        await pair.a.take_volume_snapshot(spec.key, volume.volume_id, file)
    await pair.a.pause(spec.key)
    await pair.a.take_volume_snapshot(spec.key, volume.volume_id, file)
    assert await pair.files(pair.a, spec.key, volume) == [file, name(volume)]
    await pair.a.destroy(spec.key)


@pytest.mark.long
async def test_an_agent_that_does_not_answer_keeps_no_snapshot_from_being_taken(libvirt_pair: LibvirtPair) -> None:
    pair = libvirt_pair
    volume = pair.new_share_volume("/dev/vda", boot_index=0)
    spec = replace(on_volume(new_spec(), volume), guest_agent=True)
    await pair.made_on_volume(pair.a, spec)
    await pair.a.start(spec.key)
    mark = await seen(pair, pair.a, spec.key, boots=1)
    file = await snapshot(pair, spec, volume)
    await ticking(pair, spec)
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    assert await pair.files(pair.a, spec.key, volume) == [file, name(volume)]
    await pair.a.destroy(spec.key)


@pytest.mark.long
async def test_only_files_of_a_share_have_others_and_only_beside_them(libvirt_pair: LibvirtPair) -> None:
    pair = libvirt_pair
    spec, volume, _ = await booted(pair)
    other = pair.new_volume("/dev/vdb")
    await pair.a.attach_volume(spec.key, other)
    with pytest.raises(Refused, match="not as a file"):
        await pair.a.take_volume_snapshot(spec.key, other.volume_id, "f")
    with pytest.raises(Refused, match="not a name"):
        await pair.a.take_volume_snapshot(spec.key, volume.volume_id, "../f")
    with pytest.raises(Refused):
        await pair.a.take_volume_snapshot(spec.key, volume.volume_id, "is-not-there")
    assert await pair.files(pair.a, spec.key, volume) == [name(volume)]
    await ticking(pair, spec)
    await pair.a.destroy(spec.key)


@pytest.mark.long
async def test_a_snapshot_goes_on_in_another_process(libvirt_pair: LibvirtPair) -> None:
    """The process dies when the guest writes to the new file; then the guest goes off."""
    pair = libvirt_pair
    spec, volume, mark = await booted(pair)
    file, files = pair.add_file(volume, name(volume)), pair.a._files
    await pair.a._connection.run(lambda c: files._switch(c, spec, volume.volume_id, file))
    with pair.hosts.connection("a") as connection:
        connection.lookupByUUIDString(spec.key.server).destroy()
    pair.restart()
    await pair.a.take_volume_snapshot(spec.key, volume.volume_id, file)
    await pair.a.start(spec.key)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    assert await pair.files(pair.a, spec.key, volume) == [file, name(volume)]
    await pair.a.destroy(spec.key)


@pytest.mark.long
@pytest.mark.parametrize("is_pull", [True, False])
async def test_a_merge_goes_on_in_another_process(libvirt_pair: LibvirtPair, is_pull: bool) -> None:
    pair = libvirt_pair
    spec, volume, mark = await booted(pair)
    base, (a, b) = name(volume), [await snapshot(pair, spec, volume) for _ in "ab"]
    wanted = Merge(base=base, top=None if is_pull else a)
    await pair.a._files.carry_on(spec.key, volume.volume_id, wanted, begun=False)
    pair.restart()
    await pair.a.merge_volume_files(spec.key, volume.volume_id, wanted, quiet)
    assert await pair.files(pair.a, spec.key, volume) == [b, base]
    pair.remove_file(a)
    await pair.a.reboot(spec.key, hard=True)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await pair.a.destroy(spec.key)


@pytest.mark.long
async def test_a_guest_that_goes_off_during_a_merge_has_its_data(libvirt_pair: LibvirtPair) -> None:
    pair = libvirt_pair
    spec, volume, mark = await booted(pair)
    base, (a, b) = name(volume), [await snapshot(pair, spec, volume) for _ in "ab"]
    begun = await pair.a._files.carry_on(spec.key, volume.volume_id, Merge(base=base, top=a), begun=False)
    assert begun is not None
    with pair.hosts.connection("a") as connection:
        connection.lookupByUUIDString(spec.key.server).destroy()
    pair.restart()
    assert await pair.files(pair.a, spec.key, volume) in ([b, a, base], [b, base])
    await pair.a.start(spec.key)
    assert await seen(pair, pair.a, spec.key, boots=2) == mark
    await asyncio.gather(*(merge(pair, spec, volume, base=base, top=a) for _ in "ab"))
    assert await pair.files(pair.a, spec.key, volume) == [b, base]
    await ticking(pair, spec)
    await pair.a.destroy(spec.key)


async def test_a_guest_moves_live_with_its_files(pair: HypervisorPair) -> None:
    """At the target it is connected to the new file, as the service says, at a path of the target's."""
    spec, volume, mark = await booted(pair)
    file = await snapshot(pair, spec, volume)
    moved = replace(volume, connection=connected_to(volume.connection, file))
    there = slot_at_target(replace(spec, volumes=(moved,)))
    await pair.b.reserve(there)
    target = await pair.b.receive(there, await pair.a.examine(spec.key))
    await pair.a.start_transfer(spec.key, target, OPTIONS)
    progress = await ended(pair.a, spec.key, target)
    assert progress.state == "arrived", progress.trouble
    await pair.b.settle_arrival(there.key)
    await pair.a.destroy(spec.key)
    assert (await pair.files(pair.b, there.key, volume))[0] == file
    await pair.b.merge_volume_files(there.key, volume.volume_id, Merge(), quiet)
    assert await pair.files(pair.b, there.key, volume) == [file]
    pair.remove_file(name(volume))
    await pair.b.reboot(there.key, hard=True)
    assert await seen(pair, pair.b, there.key, boots=2) == mark
    await pair.b.destroy(there.key)
