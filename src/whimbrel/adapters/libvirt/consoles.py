"""Consoles of real guests: the screen is a socket of QEMU's VNC server, the serial line a pseudo-terminal.

Invariant: neither is on a network. libvirt chooses the socket and the terminal for each process of a guest, so that
both are others after a live transfer.
"""

import asyncio
import os
import tty
import xml.etree.ElementTree as ET

from whimbrel.domain.console import ConsoleKind
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.ports.hosts.consoles import ConsoleStream, SocketConsole

SCREEN = "devices/graphics[@type='vnc']"
SERIAL = "devices/serial[@type='pty']/source"


def console_xml(console_log: str, video: ET.Element) -> list[ET.Element]:
    """Return the devices of both consoles. console_log: the file that also has what the guest writes to the line."""
    serial = ET.Element("serial", type="pty")
    # libvirt ignores the path of a terminal to be made. Older releases read the file's path here, for live transfers.
    ET.SubElement(serial, "source", path=console_log)
    ET.SubElement(serial, "log", file=console_log, append="on")
    ET.SubElement(serial, "target", port="0")
    graphics = ET.Element("graphics", type="vnc")
    ET.SubElement(graphics, "listen", type="socket")
    return [serial, graphics, video]


class Consoles:
    """The consoles of one host. A terminal has one reader, else each would get a part: a newer one takes it over."""

    def __init__(self) -> None:
        self._terminals: dict[str, Terminal] = {}

    async def connect(self, live: str, kind: ConsoleKind) -> ConsoleStream:
        """Connect to a console of a running guest. live: its live definition. Raises: Refused; Unavailable."""
        found = ET.fromstring(live).find(SCREEN if kind == "vnc" else SERIAL)
        path = None if found is None else found.get("socket" if kind == "vnc" else "path")
        if path is None:
            raise Refused(f"the guest has no {kind} console: it was defined by an older release; migrate or resize it")
        try:
            if kind == "serial":
                return await self._terminal(path)
            return SocketConsole(*await asyncio.open_unix_connection(path))
        except OSError as error:
            raise Unavailable(f"the guest's {kind} console at {path} cannot be opened: {error.strerror}") from error

    async def _terminal(self, path: str) -> "Terminal":
        if before := self._terminals.pop(path, None):
            before.close()
        terminal = Terminal(path)
        self._terminals[path] = terminal
        await terminal.open()
        return terminal


class Terminal(SocketConsole):
    """A console on a terminal. A read fails with EIO once the guest has ended."""

    def __init__(self, path: str) -> None:
        """Raises: OSError: it cannot be opened."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        tty.setraw(self._descriptor)
        self._reader = asyncio.StreamReader()
        self._reading: asyncio.ReadTransport | None = None
        self._writing: asyncio.WriteTransport | None = None
        self._is_closed = False

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        flow = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        for_input, for_output = os.fdopen(os.dup(self._descriptor), "wb", 0), os.fdopen(self._descriptor, "rb", 0)
        self._writing, _ = await loop.connect_write_pipe(lambda: flow, for_input)
        self._reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._reader), for_output)
        self._writer = asyncio.StreamWriter(self._writing, flow, None, loop)
        if self._is_closed:  # meanwhile
            self.close()

    def close(self) -> None:
        self._is_closed = True
        if self._reading:
            self._reading.close()
        if self._writing:
            self._writing.abort()  # a guest that reads nothing would keep it open
