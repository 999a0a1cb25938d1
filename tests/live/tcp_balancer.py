"""A load balancer for tests: `python -m tests.live.tcp_balancer ADDRESS PORT BACKEND...` passes connections on in turn.

A backend that does not accept a connection is left out for this connection.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

CONNECTS_S = 10.0


async def serve(address: str, port: int, backends: Sequence[str]) -> None:
    turns = count()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(turns)
        try:
            for number in range(len(backends)):
                host, _, at = backends[(first + number) % len(backends)].rpartition(":")
                with suppress(OSError, TimeoutError):
                    async with asyncio.timeout(CONNECTS_S):
                        beyond_reader, beyond_writer = await asyncio.open_connection(host, int(at))
                    await asyncio.gather(_carry(reader, beyond_writer), _carry(beyond_reader, writer))
                    return
        finally:
            writer.close()

    server = await asyncio.start_server(accepted, address, port)
    async with server:
        print("ready", flush=True)
        await server.serve_forever()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
