"""What every hypervisor does with nics, volumes and PCI devices: at once in a running guest, else at its start."""

import uuid

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, new_nic, new_spec, quiet
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import DiskExport, Guest, GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestNic, GuestVolume
from whimbrel.ports.hosts.hypervisor import Hypervisor

NO_TIME_S = 0.0
PCI = "0000:81:00.1"


async def made(pair: HypervisorPair, spec: GuestSpec, state: str) -> None:
    """Create a guest on host a, `stopped` or `running` and booted."""
    await pair.made(pair.a, spec)
    if state == "running":
        await pair.a.start(spec.key)
        await pair.seen(pair.a, spec.key, boots=1)


async def looked(host: Hypervisor, key: GuestKey) -> Guest:
    guest = await host.look(key)
    assert guest
    return guest


async def has(host: Hypervisor, key: GuestKey) -> tuple[tuple[str, ...], tuple[str, ...]]:
    guest = await looked(host, key)
    assert guest in await host.guests()
    return guest.ports, guest.volumes


def ids(nics: tuple[GuestNic, ...], volumes: tuple[GuestVolume, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(nic.port_id for nic in nics), tuple(volume.volume_id for volume in volumes)


def on_volume(spec: GuestSpec, *volumes: GuestVolume) -> GuestSpec:
    return replace(spec, image_id=None, has_local_root=False, volumes=volumes)


@ALSO_REAL
async def test_a_guest_has_exactly_what_it_was_defined_with_last(pair: HypervisorPair) -> None:
    nics, volumes = (new_nic(), new_nic()), (pair.new_volume("/dev/vdb"), pair.new_volume("/dev/vdc"))
    first = replace(new_spec(), nics=nics[:1], volumes=volumes)
    second = replace(first, nics=nics[::-1], volumes=volumes[1:])
    await pair.a.reserve(first)
    await pair.a.create_disk(first, quiet)
    assert await has(pair.a, first.key) == ((), ())
    for spec in (first, first, second):
        await pair.a.define(spec)
        assert await has(pair.a, spec.key) == ids(spec.nics, spec.volumes)
    await pair.a.start(second.key)
    await pair.seen(pair.a, second.key, boots=1)
    await pair.a.define(first)
    assert await has(pair.a, second.key) == ids(second.nics, second.volumes), "what runs stays as it is"
    pair.restart()
    assert await has(pair.a, second.key) == ids(second.nics, second.volumes)
    await pair.a.stop(second.key, NO_TIME_S)
    assert await has(pair.a, second.key) == ids(second.nics, second.volumes)
    await pair.a.define(first)
    assert await has(pair.a, first.key) == ids(first.nics, first.volumes)


@pytest.mark.parametrize("state", ["stopped", "running"])
async def test_a_nic_is_plugged_and_unplugged(pair: HypervisorPair, state: str) -> None:
    first, second = new_nic(), new_nic()
    spec = replace(new_spec(), nics=(first,))
    await made(pair, spec, state)
    for _ in "ab":
        await pair.a.plug(spec.key, second)
        assert await has(pair.a, spec.key) == ids((first, second), ())
    await pair.a.reboot(spec.key, hard=True)
    assert await has(pair.a, spec.key) == ids((first, second), ())
    await pair.seen(pair.a, spec.key, boots=2 if state == "running" else 1)
    if state == "stopped":
        await pair.a.stop(spec.key, NO_TIME_S)
    pair.restart()
    for _ in "ab":
        await pair.a.unplug(spec.key, first.port_id)
        assert await has(pair.a, spec.key) == ids((second,), ())
    await pair.a.reboot(spec.key, hard=True)
    assert await has(pair.a, spec.key) == ids((second,), ())


@pytest.mark.parametrize("state", ["stopped", "running"])
async def test_a_volume_is_attached_and_detached(pair: HypervisorPair, state: str) -> None:
    first, second = pair.new_volume("/dev/vdb"), pair.new_volume("/dev/vdc")
    spec = replace(new_spec(), volumes=(first,))
    await made(pair, spec, state)
    for _ in "ab":
        await pair.a.attach_volume(spec.key, second)
        assert await has(pair.a, spec.key) == ids((), (first, second))
    await pair.a.reboot(spec.key, hard=True)
    assert await has(pair.a, spec.key) == ids((), (first, second))
    await pair.seen(pair.a, spec.key, boots=2 if state == "running" else 1)
    if state == "stopped":
        await pair.a.stop(spec.key, NO_TIME_S)
    pair.restart()
    for _ in "ab":
        await pair.a.detach_volume(spec.key, first.volume_id)
        assert await has(pair.a, spec.key) == ids((), (second,))
    await pair.a.reboot(spec.key, hard=True)
    assert await has(pair.a, spec.key) == ids((), (second,))


@ALSO_REAL
async def test_a_volume_keeps_its_place_under_a_new_connection(pair: HypervisorPair) -> None:
    first, second = pair.new_volume("/dev/vdb"), pair.new_volume("/dev/vdc")
    spec = replace(new_spec(), volumes=(first, second))
    await pair.made(pair.a, spec)
    elsewhere = replace(first, connection=pair.new_volume().connection, attachment_id=str(uuid.uuid4()))
    await pair.a.attach_volume(spec.key, elsewhere)
    assert await has(pair.a, spec.key) == ids((), (first, second))
    await pair.a.start(spec.key)
    await pair.seen(pair.a, spec.key, boots=1)


@ALSO_REAL
async def test_undoing_what_never_was_is_fine(pair: HypervisorPair) -> None:
    spec = new_spec()
    for phase in (None, pair.a.reserve, lambda spec: pair.a.create_disk(spec, quiet), pair.a.define):
        if phase:
            await phase(spec)
        await pair.a.unplug(spec.key, str(uuid.uuid4()))
        await pair.a.detach_volume(spec.key, str(uuid.uuid4()))
    assert (await looked(pair.a, spec.key)).power == "stopped"


@ALSO_REAL
async def test_nothing_is_put_into_a_guest_that_is_not_defined(pair: HypervisorPair) -> None:
    spec, nic, volume = new_spec(), new_nic(), pair.new_volume()
    for _ in "ab":
        with pytest.raises(NotFound):
            await pair.a.plug(spec.key, nic)
        with pytest.raises(NotFound):
            await pair.a.attach_volume(spec.key, volume)
        await pair.a.reserve(replace(spec, nics=(nic,)))
    assert await has(pair.a, spec.key) == ((), ())


@pytest.mark.parametrize("state", ["stopped", "running"])
async def test_what_cannot_be_is_refused_and_changes_nothing(pair: HypervisorPair, state: str) -> None:
    nic, volume = new_nic(), pair.new_volume("/dev/vdb")
    spec = replace(new_spec(), nics=(nic,), volumes=(volume,))
    await made(pair, spec, state)
    for device in ("/dev/vdb", "/dev/vda", "vdc", "/dev/sdb"):
        with pytest.raises(Refused):
            await pair.a.attach_volume(spec.key, pair.new_volume(device))
    with pytest.raises(Refused, match="no connection"):
        await pair.a.attach_volume(spec.key, replace(pair.new_volume("/dev/vdc"), connection={}))
    for vif_type in ("unbound", "binding_failed"):
        with pytest.raises(Refused, match="not bound"):
            await pair.a.plug(spec.key, replace(new_nic(), vif_type=vif_type))
    other = new_spec()
    await pair.made(pair.a, other)
    with pytest.raises(Refused, match=nic.port_id):
        await pair.a.plug(other.key, nic)
    with pytest.raises(Refused, match=nic.port_id):
        await pair.a.define(replace(other, nics=(nic,)))
    assert await has(pair.a, other.key) == ((), ())
    assert await has(pair.a, spec.key) == ids((nic,), (volume,))


@ALSO_REAL
async def test_no_guest_is_defined_with_a_thing_twice(pair: HypervisorPair) -> None:
    spec, nic, volume = new_spec(), new_nic(), pair.new_volume()
    await pair.a.reserve(spec)
    await pair.a.create_disk(spec, quiet)
    for twice in (
        replace(spec, nics=(nic, nic)),
        replace(spec, volumes=(volume, replace(volume, device="/dev/vdc"))),
        replace(spec, volumes=(volume, replace(pair.new_volume(), device=volume.device))),
        replace(spec, pci=(PCI, PCI)),
        replace(spec, pci=(PCI,), nics=(replace(nic, vif_type="hw_veb", pci_address=PCI),)),
    ):
        with pytest.raises(Refused, match="already"):
            await pair.a.define(twice)
    assert (await looked(pair.a, spec.key)).power == "reserved"


async def test_two_slots_of_a_server_have_their_own(pair: HypervisorPair) -> None:
    nic, volume = new_nic(), pair.new_volume()
    old = replace(new_spec(), nics=(nic,), volumes=(volume,))
    new = replace(new_spec(old.key.server), nics=(nic,), volumes=(volume,))
    await made(pair, old, "running")
    await pair.made(pair.a, new)
    assert await has(pair.a, new.key) == ids((nic,), (volume,))
    added = new_nic()
    await pair.a.plug(new.key, added)
    await pair.a.unplug(new.key, nic.port_id)
    await pair.a.detach_volume(new.key, volume.volume_id)
    assert await has(pair.a, old.key) == ids((nic,), (volume,)), "the one that runs was not meant"
    await pair.a.stop(old.key, NO_TIME_S)
    await pair.a.start(new.key)
    await pair.seen(pair.a, new.key, boots=1)
    assert await has(pair.a, new.key) == ids((added,), ())
    await pair.a.detach_volume(old.key, volume.volume_id)
    await pair.a.destroy(new.key)
    assert await has(pair.a, old.key) == ids((nic,), ())


async def test_a_guest_boots_from_its_volume(pair: HypervisorPair) -> None:
    boots, other = pair.new_volume("/dev/vda", boot_index=0), pair.new_volume("/dev/vdb")
    spec = on_volume(replace(new_spec(), root_gib=(await pair.a.capacity()).disk_gib + 1), boots)
    await pair.a.reserve(spec)
    assert not (await looked(pair.a, spec.key)).has_disk
    for _ in "ab":
        await pair.a.define(spec)
        guest = await looked(pair.a, spec.key)
        assert (guest.power, guest.has_disk, guest.volumes) == ("stopped", True, (boots.volume_id,))
    for _ in "ab":
        await pair.a.start(spec.key)
    await pair.a.attach_volume(spec.key, other)
    with pytest.raises(Refused, match=boots.volume_id):
        await pair.a.detach_volume(spec.key, boots.volume_id)
    assert await has(pair.a, spec.key) == ids((), (boots, other))
    await pair.a.stop(spec.key, NO_TIME_S)
    await pair.a.discard_disk(spec.key)
    assert (await looked(pair.a, spec.key)).has_disk
    await pair.a.destroy(spec.key)
    assert await pair.a.guests() == []


async def test_a_guest_without_anything_to_boot_from_is_not_started(pair: HypervisorPair) -> None:
    spec = on_volume(new_spec(), pair.new_volume("/dev/vda", boot_index=0))
    await pair.made_on_volume(pair.a, spec)
    await pair.a.detach_volume(spec.key, spec.volumes[0].volume_id)
    for verb in (pair.a.start(spec.key), pair.a.reboot(spec.key, hard=True)):
        with pytest.raises(Refused, match="boot"):
            await verb
    assert (await looked(pair.a, spec.key)).power == "stopped"
    await pair.a.define(spec)
    await pair.a.start(spec.key)
    assert (await looked(pair.a, spec.key)).power == "running"


async def test_a_guest_that_boots_from_a_volume_has_no_disk_to_make_or_give(pair: HypervisorPair) -> None:
    spec = on_volume(new_spec(), pair.new_volume("/dev/vda", boot_index=0))
    await pair.made_on_volume(pair.a, spec)
    with pytest.raises(Refused):
        await pair.a.create_disk(spec, quiet)
    with pytest.raises(Refused):
        await pair.a.import_disk(spec, DiskExport(scheme="simulated", location="a/b/c", size_bytes=1), quiet)
    with pytest.raises(NotFound):
        await pair.a.export_disk(spec.key)
    with pytest.raises(NotFound):
        assert not [chunk async for chunk in pair.a.read_snapshot(spec.key, quiet)]


async def test_pci_devices_are_kept_and_told(pair: HypervisorPair) -> None:
    vf = replace(new_nic(), vif_type="hw_veb", pci_address="0000:81:10.3", vif_details={"vlan": 7}, mtu=None)
    spec = replace(new_spec(), pci=(PCI,), nics=(new_nic(), vf))
    await pair.a.reserve(spec)
    await pair.a.create_disk(spec, quiet)
    assert (await looked(pair.a, spec.key)).pci == ()
    await pair.a.define(spec)
    pair.restart()
    assert (await looked(pair.a, spec.key)).pci == (PCI, "0000:81:10.3")
    await pair.a.unplug(spec.key, vf.port_id)
    assert (await looked(pair.a, spec.key)).pci == (PCI,)
    await pair.a.define(replace(spec, pci=()))
    assert (await looked(pair.a, spec.key)).pci == ("0000:81:10.3",)


async def test_a_host_tells_volume_services_what_it_is(pair: HypervisorPair) -> None:
    connector = await pair.a.connector()
    assert connector == await pair.a.connector()
    assert connector.items() >= {"os_type": "linux", "multipath": False}.items()
    assert connector["host"]
    assert connector["ip"]
    assert connector["platform"]
