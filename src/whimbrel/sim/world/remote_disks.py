"""Simulated hosts in other processes: an agent serves the disks that it offers, and answers about live transfers.

One line of JSON asks, one line answers. The disks contain nothing of value, so that there is no secret.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from whimbrel.domain.errors import Refused, Unavailable, WorldError
from whimbrel.domain.ids import CellName
from whimbrel.sim.world.disks import Disk
from whimbrel.sim.world.hosts import SimulatedWorld, TransferAnswer, TransferQuestion

TIMEOUT_S = 10.0


class _Question(msgspec.Struct, frozen=True):
    location: str = ""  # of a disk, without an address
    cell: CellName | None = None  # of the host that reads
    transfer: TransferQuestion | None = None


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    disk: Disk | None = None
    transfer: TransferAnswer | None = None
    refused: str = ""
    unavailable: str = ""


@asynccontextmanager
async def serving(world: SimulatedWorld, address: str) -> AsyncIterator[None]:
    """Serve the offered disks of this world's hosts at a free port of an address, which becomes part of the offers."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                question = msgspec.json.decode(await reader.readline(), type=_Question)
                writer.write(msgspec.json.encode(await _answered(world, question)) + b"\n")
                await writer.drain()
        except (OSError, TimeoutError, ValueError, msgspec.DecodeError):
            pass  # the reader tries again
        finally:
            writer.close()

    server = await asyncio.start_server(answer, address, 0)
    port = server.sockets[0].getsockname()[1]
    world.address, world.fetch, world.ask_host = f"{address}:{port}", fetch, ask
    async with server:
        yield


async def _answered(world: SimulatedWorld, question: _Question) -> _Answer:
    try:
        if question.transfer:
            return _Answer(transfer=await world.answer(question.transfer))
        return _Answer(disk=await world.offered(question.location, question.cell))
    except Refused as refusal:
        return _Answer(refused=refusal.reason)
    except WorldError as trouble:
        return _Answer(unavailable=trouble.reason)


async def fetch(address: str, location: str, cell: CellName | None) -> Disk:
    """Return a disk that is offered by another process. Raises: Unavailable; Refused."""
    answer = await _answer_of(address, _Question(location, cell))
    if answer.disk is None:
        raise Unavailable(answer.unavailable)
    return answer.disk


async def ask(address: str, question: TransferQuestion) -> TransferAnswer:
    """Ask a host of another process about a live transfer. Raises: Unavailable; Refused."""
    answer = await _answer_of(address, _Question(transfer=question))
    if answer.transfer is None:
        raise Unavailable(answer.unavailable)
    return answer.transfer


async def _answer_of(address: str, question: _Question) -> _Answer:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(msgspec.json.encode(question) + b"\n")
                answer = msgspec.json.decode(await reader.readline(), type=_Answer)
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError, msgspec.DecodeError) as error:
        raise Unavailable(f"the host at {address} does not answer: {error}") from error
    if answer.refused:
        raise Refused(answer.refused)
    return answer
