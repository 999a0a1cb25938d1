"""The client of hosts' console relays."""

import asyncio
import ssl

from whimbrel.domain.console import ConsoleAddress
from whimbrel.domain.errors import Unavailable
from whimbrel.ports.hosts.consoles import SocketConsole

TIMEOUT_S = 10.0


async def connect(address: ConsoleAddress) -> SocketConsole:
    """Take over the connection to a console. Raises: Unavailable: the host cannot be reached, or is another one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the host has this one certificate, whatever its address is called
    context.load_verify_locations(cadata=address.certificate)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    except (OSError, TimeoutError) as error:
        where = f"{address.host} port {address.port}"
        raise Unavailable(f"The console relay at {where} cannot be reached: {error}") from error
    writer.write(f"{address.ticket}\n".encode())
    return SocketConsole(reader, writer)
