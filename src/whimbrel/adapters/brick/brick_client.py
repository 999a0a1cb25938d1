"""Asks the program that runs os-brick: a child of the agent, or one that systemd starts for each connection.

Invariant: one request is one process, so nothing of os-brick is in the agent, and a killed agent loses nothing.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.adapters.brick.brick_request import PROTOCOLS, BrickAnswer, BrickRequest, general_shortfall
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.ports.hosts.volume_connector import Abilities, Connected

MOUNTS = Path("/run/whimbrel-volumes")
ANSWERS_WITHIN_S = 180.0
FRESH_S = 60.0
"""How long abilities are remembered: it takes most of a second to look."""

LONGEST_ANSWER = 1 << 20
SHOWN_BYTES = 500


class BrickClient:
    """Implements ports.hosts.volume_connector.VolumeConnector.

    host: its name in the volume service. address: its address in the storage network. mounts: see brick_program.serve.
    socket: of the program; None: it is run as a child, with the rights of this process. environment: of a child.
    """

    def __init__(
        self,
        host: str,
        address: str,
        *,
        mounts: Path = MOUNTS,
        socket: Path | None = None,
        multipath: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._host = host
        self._address = address
        self._mounts = mounts
        self._socket = socket
        self._multipath = multipath
        self._environment = environment
        self._abilities: tuple[float, Abilities] | None = None
        self._looking = asyncio.Lock()

    async def abilities(self) -> Abilities:
        async with self._looking:
            if self._abilities is None or time.monotonic() - self._abilities[0] >= FRESH_S:
                self._abilities = (time.monotonic(), await self._look())
            return self._abilities[1]

    async def _look(self) -> Abilities:
        if self._socket is None and (shortfall := general_shortfall()):
            return Abilities(kinds=dict.fromkeys(PROTOCOLS, shortfall))
        answer = await self._ask(BrickRequest(verb="abilities", **self._of_host()))
        return answer.abilities or Abilities()

    async def connect(self, kind: str, data: Mapping[str, Any]) -> Connected:
        request = BrickRequest(verb="connect", kind=kind, data=dict(data), **self._of_host())
        answer = await self._ask(request)
        if answer.connected is None:
            raise Unavailable("the program of os-brick did not name the device")
        return answer.connected

    async def extend(self, kind: str, data: Mapping[str, Any]) -> int:
        return (await self._ask(BrickRequest(verb="extend", kind=kind, data=dict(data), **self._of_host()))).size_bytes

    async def disconnect(self, kind: str, data: Mapping[str, Any], device: Mapping[str, Any]) -> None:
        await self._ask(
            BrickRequest(verb="disconnect", kind=kind, data=dict(data), device=dict(device), **self._of_host())
        )

    def _of_host(self) -> dict[str, Any]:
        return {"host": self._host, "address": self._address, "multipath": self._multipath}

    async def _ask(self, request: BrickRequest) -> BrickAnswer:
        """Raises: Refused: with the program's reason. Unavailable: it did not answer."""
        line = msgspec.json.encode(request) + b"\n"
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                said = await (self._by_socket(line, self._socket) if self._socket else self._by_child(line))
        except TimeoutError:
            raise Unavailable(f"os-brick gave no answer in {ANSWERS_WITHIN_S:.0f} s") from None
        except OSError as error:
            raise Unavailable(f"the program of os-brick: {error}") from error
        try:
            answer = msgspec.json.decode(said, type=BrickAnswer)
        except msgspec.DecodeError:
            raise Unavailable(f"the program of os-brick ended without an answer: {said[:SHOWN_BYTES]!r}") from None
        if answer.refused:
            raise Refused(answer.refused)
        return answer

    async def _by_socket(self, line: bytes, socket: Path) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(socket), limit=LONGEST_ANSWER)
        try:
            writer.write(line)
            await writer.drain()
            return await reader.readline()
        finally:
            writer.close()

    async def _by_child(self, line: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "whimbrel", "storage", "--mounts", str(self._mounts)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        try:
            said, complaint = await process.communicate(line)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return said or complaint[-SHOWN_BYTES:]
