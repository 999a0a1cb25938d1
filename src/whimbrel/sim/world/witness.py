"""Notices a server that runs on two simulated hosts of different processes: they share a directory of small files.

A file says on which host a server runs. It is made after a start is stored and removed before a stop is, so that a
process that is killed in between may hide a double run, but never reports one that did not happen.
"""

from contextlib import suppress
from pathlib import Path

import msgspec

from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.key_value_store import KeyValueStore, Staged
from whimbrel.sim.world.guests import SimulatedGuest

DOUBLE_RUNS = "double-runs"

_decode = msgspec.json.Decoder(SimulatedGuest).decode


def double_runs(directory: Path) -> list[str]:
    """Return the starts of servers that ran on another host, as text."""
    report = directory / DOUBLE_RUNS
    return report.read_text().splitlines() if report.exists() else []


class WitnessedStore:
    """Implements ports.hosts.key_value_store.KeyValueStore: the store of a simulated host's guests."""

    def __init__(self, store: KeyValueStore, host: HostName, directory: Path) -> None:
        self._store = store
        self._host = host
        self._space = f"guests/{host}"
        self._directory = directory
        self.is_shared = store.is_shared
        directory.mkdir(parents=True, exist_ok=True)

    async def get(self, space: str, key: str) -> bytes | None:
        return await self._store.get(space, key)

    async def scan(self, space: str) -> dict[str, bytes]:
        return await self._store.scan(space)

    async def replace(self, space: str, key: str, before: bytes | None, value: bytes) -> bool:
        return await self._store.replace(space, key, before, value)

    async def stage(self, space: str, key: str, before: bytes | None, value: bytes) -> Staged | None:
        return await self._store.stage(space, key, before, value)

    async def put(self, space: str, key: str, value: bytes) -> None:
        if space != self._space:
            await self._store.put(space, key, value)
            return
        before, after = await self._running_at(key), _running(value)
        if before and not after:
            self._stops(before)
        await self._store.put(space, key, value)
        if after and not before:
            self._started(after)

    async def delete(self, space: str, key: str) -> None:
        if space == self._space and (server := await self._running_at(key)):
            self._stops(server)
        await self._store.delete(space, key)

    async def _running_at(self, key: str) -> str:
        value = await self._store.get(self._space, key)
        return _running(value) if value else ""

    def _started(self, server: str) -> None:
        file = self._directory / server
        try:
            with file.open("x") as made:
                made.write(self._host)
        except FileExistsError:
            other = file.read_text()
            if other not in ("", self._host):
                with (self._directory / DOUBLE_RUNS).open("a") as report:
                    report.write(f"server {server} was started on {self._host} while it ran on {other}\n")

    def _stops(self, server: str) -> None:
        file = self._directory / server
        with suppress(FileNotFoundError):
            if file.read_text() in ("", self._host):
                file.unlink()


def _running(value: bytes) -> str:
    """Return the server of a stored guest that runs; "": it does not run."""
    guest = _decode(value)
    return guest.key.server if guest.is_live else ""
