"""The PCI devices of a cell's hosts on SQL."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import UNSET
from sqlalchemy import bindparam

from whimbrel.adapters.sql.cell.fences import pass_fence
from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.cell import pci_devices as devices
from whimbrel.domain.guest import GuestKey, Order
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.domain.pci import HeldDevice, PciDevice, PciRequest, choose
from whimbrel.ports.stores.pci_devices import DeviceCount

_WORDS = ("vendor_id", "product_id", "physnet", "parent_ifname")
_FACTS = (*_WORDS, "live_migratable")
_NOBODY: dict[str, None] = {"server_id": None, "slot": None, "request": None}

_ON_HOST = devices.c.host == bindparam("b_host")
_THIS = sa.and_(_ON_HOST, devices.c.address == bindparam("b_address"))
_of = fixed(sa.select(devices).where(_ON_HOST).order_by(devices.c.address))
_of_held = fixed(_of.with_for_update())  # the same lock order everywhere prevents deadlocks
_held_ones = fixed(
    sa.select(devices).where(devices.c.server_id.is_not(None)).order_by(devices.c.host, devices.c.address)
)
_counts = fixed(
    sa.select(
        devices.c.host,
        sa.func.count().label("offered"),
        sa.func.count().filter(devices.c.server_id.is_(None)).label("free"),
    )
    .where(devices.c.is_withdrawn.is_(False))
    .group_by(devices.c.host)
)
_insert = fixed(sa.insert(devices))
_delete = fixed(sa.delete(devices).where(_THIS))
_offer = fixed(sa.update(devices).where(_THIS).values({name: bindparam(name) for name in (*_FACTS, "is_withdrawn")}))
_hold = fixed(sa.update(devices).where(_THIS).values({name: bindparam(name) for name in _NOBODY}))


class SqlDevices:
    """Implements ports.stores.pci_devices.Devices."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def of(self, host: HostName) -> list[HeldDevice]:
        return [_held(row) for row in await self._db.rows(_of, {"b_host": host})]

    async def counts(self) -> dict[HostName, DeviceCount]:
        rows = await self._db.rows(_counts, {})
        return {HostName(row.host): DeviceCount(offered=row.offered, free=row.free) for row in rows}

    async def held(self) -> list[tuple[HostName, HeldDevice]]:
        return [(HostName(row.host), _held(row)) for row in await self._db.rows(_held_ones, {})]

    async def register(self, host: HostName, devices: Sequence[PciDevice]) -> None:
        offered = {device.address: device for device in devices}
        async with self._db.write() as tx:
            known = {held.device.address: held for held in await _locked(tx, host)}
            for held in known.values():
                await _keep_or_drop(tx, host, held, offered.get(held.device.address))
            for address in sorted(offered.keys() - known.keys()):
                facts = _facts(offered[address])
                await tx.run(_insert, {"host": host, "address": address, "is_withdrawn": False, **facts, **_NOBODY})

    async def claim(self, order: Order, host: HostName, consumer: GuestKey, wanted: Sequence[PciRequest]) -> list[str]:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            known = await _locked(tx, host)
            chosen = choose(known, consumer, wanted)
            free = {held.device.address for held in known if held.holder is None}
            for request, addresses in chosen.items():
                holder = {"server_id": consumer.server, "slot": consumer.slot, "request": request}
                for address in free.intersection(addresses):
                    await tx.run(_hold, {"b_host": host, "b_address": address, **holder})
        return [address for request in wanted for address in chosen[request.id]]

    async def release(
        self, order: Order, host: HostName, consumer: GuestKey, requests: Sequence[str] | None = None
    ) -> None:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            for held in await _locked(tx, host):
                if held.holder == consumer and (requests is None or held.request in requests):
                    at = {"b_host": host, "b_address": held.device.address}
                    await tx.run(*(_delete, at) if held.is_withdrawn else (_hold, {**at, **_NOBODY}))

    async def hand(self, order: Order, host: HostName, giver: GuestKey, taker: GuestKey) -> None:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            for held in await _locked(tx, host):
                if held.holder == giver:
                    holder = {"server_id": taker.server, "slot": taker.slot, "request": held.request}
                    await tx.run(_hold, {"b_host": host, "b_address": held.device.address, **holder})


async def _locked(tx: Tx, host: HostName) -> list[HeldDevice]:
    """Read and lock a host's devices until the transaction ends."""
    return [_held(row) for row in await tx.rows(_of_held, {"b_host": host})]


async def _keep_or_drop(tx: Tx, host: HostName, held: HeldDevice, offered: PciDevice | None) -> None:
    at = {"b_host": host, "b_address": held.device.address}
    if offered is None and held.holder is None:
        await tx.run(_delete, at)
    else:
        await tx.run(_offer, {**at, **_facts(offered or held.device), "is_withdrawn": offered is None})


def _facts(device: PciDevice) -> dict[str, Any]:
    return {name: getattr(device, name) for name in _WORDS} | {"live_migratable": device.is_live_migratable}


def _held(row: Any) -> HeldDevice:
    words = {name: getattr(row, name) for name in _WORDS}
    device = PciDevice(address=row.address, **words, live_migratable=bool(row.live_migratable) or UNSET)
    holder = GuestKey(ServerId(row.server_id), Slot(row.slot)) if row.server_id is not None else None
    return HeldDevice(device=device, holder=holder, request=row.request, is_withdrawn=row.is_withdrawn)
