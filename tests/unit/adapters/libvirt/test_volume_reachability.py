"""Only a volume's server that answers lets a guest near it."""

import asyncio

import pytest

from whimbrel.adapters.libvirt import volume_reachability
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.server_devices import GuestVolume


def volume(port: int, kind: str = "nbd") -> GuestVolume:
    data = {"server": "127.0.0.1", "port": port, "export": "x"}
    connection = {"driver_volume_type": kind, "data": data}
    return GuestVolume(volume_id="v1", attachment_id="a1", device="/dev/vdb", connection=connection)


async def test_a_server_that_answers_is_fine_and_one_that_went_is_not() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await volume_reachability.check(volume(port))
    server.close()
    await server.wait_closed()
    with pytest.raises(Unavailable, match=f"volume v1 is not served at 127.0.0.1:{port}"):
        await volume_reachability.check(volume(port))


async def test_what_is_not_on_a_network_is_not_asked_for() -> None:
    connected = asyncio.Event()
    server = await asyncio.start_server(lambda *_: connected.set(), "127.0.0.1", 0)
    async with server:
        await volume_reachability.check(volume(server.sockets[0].getsockname()[1], kind="local"))
        assert not connected.is_set()
