"""Real guests on volumes that os-brick connects: directories of this machine stand in for the NFS shares it mounts."""

import asyncio
import os
import shutil
import struct
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import POLL_S, SHARE, LibvirtPair, libvirt_hosts, libvirt_pair, new_spec  # noqa: F401
from tests.contracts.volume_connectors import PlayedShares
from tests.processes import HANG_S
from whimbrel.adapters.libvirt import LibvirtHypervisor
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.ids import Slot
from whimbrel.domain.live_transfer import TransferOptions
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.embedded.tick_guest import SECTOR_BYTES, image

pytestmark = pytest.mark.long

STOP_S = 30.0


class Shared:
    """The hosts of a pair with os-brick, and the share of their volumes."""

    def __init__(self, pair: LibvirtPair, directory: Path) -> None:
        self.pair = pair
        self.share = directory / "share"
        for path in (directory, self.share):
            path.mkdir(mode=0o711)
            path.chmod(0o711)
        self.played = {name: PlayedShares({SHARE: self.share}, directory / name) for name in ("a", "b")}
        for name in self.played:
            (directory / name).chmod(0o711)

    def host(self, name: str) -> LibvirtHypervisor:
        """Return a host, each time by a new object: as after a kill -9."""
        return self.pair.host(name, storage=self.played[name].client())

    def mounted(self) -> list[str]:
        """Return the hosts that have the share mounted, once for each mount."""
        return [name for name, played in self.played.items() for _ in played.mounted()]

    def volume(self, device: str = "/dev/vdb", boot_index: int | None = None) -> GuestVolume:
        volume_id = str(uuid.uuid4())
        file = self.share / f"volume-{volume_id}"
        file.write_bytes(image("shared", for_live_moves=True))
        shutil.chown(file, self.pair.hosts.daemons["a"].guests_dir.owner())
        data = {"export": SHARE, "name": file.name, "options": None, "format": "raw", "encrypted": False}
        return GuestVolume(
            volume_id=volume_id,
            attachment_id=str(uuid.uuid4()),
            device=device,
            connection={"driver_volume_type": "nfs", "data": data},
            boot_index=boot_index,
        )

    def snapshotted(self, device: str) -> GuestVolume:
        """Return a volume with a snapshot, in a connection whose format is that before it."""
        volume = self.volume(device)
        data = volume.connection["data"]
        file = self.share / f"{data['name']}.{uuid.uuid4()}"
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-b", data["name"], "-F", "raw", str(file)], check=True
        )
        shutil.chown(file, self.pair.hosts.daemons["a"].guests_dir.owner())
        return replace(volume, connection={**volume.connection, "data": {**data, "name": file.name}})

    def boots(self, volume: GuestVolume) -> int:
        """Return how often a guest has counted its boots on a volume."""
        content = (self.share / f"volume-{volume.volume_id}").read_bytes()
        return int(struct.unpack_from("<I", content, SECTOR_BYTES)[0])

    async def booted(self, volume: GuestVolume, boots: int) -> None:
        async with asyncio.timeout(HANG_S):
            while self.boots(volume) != boots:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)


@pytest.fixture
def shared(libvirt_pair: LibvirtPair) -> Iterator[Shared]:  # noqa: F811
    if os.geteuid():
        pytest.skip("only root can mount shares")
    shared = Shared(libvirt_pair, libvirt_pair.hosts.root / f"shared-{uuid.uuid4().hex[:8]}")
    libvirt_pair.a, libvirt_pair.b = shared.host("a"), shared.host("b")
    yield shared
    for played in shared.played.values():
        played.close()


def on(volume: GuestVolume, *more: GuestVolume, server: str | None = None) -> GuestSpec:
    return replace(new_spec(server, image_id=None), has_local_root=False, volumes=(volume, *more))


def slot_at_target(spec: GuestSpec) -> GuestSpec:
    return replace(spec, key=GuestKey(spec.key.server, Slot(str(uuid.uuid4()))))


async def test_a_guest_writes_to_its_volume_wherever_it_moves(shared: Shared) -> None:
    root, data = shared.volume("/dev/vda", boot_index=0), shared.volume()
    here = on(root)
    await shared.pair.made_on_volume(shared.host("a"), here)
    assert shared.mounted() == []
    await shared.host("a").start(here.key)
    await shared.booted(root, 1)
    for _ in "ab":
        await shared.host("a").attach_volume(here.key, data)
    assert shared.mounted() == ["a"]

    there = slot_at_target(replace(here, volumes=(root, data)))
    await shared.pair.made_on_volume(shared.host("b"), there)
    await shared.host("a").stop(here.key, STOP_S)
    assert shared.mounted() == [], "before the attachment is deleted"
    await shared.host("b").start(there.key)
    await shared.booted(root, 2)
    await shared.host("a").destroy(here.key)
    assert shared.mounted() == ["b"]
    guest = await shared.host("b").look(there.key)
    assert guest
    assert guest.volumes == (root.volume_id, data.volume_id)

    await shared.host("b").detach_volume(there.key, data.volume_id)
    assert shared.mounted() == ["b"]
    await shared.host("b").destroy(there.key)
    assert shared.mounted() == []


async def test_a_guest_is_transferred_live_with_its_volume(shared: Shared) -> None:
    root = shared.volume("/dev/vda", boot_index=0)
    here = on(root)
    a, b = shared.host("a"), shared.host("b")
    await shared.pair.made_on_volume(a, here)
    await a.start(here.key)
    await shared.booted(root, 1)
    memory = await shared.pair.memory(a, here.key)
    there = slot_at_target(here)
    await b.reserve(there)
    target = await b.receive(there, await a.examine(here.key))
    await shared.host("b").release_volumes()
    assert shared.mounted() == ["a", "b"], "both are needed until the guest has left"
    await a.start_transfer(here.key, target, TransferOptions())
    async with asyncio.timeout(HANG_S):
        while (progress := await a.transfer_progress(here.key, target.address)).state == "active":  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
    assert progress.state == "arrived", progress
    await b.settle_arrival(there.key)
    await a.destroy(here.key)
    assert shared.mounted() == ["b"]
    assert await shared.pair.memory(b, there.key) == memory
    assert shared.boots(root) == 1
    await b.stop(there.key, STOP_S)
    assert shared.mounted() == []


async def test_a_target_that_waited_in_vain_lets_the_share_go(shared: Shared) -> None:
    root = shared.volume("/dev/vda", boot_index=0)
    here = on(root)
    await shared.pair.made_on_volume(shared.host("a"), here)
    await shared.host("a").start(here.key)
    there = slot_at_target(here)
    await shared.host("b").reserve(there)
    await shared.host("b").receive(there, await shared.host("a").examine(here.key))
    await shared.host("b").destroy(there.key)
    assert shared.mounted() == ["a"]


async def test_what_a_killed_agent_has_left_is_ended_by_the_next(shared: Shared) -> None:
    root = shared.volume("/dev/vda", boot_index=0)
    spec = on(root)
    await shared.pair.made_on_volume(shared.host("a"), spec)
    order = asyncio.create_task(shared.host("a").start(spec.key))  # killed between the connection and the boot
    async with asyncio.timeout(HANG_S):
        while not shared.mounted():  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
    order.cancel()
    await asyncio.wait([order])
    await shared.host("a").start(spec.key)
    await shared.booted(root, 1)
    with shared.pair.hosts.connection("a") as libvirtd:
        libvirtd.lookupByUUIDString(spec.key.server).destroy()  # it ends by itself, and nothing is ordered
    assert shared.mounted() == ["a"]
    await shared.host("a").release_volumes()
    assert shared.mounted() == []
    await shared.host("a").start(spec.key)
    await shared.booted(root, 2)


async def test_what_cannot_be_connected_leaves_the_guest_as_it_is(shared: Shared) -> None:
    root, lost = shared.volume("/dev/vda", boot_index=0), shared.volume()
    spec = on(root)
    await shared.pair.made_on_volume(shared.host("a"), spec)
    await shared.host("a").start(spec.key)
    await shared.booted(root, 1)
    (shared.share / f"volume-{lost.volume_id}").unlink()
    foreign = replace(lost, connection={"driver_volume_type": "fibre_channel", "data": {"target_lun": 1}})
    encrypted = {"driver_volume_type": "nfs", "data": {**lost.connection["data"], "encrypted": True}}
    for volume in (lost, foreign, replace(lost, connection=encrypted), shared.snapshotted("/dev/vdc")):
        with pytest.raises(Refused, match=r"no file|adapter|is encrypted|is said to be raw, and is qcow2"):
            await shared.host("a").attach_volume(spec.key, volume)
    guest = await shared.host("a").look(spec.key)
    assert guest
    assert (guest.power, guest.volumes) == ("running", (root.volume_id,))
    await shared.host("a").detach_volume(spec.key, lost.volume_id)
    assert shared.mounted() == ["a"]
