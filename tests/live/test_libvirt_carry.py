"""A real guest tells by its console that its disk came along: the same marker, one boot more, a new memory."""

import asyncio
import shutil
import uuid
from pathlib import Path

import msgspec
import pytest

from tests.contracts.hypervisors import (  # noqa: F401
    LibvirtPair,
    libvirt_hosts,
    libvirt_pair,
    new_nic,
    new_spec,
    quiet,
)
from whimbrel.adapters.qemu import durable_files, own_processes
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.guest import GuestKey
from whimbrel.embedded.tick_guest import ticks

pytestmark = pytest.mark.long

NO_TIME_S = 0.0
A_WHILE_S = 0.5
ENOUGH_TIME_S = 30.0


@pytest.fixture
def pair(libvirt_pair: LibvirtPair) -> LibvirtPair:  # noqa: F811
    return libvirt_pair


async def test_a_carried_guest_proves_its_disk(pair: LibvirtPair) -> None:
    a, b = pair.host("a"), pair.host("b")
    old = new_spec()
    new = new_spec(old.key.server, root_gib=2)
    await pair.made(a, old)
    await a.start(old.key)
    await pair.seen(a, old.key, boots=1)
    await a.stop(old.key, ENOUGH_TIME_S)
    export = await a.export_disk(old.key)
    await b.reserve(new)
    await b.import_disk(new, export, quiet)
    await a.unexport_disk(old.key)
    await b.define(new)
    await b.start(new.key)
    await pair.seen(b, new.key, boots=2)
    there = ticks(await a.console_log(old.key, None))[-1]
    here = ticks(await b.console_log(new.key, None))[-1]
    assert (here.marker, here.boots) == (there.marker, there.boots + 1)
    assert here.nonce != there.nonce
    await a.destroy(old.key)
    assert [guest.power for guest in await b.guests()] == ["running"]


async def test_a_guest_on_a_volume_proves_that_the_volume_came_along(pair: LibvirtPair) -> None:
    a, b = pair.host("a"), pair.host("b")
    root, data = pair.new_volume("/dev/vda", boot_index=0), pair.new_volume("/dev/vdb")
    old = msgspec.structs.replace(new_spec(image_id=None), has_local_root=False, volumes=(root, data))
    new = msgspec.structs.replace(old, key=new_spec(old.key.server).key)
    await pair.made_on_volume(a, old)
    await a.start(old.key)
    mark = await pair.seen(a, old.key, boots=1)
    await a.stop(old.key, ENOUGH_TIME_S)
    await pair.made_on_volume(b, new)
    await b.start(new.key)
    assert await pair.seen(b, new.key, boots=2) == mark
    guest = await b.look(new.key)
    assert guest
    assert guest.volumes == (root.volume_id, data.volume_id)
    await b.stop(new.key, ENOUGH_TIME_S)
    await b.destroy(new.key)
    await a.start(old.key)
    assert await pair.seen(a, old.key, boots=3) == mark, "what was written there is here"


async def test_a_snapshot_of_a_running_guest_is_of_its_root_disk_alone(pair: LibvirtPair) -> None:
    host, copy = pair.host("a"), new_spec(image_id=str(uuid.uuid4()))
    spec = msgspec.structs.replace(new_spec(), volumes=(pair.new_volume(),))
    await pair.made(host, spec)
    await host.start(spec.key)
    mark = await pair.seen(host, spec.key, boots=1)
    await pair.add_image(str(copy.image_id), b"".join([chunk async for chunk in host.read_snapshot(spec.key, quiet)]))
    await pair.made(host, copy)
    await host.start(copy.key)
    assert await pair.seen(host, copy.key, boots=2) == mark
    assert [guest.power for guest in await host.guests()] == ["running", "running"]


async def test_a_volume_can_be_a_file_of_the_host(pair: LibvirtPair) -> None:
    host, spec, file = pair.host("a"), new_spec(), pair.directory("a") / "volume"
    file.write_bytes(bytes(1 << 20))
    shutil.chown(file, file.parent.owner())
    connection = {"driver_volume_type": "local", "data": {"device_path": str(file)}}
    volume = msgspec.structs.replace(pair.new_volume(), connection=connection)
    await pair.made(host, spec)
    await host.start(spec.key)
    await pair.seen(host, spec.key, boots=1)
    await host.attach_volume(spec.key, volume)
    await host.detach_volume(spec.key, volume.volume_id)
    assert [guest.volumes for guest in await host.guests()] == [()]


async def test_a_volume_whose_server_is_away_is_no_lost_volume(pair: LibvirtPair) -> None:
    host, spec = pair.host("a"), new_spec()
    nowhere = {"driver_volume_type": "nbd", "data": {"server": "127.0.0.1", "port": 1, "export": "none"}}
    volume = pair.new_volume()
    away = msgspec.structs.replace(volume, connection=nowhere)
    await pair.made(host, spec)
    await host.start(spec.key)
    await pair.seen(host, spec.key, boots=1)
    with pytest.raises(Unavailable):
        await host.attach_volume(spec.key, away)
    assert [guest.volumes for guest in await host.guests()] == [()]
    await host.attach_volume(spec.key, volume)
    assert [guest.volumes for guest in await host.guests()] == [(volume.volume_id,)]
    await host.stop(spec.key, ENOUGH_TIME_S)
    await host.attach_volume(spec.key, away)
    with pytest.raises(Unavailable):
        await host.start(spec.key)
    await host.attach_volume(spec.key, volume)
    await host.start(spec.key)


async def test_a_guest_that_hears_nothing_keeps_its_device_and_is_waited_for(pair: LibvirtPair) -> None:
    host, nic = pair.host("a", releases_within_s=A_WHILE_S), new_nic()
    spec = msgspec.structs.replace(new_spec(image_id=None), nics=(nic,))
    await pair.made(host, spec)
    await host.start(spec.key)  # an empty disk: the BIOS finds nothing to boot, and gives nothing back
    with pytest.raises(Unavailable, match="not released"):
        await host.unplug(spec.key, nic.port_id)
    assert [guest.ports for guest in await host.guests()] == [(nic.port_id,)]
    await host.stop(spec.key, NO_TIME_S)
    await host.unplug(spec.key, nic.port_id)
    assert [guest.ports for guest in await host.guests()] == [()]


async def test_a_guest_that_does_not_listen_is_switched_off(pair: LibvirtPair) -> None:
    host, spec = pair.host("a"), new_spec(image_id=None)
    await pair.made(host, spec)
    await host.start(spec.key)  # an empty disk: the BIOS finds nothing to boot and nobody hears the button
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await host.stop(spec.key, 0.5)
    assert loop.time() - begun >= 0.5
    assert [guest.power for guest in await host.guests()] == ["stopped"]


async def test_only_who_has_the_key_can_read_an_export(pair: LibvirtPair) -> None:
    host, spec, thief = pair.host("a"), new_spec(), new_spec()
    await host.reserve(spec)
    await host.create_disk(spec, quiet)
    await pair.b.reserve(thief)
    export = await host.export_disk(spec.key)
    _, _, address = export.location.partition("@")
    guessed = msgspec.structs.replace(export, location=f"nbds://whimbrel:{'0' * 64}@{address}")
    with pytest.raises(Unavailable):
        await pair.b.import_disk(thief, guessed, quiet)
    with pytest.raises(Unavailable):
        await Tools(None).run("qemu-img", "info", f"nbd://{address}")


@pytest.mark.parametrize("lie", ["backing file", "not a qcow2", "a vmdk", "cut short"])
async def test_images_that_lie_are_not_run(pair: LibvirtPair, lie: str) -> None:

    async def _lying(lie: str, directory: Path) -> bytes:
        path = directory / "lie.qcow2"
        backing = ["-b", "/etc/hostname", "-F", "raw"] if lie == "backing file" else []
        await Tools(None).run("qemu-img", "create", "-q", "-f", "qcow2", *backing, str(path), "1M")
        whole = path.read_bytes()
        return {"not a qcow2": b"MZ" * 4096, "cut short": whole[:100]}.get(lie, whole)

    host, spec = pair.host("a"), new_spec(image_id="lie")
    file = await _lying(lie, pair.hosts.root)
    disk_format = "vmdk" if lie == "a vmdk" else "qcow2"
    await pair.add_image("lie", file, disk_format)
    await host.reserve(spec)
    with pytest.raises(Refused):
        await host.create_disk(spec, quiet)
    guest = await host.look(spec.key)
    assert guest
    assert not guest.has_disk


async def test_nothing_is_left_of_a_guest_that_was_destroyed(pair: LibvirtPair) -> None:
    host, spec = pair.host("a"), new_spec()
    await pair.made(host, spec)
    await host.export_disk(spec.key)
    await host.destroy(spec.key)
    left = [path for path in pair.directory("a").rglob("*") if spec.key.server in str(path)]
    assert left == []
    assert await own_processes.at_work("qemu-", pair.directory("a")) == []


async def test_a_guest_whose_directory_was_lost_is_still_seen(pair: LibvirtPair) -> None:
    host, spec = pair.host("a"), new_spec()
    await pair.made(host, spec)
    await host.start(spec.key)
    slot = pair.directory("a") / "guests" / spec.key.server / spec.key.slot
    slot.rename(pair.hosts.root / f"lost-{spec.key.slot}")
    (guest,) = await host.guests()
    assert guest == await host.look(spec.key)
    assert (guest.key, guest.power, guest.memory_mib, guest.has_disk) == (spec.key, "running", 32, False)
    await host.destroy(spec.key)
    assert await host.guests() == []


async def test_names_that_lead_out_of_the_directory_are_refused(pair: LibvirtPair) -> None:
    spec = new_spec()
    for server, slot in (("../../x", "y"), (spec.key.server, ".."), (spec.key.server, "a/b"), ("", "x")):
        with pytest.raises(Refused):
            await pair.a.look(GuestKey(server, slot))  # type: ignore[arg-type]


async def test_new_files_belong_to_whom_the_directory_belongs(pair: LibvirtPair) -> None:
    host, spec = pair.host("a"), new_spec()
    await pair.made(host, spec)
    owner = durable_files.Owner.of(pair.directory("a"))
    disk = pair.directory("a") / "guests" / spec.key.server / spec.key.slot / "disk.qcow2"
    for path in (disk, disk.parent, disk.with_name("spec.json")):
        assert owner is None or path.stat().st_uid == owner.uid
