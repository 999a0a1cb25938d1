"""Ephemeral and swap disks on every hypervisor: made with the guest, carried or made anew, and gone with it."""

import uuid

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, new_spec, quiet
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.ports.hosts.hypervisor import Hypervisor

NO_TIME_S = 0.0


def roomy(server: str | None = None, ephemeral_gib: int = 1) -> GuestSpec:
    return replace(new_spec(server), ephemeral_gib=ephemeral_gib, swap_mib=8)


async def disks(host: Hypervisor, key: GuestKey) -> tuple[str, ...]:
    guest = await host.look(key)
    assert guest
    assert guest.has_disk == (len(guest.disks) == 3)
    return guest.disks


async def has_run(pair: HypervisorPair, host: Hypervisor, spec: GuestSpec) -> None:
    await pair.made(host, spec)
    await host.start(spec.key)
    await pair.seen(host, spec.key, boots=1)
    await host.stop(spec.key, NO_TIME_S)


@ALSO_REAL
async def test_they_come_with_the_guest_and_go_with_it(pair: HypervisorPair) -> None:
    spec = roomy()
    await pair.a.reserve(spec)
    assert await disks(pair.a, spec.key) == ()
    for _ in "ab":
        await pair.a.create_disk(spec, quiet)
        assert await disks(pair.a, spec.key) == ("root", "ephemeral", "swap")
    pair.restart()
    assert await disks(pair.a, spec.key) == ("root", "ephemeral", "swap")
    for _ in "ab":
        await pair.a.discard_disk(spec.key)
        assert await disks(pair.a, spec.key) == ()
    with pytest.raises(NotFound):
        await pair.a.define(spec)
    await has_run(pair, pair.a, spec)
    assert await disks(pair.a, spec.key) == ("root", "ephemeral", "swap")
    await pair.a.destroy(spec.key)
    assert await pair.a.look(spec.key) is None


async def test_a_guest_on_a_volume_has_them_too(pair: HypervisorPair) -> None:
    volume = pair.new_volume("/dev/vda", boot_index=0)
    spec = replace(roomy(), image_id=None, has_local_root=False, volumes=(volume,))
    await pair.a.reserve(spec)
    with pytest.raises(NotFound):
        await pair.a.define(spec)
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    guest = await pair.a.look(spec.key)
    assert guest
    assert (guest.power, guest.has_disk, guest.disks) == ("running", True, ("ephemeral", "swap"))


async def test_the_ephemeral_disk_is_carried_and_swap_is_made_anew(pair: HypervisorPair) -> None:
    old = roomy()
    new = roomy(old.key.server, ephemeral_gib=2)
    await has_run(pair, pair.a, old)
    was = {name: await pair.fingerprint(pair.a, old.key, name) for name in ("ephemeral", "swap")}
    await pair.b.reserve(new)
    for name in ("root", "ephemeral"):
        export = await pair.a.export_disk(old.key, name)
        assert await pair.a.export_disk(old.key, name) == export
        for _ in "ab":
            await pair.b.import_disk(new, export, quiet, name)
        await pair.a.unexport_disk(old.key)
    assert await disks(pair.b, new.key) == ("root", "ephemeral")
    with pytest.raises(NotFound):
        await pair.b.define(new)
    for _ in "ab":
        await pair.b.create_disk(new, quiet)
    await pair.b.define(new)
    await pair.b.start(new.key)
    await pair.seen(pair.b, new.key, boots=2)
    await pair.b.stop(new.key, NO_TIME_S)
    assert await pair.fingerprint(pair.b, new.key, "ephemeral") == was["ephemeral"]
    assert await pair.fingerprint(pair.b, new.key, "swap") != was["swap"]
    assert (await pair.b.export_disk(new.key, "ephemeral")).size_bytes == 2 << 30
    await pair.b.destroy(new.key)
    assert await disks(pair.a, old.key) == ("root", "ephemeral", "swap")
    assert await pair.fingerprint(pair.a, old.key, "ephemeral") == was["ephemeral"]


async def test_the_ephemeral_disk_of_a_stopped_guest_goes_by_an_image(pair: HypervisorPair) -> None:
    old, image_id = roomy(), str(uuid.uuid4())
    new = roomy(old.key.server, ephemeral_gib=2)
    await has_run(pair, pair.a, old)
    was = await pair.fingerprint(pair.a, old.key, "ephemeral")
    file = b"".join([chunk async for chunk in pair.a.read_snapshot(old.key, quiet, "ephemeral")])
    await pair.add_image(image_id, file)
    await pair.b.reserve(new)
    for _ in "ab":
        await pair.b.fetch_disk(new, image_id, quiet, "ephemeral")
    assert await disks(pair.b, new.key) == ("ephemeral",)
    assert await pair.fingerprint(pair.b, new.key, "ephemeral") == was
    await pair.a.start(old.key)
    with pytest.raises(Refused):
        assert not [chunk async for chunk in pair.a.read_snapshot(old.key, quiet, "ephemeral")]


async def test_a_running_guest_gets_volumes_beside_them_and_a_snapshot_has_its_root_disk(pair: HypervisorPair) -> None:
    spec, copy = roomy(), new_spec(image_id=str(uuid.uuid4()))
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    mark = await pair.seen(pair.a, spec.key, boots=1)
    await pair.a.attach_volume(spec.key, pair.new_volume("/dev/vdd"))
    with pytest.raises(Refused):
        await pair.a.attach_volume(spec.key, pair.new_volume("/dev/vdb"))
    file = b"".join([chunk async for chunk in pair.a.read_snapshot(spec.key, quiet)])
    await pair.add_image(str(copy.image_id), file)
    await pair.made(pair.b, copy)
    await pair.b.start(copy.key)
    assert await pair.seen(pair.b, copy.key, boots=2) == mark


async def test_what_cannot_be_is_refused(pair: HypervisorPair) -> None:
    large, plain = roomy(ephemeral_gib=2), new_spec()
    small = roomy(large.key.server)
    await has_run(pair, pair.a, large)
    export = await pair.a.export_disk(large.key, "ephemeral")
    for spec in (small, plain):
        await pair.b.reserve(spec)
        with pytest.raises(Refused):
            await pair.b.import_disk(spec, export, quiet, "ephemeral")
        assert await disks(pair.b, spec.key) == ()
    with pytest.raises(Refused):
        await pair.b.reserve(roomy(ephemeral_gib=100))


async def test_a_guest_that_was_made_without_them_stays_so(pair: HypervisorPair) -> None:
    """As one of an older version of this host is, when a move brings it back."""
    spec = new_spec()
    await has_run(pair, pair.a, spec)
    await pair.a.define(replace(spec, ephemeral_gib=1, swap_mib=8))
    await pair.a.start(spec.key)
    guest = await pair.a.look(spec.key)
    assert guest
    assert (guest.power, guest.disks) == ("running", ("root",))
