"""A process that starts a live transfer, and is killed: `libvirt_transfer_victim.py ORDER`.

ORDER is JSON, see Order. It says "begins", starts the transfer, and is there until somebody ends it.
"""

import asyncio
import sys
from pathlib import Path

import msgspec

from whimbrel.adapters.libvirt import LibvirtHypervisor
from whimbrel.adapters.libvirt.migration_settings import MigrationSettings
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.live_transfer import TransferOptions, TransferTarget
from whimbrel.sim.world.images import MemoryImages


class Order(msgspec.Struct, frozen=True):
    uri: str
    directory: str
    key: GuestKey
    target: TransferTarget
    options: TransferOptions


async def main(order: Order) -> None:
    settings = MigrationSettings(peer_uri=order.uri, emulated="allow")
    host = LibvirtHypervisor(order.uri, Path(order.directory), MemoryImages({}), nics="user", migration=settings)
    print("begins", flush=True)
    await host.start_transfer(order.key, order.target, order.options)
    await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Order)))
