"""What every hypervisor does when a volume of a guest has become larger: a live guest sees it without a restart."""

import os
import uuid
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import ALSO_REAL, HypervisorPair, LibvirtPair, new_spec
from tests.contracts.test_hypervisor_devices import NO_TIME_S, looked
from tests.contracts.test_volume_swaps import seen, ticking
from tests.contracts.volume_connectors import LoopDevices
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestSpec
from whimbrel.domain.local_disks import GIB, MIB
from whimbrel.domain.server_devices import GuestVolume

KINDS = ["of a share", pytest.param("served", marks=pytest.mark.long)]
HAS_LOOPS = os.geteuid() == 0 and Path("/dev/loop-control").exists()


async def booted(pair: HypervisorPair, kind: str = "served") -> tuple[GuestSpec, GuestVolume]:
    """Boot a guest with a volume beside its disk on host a."""
    volume = pair.new_volume() if kind == "served" else pair.new_share_volume()
    spec = replace(new_spec(), volumes=(volume,))
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    await seen(pair, pair.a, spec.key, boots=1)
    return spec, volume


@ALSO_REAL
@pytest.mark.parametrize("kind", KINDS)
async def test_a_live_guest_sees_the_new_size(pair: HypervisorPair, kind: str) -> None:
    spec, volume = await booted(pair, kind)
    assert await pair.size_gib(pair.a, spec.key, volume) == 0
    for size_gib, state in ((1, "running"), (2, "paused")):
        if state == "paused":
            await pair.a.pause(spec.key)
        await pair.enlarge(volume, size_gib)
        for _ in "ab":
            await pair.a.extend_volume(spec.key, volume.volume_id, size_gib)
            pair.restart()
            assert await pair.size_gib(pair.a, spec.key, volume) == size_gib
    assert (await looked(pair.a, spec.key)).power == "paused"
    await pair.a.resume(spec.key)
    await ticking(pair, spec)
    await pair.a.extend_volume(spec.key, volume.volume_id, 1)  # a late order
    assert await pair.size_gib(pair.a, spec.key, volume) == 2, "it never becomes smaller"
    await pair.a.destroy(spec.key)


async def test_a_stopped_guest_sees_it_when_it_starts(pair: HypervisorPair) -> None:
    spec, volume = await booted(pair)
    await pair.a.stop(spec.key, NO_TIME_S)
    await pair.enlarge(volume, 1)
    for _ in "ab":
        await pair.a.extend_volume(spec.key, volume.volume_id, 1)
    assert (await looked(pair.a, spec.key)).power == "stopped"
    await pair.a.start(spec.key)
    await pair.a.extend_volume(spec.key, volume.volume_id, 1)
    assert await pair.size_gib(pair.a, spec.key, volume) == 1
    await pair.a.destroy(spec.key)


async def test_what_is_no_volume_of_the_guest_is_refused(pair: HypervisorPair) -> None:
    spec, volume = await booted(pair)
    with pytest.raises(Refused, match="no volume"):
        await pair.a.extend_volume(spec.key, str(uuid.uuid4()), 1)
    with pytest.raises(NotFound):
        await pair.a.extend_volume(new_spec().key, volume.volume_id, 1)
    await pair.a.suspend(spec.key)
    with pytest.raises(Refused, match="suspended"):
        await pair.a.extend_volume(spec.key, volume.volume_id, 1)
    await pair.a.destroy(spec.key)


@pytest.mark.long
@pytest.mark.skipif(not HAS_LOOPS, reason="only root can make loop devices")
async def test_a_guest_sees_the_new_size_of_a_block_device(libvirt_pair: LibvirtPair, tmp_path: Path) -> None:
    """The host looks at it first: the kernel does not notice that it has become larger."""
    pair, file, target = libvirt_pair, tmp_path / "target", {"target_iqn": "iqn.2004-10.example:target"}
    with file.open("wb") as made:
        made.truncate(MIB)
    devices = LoopDevices({target["target_iqn"]: file}, pair.directory("a").owner())
    volume = replace(pair.new_volume(), connection={"driver_volume_type": "iscsi", "data": target})
    spec = replace(new_spec(), volumes=(volume,))
    pair.a = pair.host("a", storage=devices)
    await pair.made(pair.a, spec)
    await pair.a.start(spec.key)
    with pytest.raises(Refused, match=f"the host sees {MIB}"):
        await pair.a.extend_volume(spec.key, volume.volume_id, 1)
    os.truncate(file, GIB)
    for _ in "ab":
        await pair.a.extend_volume(spec.key, volume.volume_id, 1)
        assert await pair.size_gib(pair.a, spec.key, volume) == 1
    await pair.a.destroy(spec.key)
    assert not devices.device(target)
    pair.restart()
