"""The volumes that this host has connected for its guests, in DIR/connections/<server>.<volume>.json.

Invariants: a record is written before its volume is connected, and removed after it is disconnected, so that nothing
that is connected is forgotten. The guests that use a volume are not stored: libvirt's active domains and the slots that
wait for a live transfer show them. A volume or share that another record names is not disconnected. The caller holds
the lock of the server's guests.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec
import structlog

from whimbrel.adapters.libvirt import volume_formats, volume_reachability
from whimbrel.adapters.libvirt.domain_control import Domains
from whimbrel.adapters.libvirt.domain_secrets import Secrets
from whimbrel.adapters.libvirt.slots import Slots, safe_name
from whimbrel.adapters.libvirt.volume_xml import CONNECTED_AS
from whimbrel.adapters.qemu import durable_files
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.guest import GuestSpec
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server_devices import GuestVolume
from whimbrel.ports.hosts.volume_connector import Connected, VolumeConnector

log = structlog.get_logger(__name__)

NO_CONNECTOR = "this host connects no volumes: install the extra whimbrel[volumes] for its agent, see docs/disks.md"


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume that is connected, or is being connected. It contains secrets of the storage network."""

    server: ServerId
    volume_id: str
    kind: str
    data: dict[str, Any]
    connected: Connected | None = None  # None: it is not known whether it is

    @property
    def unit(self) -> str:
        """Return what is disconnected as a whole: a share, or a volume."""
        return str(self.data.get("export")) if self.kind == "nfs" else self.volume_id

    def is_same_as(self, volume: GuestVolume) -> bool:
        return (self.kind, self.data) == _connection(volume)


class VolumeConnections:
    """connector: None: this host connects none."""

    def __init__(
        self,
        directory: Path,
        connector: VolumeConnector | None,
        domains: Domains,
        slots: Slots,
        secrets: Secrets,
        tools: Tools,
    ) -> None:
        self._records = directory / "connections"
        self._connector = connector
        self._domains = domains
        self._slots = slots
        self._secrets = secrets
        self._tools = tools
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def connector_properties(self) -> dict[str, Any]:
        """Return what the storage network has to know of this host."""
        return (await self._connector.abilities()).connector if self._connector else {}

    # Checks, before anything is changed

    async def check_known(self, volumes: tuple[GuestVolume, ...]) -> None:
        """Raises: Refused: this host cannot connect one of them, with the reason."""
        for volume in volumes:
            kind, data = _connection(volume)
            if kind == "rbd" and data.get("auth_enabled"):
                await self._secrets.check(str(data.get("secret_uuid")), volume.volume_id)
            if kind not in CONNECTED_AS:
                continue
            if reason := await self._shortfall(kind):
                raise Refused(f"volume {volume.volume_id} is reached by {kind!r}: {reason}")

    async def _shortfall(self, kind: str) -> str:
        if self._connector is None:
            return NO_CONNECTOR
        return (await self._connector.abilities()).kinds.get(kind, "this release does not connect it")

    async def check(self, volumes: tuple[GuestVolume, ...]) -> None:
        """Raises: Refused: see check_known. Unavailable: the server of a volume does not answer."""
        await self.check_known(volumes)
        for volume in volumes:
            await volume_reachability.check(volume)

    # What is connected

    async def paths(self, spec: GuestSpec) -> dict[str, str]:
        """Return the paths of the volumes that are connected by the connections of `spec`: volume -> path."""
        return await in_thread(lambda: self._paths(spec))

    def _paths(self, spec: GuestSpec) -> dict[str, str]:
        found = {}
        for volume in spec.volumes:
            record = self._read(self._path(spec.key.server, volume.volume_id)) if _is_ours(volume) else None
            if record and record.connected and record.is_same_as(volume):
                found[volume.volume_id] = record.connected.path
        return found

    async def connect(self, server: ServerId, volumes: tuple[GuestVolume, ...]) -> None:
        """Ensure that these volumes are connected. Raises: Refused: one cannot be, or must not be; Unavailable."""
        for volume in volumes:
            if _is_ours(volume):
                await self._connect(server, volume)

    async def _connect(self, server: ServerId, volume: GuestVolume) -> None:
        path = self._path(server, volume.volume_id)
        old = await in_thread(lambda: self._read(path))
        if old and not old.is_same_as(volume):  # of an attachment that is gone
            await self._disconnect(old)
            old = None
        kind, data = _connection(volume)
        record = old or Record(server=server, volume_id=volume.volume_id, kind=kind, data=dict(data))
        assert self._connector, "checked before"
        async with self._alone(record):
            await in_thread(lambda: self._write(path, record))
            connected = await self._connector.connect(kind, data)
            await in_thread(lambda: self._write(path, msgspec.structs.replace(record, connected=connected)))
        if CONNECTED_AS[kind] == "file":
            await volume_formats.check(self._tools, volume.volume_id, data, Path(connected.path))

    async def release(self, server: ServerId) -> None:
        """Disconnect the volumes of a server that no active guest of it uses. Idempotent.

        Raises: Refused; Unavailable: a device is still connected. A share that stays mounted is left for later.
        """
        records = [record for record in await in_thread(self._all) if record.server == server]
        if not records:
            return
        used, paths = await self._used(server)
        for record in records:
            if record.volume_id not in used and (record.connected is None or record.connected.path not in paths):
                await self._disconnect(record)

    async def hand_over(self, server: ServerId, new: GuestVolume, volume_id: str) -> None:
        """Make the connection of a volume that of `volume_id`, whose own is disconnected. Repeatable."""
        path, other = self._path(server, volume_id), self._path(server, new.volume_id)
        old, record = await in_thread(lambda: self._read(path)), await in_thread(lambda: self._read(other))
        if old and not old.is_same_as(new):
            await self._disconnect(old)
        if record:
            await in_thread(lambda: self._write(path, msgspec.structs.replace(record, volume_id=volume_id)))
            await in_thread(lambda: other.unlink(missing_ok=True))

    async def change_file(self, server: ServerId, old: GuestVolume, new: GuestVolume) -> None:
        """Record that a volume is another file of its share, if it is connected. Repeatable."""
        path = self._path(server, old.volume_id)
        record = await in_thread(lambda: self._read(path))
        if not record or not record.is_same_as(old):
            return
        connected = record.connected
        if connected:
            file = str(Path(connected.path).with_name(_connection(new)[1]["name"]))
            connected = msgspec.structs.replace(connected, path=file)
        changed = msgspec.structs.replace(record, data=dict(_connection(new)[1]), connected=connected)
        await in_thread(lambda: self._write(path, changed))

    async def extend(self, server: ServerId, volume: GuestVolume) -> int | None:
        """Make the host read the new size of a connected block device, and return it in bytes.

        None: it is no such device, and QEMU sees the size by itself. Raises: Refused; Unavailable.
        """
        kind = _connection(volume)[0]
        if CONNECTED_AS.get(kind) != "block":
            return None
        record = await in_thread(lambda: self._read(self._path(server, volume.volume_id)))
        if record is None or record.connected is None or not record.is_same_as(volume):
            raise Refused(f"volume {volume.volume_id} is not connected to this host")
        if self._connector is None:
            raise Refused(f"volume {volume.volume_id} cannot be extended: {NO_CONNECTOR}")
        async with self._alone(record):
            return await self._connector.extend(record.kind, record.data)

    async def servers(self) -> set[ServerId]:
        """Return the servers for which something may be connected."""
        return {record.server for record in await in_thread(self._all)}

    async def _used(self, server: ServerId) -> tuple[set[str], frozenset[str]]:
        """Return the volumes that are used, by id, and by path: those to which others are copied have their ids."""
        domain = await self._domains.seen(server)
        used = set(domain.fitted.volumes) if domain and domain.is_active else set()
        return used | await in_thread(lambda: self._awaited(server)), domain.paths if domain else frozenset()

    def _awaited(self, server: ServerId) -> set[str]:
        """Return the volumes of the guests that wait for a live transfer."""
        incoming = (slot.read_spec() for slot in self._slots.of(server) if slot.incoming.exists())
        return {volume.volume_id for spec in incoming if spec for volume in spec.volumes}

    async def _disconnect(self, record: Record) -> None:
        if self._connector is None:
            raise Refused(f"volume {record.volume_id} cannot be disconnected: {NO_CONNECTOR}")
        path = self._path(record.server, record.volume_id)
        async with self._alone(record):
            others = [other for other in await in_thread(self._all) if other.unit == record.unit]
            if len(others) <= 1:
                device = record.connected.device if record.connected else {}
                try:
                    await self._connector.disconnect(record.kind, record.data, device)
                except (Refused, Unavailable) as error:
                    if record.kind != "nfs":
                        raise
                    # A mounted share holds no volume, and a guest has to be able to leave.
                    log.warning("a share stays mounted", share=record.unit, reason=error.reason)
                    return
            await in_thread(lambda: path.unlink(missing_ok=True))

    # Records

    def _alone(self, record: Record) -> asyncio.Lock:
        return self._locks.setdefault(record.unit, asyncio.Lock())

    def _path(self, server: ServerId, volume_id: str) -> Path:
        return self._records / safe_name(f"{server}.{volume_id}.json")

    def _all(self) -> list[Record]:
        found = (self._read(path) for path in self._records.glob("*.json"))
        return [record for record in found if record]

    def _read(self, path: Path) -> Record | None:
        return durable_files.read(path, Record)

    def _write(self, path: Path, record: Record) -> None:
        durable_files.make_directory(self._records, None)
        durable_files.write(path, msgspec.json.encode(record), None)


def _connection(volume: GuestVolume) -> tuple[str, Mapping[str, Any]]:
    return str(volume.connection.get("driver_volume_type")), volume.connection.get("data", {})


def _is_ours(volume: GuestVolume) -> bool:
    """Check whether the host connects a volume; QEMU connects the others."""
    return _connection(volume)[0] in CONNECTED_AS
