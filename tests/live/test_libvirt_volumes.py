"""Real guests on volumes that the cloud's own storage daemon serves: they move with them, and outlive the daemon."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import POLL_S, LibvirtPair, libvirt_hosts, libvirt_pair, new_spec  # noqa: F401
from tests.processes import HANG_S
from whimbrel.adapters.qemu.storage_daemon import StorageDaemon
from whimbrel.adapters.qemu.volume_exports import NbdExports
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.ports.embedded.volume_backing import Export

pytestmark = pytest.mark.long

ENOUGH_TIME_S = 30.0
GIVES_UP_WITHIN_S = 15.0


@pytest.fixture
def pair(libvirt_pair: LibvirtPair) -> LibvirtPair:  # noqa: F811
    return libvirt_pair


class Served:
    """A volume that boots, and the daemon that serves it."""

    def __init__(self, directory: Path, image: bytes) -> None:
        self.daemon = StorageDaemon(directory / "nbd", "127.0.0.1", 0)
        self.exports = NbdExports(self.daemon)
        self._file = directory / "volume"
        self._file.write_bytes(image)
        self._id = str(uuid.uuid4())

    def export(self, attachment_id: str) -> Export:
        return Export(f"secret-{attachment_id}", self._id, self._file)

    async def attached(self) -> GuestVolume:
        """Return the volume under a new attachment."""
        attachment_id = str(uuid.uuid4())
        return GuestVolume(
            volume_id=self._id,
            attachment_id=attachment_id,
            device="/dev/vda",
            connection=await self.exports.open(self.export(attachment_id)),
            boot_index=0,
        )

    async def detached(self, volume: GuestVolume) -> None:
        await self.exports.close(self.export(volume.attachment_id).name)


@asynccontextmanager
async def served(pair: LibvirtPair) -> AsyncIterator[Served]:
    directory = pair.hosts.daemons["a"].directory / f"served-{uuid.uuid4()}"  # the guard of the hosts looks after it
    directory.mkdir()
    volume = Served(directory, pair.small_image())
    try:
        yield volume
    finally:
        await volume.daemon.end()


def on(volume: GuestVolume, server: str | None = None) -> GuestSpec:
    return replace(new_spec(server, image_id=None), has_local_root=False, volumes=(volume,))


async def test_a_guest_moves_with_its_volume_from_attachment_to_attachment(pair: LibvirtPair) -> None:
    async with served(pair) as volume:
        at_source = await volume.attached()
        old = on(at_source)
        await pair.made_on_volume(pair.a, old)
        await pair.a.start(old.key)
        mark = await pair.seen(pair.a, old.key, boots=1)
        at_target = await volume.attached()
        new = on(at_target, old.key.server)
        await pair.a.stop(old.key, ENOUGH_TIME_S)
        await pair.made_on_volume(pair.b, new)
        await pair.b.start(new.key)
        await volume.detached(at_source)
        await pair.a.destroy(old.key)
        assert await pair.seen(pair.b, new.key, boots=2) == mark
        guest = await pair.b.look(new.key)
        assert guest
        assert guest.volumes == (at_target.volume_id,)
        await pair.b.reboot(new.key, hard=False)
        assert await pair.seen(pair.b, new.key, boots=3) == mark
        await pair.b.destroy(new.key)


async def test_a_guest_finds_its_volume_again_when_the_daemon_comes_back(pair: LibvirtPair) -> None:
    async with served(pair) as volume:
        attached = await volume.attached()
        spec = on(attached)
        await pair.made_on_volume(pair.a, spec)
        await pair.a.start(spec.key)
        mark = await pair.seen(pair.a, spec.key, boots=1)
        await volume.daemon.end()
        await volume.exports.open(volume.export(attached.attachment_id))
        await pair.a.reboot(spec.key, hard=False)  # in the same process of QEMU, with the connection that broke
        assert await booted_again(pair, spec.key) == mark
        await pair.a.destroy(spec.key)


async def booted_again(pair: LibvirtPair, key: GuestKey) -> str:
    """Wait for the second boot; return what marks the disk.

    Libvirt 9.0 passes over `reconnect`: firmware that reads before QEMU is connected again gives up, and somebody has
    to press the button once more. A guest that was only slow then boots for the third time.
    """
    try:
        async with asyncio.timeout(GIVES_UP_WITHIN_S):
            return await pair.seen(pair.a, key, boots=2)
    except TimeoutError:
        with pair.hosts.connection("a") as connection:
            connection.lookupByUUIDString(key.server).reset()
    async with asyncio.timeout(HANG_S):
        while (last := pair.boots(await pair.a.console_log(key, None))[-1])[0] < 2:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
    return last[1]
