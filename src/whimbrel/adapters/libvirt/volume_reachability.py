"""Checks whether a volume's server is reachable before QEMU connects: a guest is blocked while QEMU waits for it."""

import asyncio

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.server_devices import GuestVolume

ANSWERS_WITHIN_S = 5.0


async def check(volume: GuestVolume) -> None:
    """Raises: Unavailable: the volume's server is unreachable. A volume without a network server passes."""
    if volume.connection.get("driver_volume_type") != "nbd":
        return
    server, port = volume.connection["data"]["server"], int(volume.connection["data"]["port"])
    try:
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            _, writer = await asyncio.open_connection(server, port)
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"volume {volume.volume_id} is not served at {server}:{port} now: {error!r}") from error
    writer.close()
