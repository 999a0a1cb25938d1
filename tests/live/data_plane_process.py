"""A data plane as a process: `data_plane_process.py DIRECTORY`. Each line of its input is a state, answered by "ok".

Metadata requests are answered by what was asked, and for which server.
"""

import asyncio
import os
import socket
import sys
from pathlib import Path

import msgspec
from starlette.types import ASGIApp

from whimbrel.adapters.host_network.linux_data_plane import LinuxDataPlane
from whimbrel.bootstrap.http_server import serve
from whimbrel.domain.host_networks import HostNetworks
from whimbrel.domain.ids import ServerId
from whimbrel.ports.hosts.control_plane import MetadataAnswer


async def answer(server: ServerId, path: str, method: str, body: bytes) -> MetadataAnswer:
    return MetadataAnswer(status=200, body=f"{method} {path} of {server}".encode())


async def serving(app: ASGIApp, endpoint: socket.socket, stop: asyncio.Event) -> None:
    await serve(app, endpoint, stop, lambda: None)


async def main(directory: Path) -> None:
    os.umask(0o077)  # as that of an agent
    plane = LinuxDataPlane(directory, answer, serving)
    await plane.check()
    while line := await asyncio.to_thread(sys.stdin.readline):
        failed = await plane.apply(msgspec.json.decode(line, type=HostNetworks))
        print(str(failed or "ok"), flush=True)
    await plane.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
