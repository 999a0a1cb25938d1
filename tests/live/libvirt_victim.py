"""A process that uses the adapter until it is killed: `libvirt_victim.py URI DIRECTORY SERVER SLOT ACT`.

It makes a tick guest, does ACT with it, says "ready" and then does nothing until somebody ends it.
"""

import asyncio
import sys
import time
from pathlib import Path

from whimbrel.adapters.libvirt import LibvirtHypervisor
from whimbrel.domain.guest import GuestKey, GuestSpec
from whimbrel.domain.ids import ProjectId, ServerId, Slot
from whimbrel.embedded.tick_guest import image
from whimbrel.sim.world.images import MemoryImages

IMAGE = "tick"
MARKER = "written by one who died"
FILE = image(MARKER)


def spec_of(server: str, slot: str) -> GuestSpec:
    return GuestSpec(
        key=GuestKey(ServerId(server), Slot(slot)),
        name="guest of a victim",
        vcpus=1,
        memory_mib=32,
        root_gib=1,
        image_id=IMAGE,
        project_id=ProjectId("p1"),
    )


def ready(_percent: int = 0) -> None:
    print("ready", flush=True)
    time.sleep(3600)  # in the event loop's thread: nothing of ours goes on


async def main(uri: str, directory: str, server: str, slot: str, act: str) -> None:
    host = LibvirtHypervisor(uri, Path(directory), MemoryImages({IMAGE: FILE}))
    spec = spec_of(server, slot)
    await host.reserve(spec)
    await host.create_disk(spec, ready if act == "create" else lambda _percent: None)
    await host.define(spec)
    if act == "export":
        await host.export_disk(spec.key)
    if act in ("run", "snapshot"):
        await host.start(spec.key)
    if act == "snapshot":
        async for _chunk in host.read_snapshot(spec.key, ready):
            pass
    ready()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
