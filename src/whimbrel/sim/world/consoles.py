"""Consoles of simulated guests: a serial line that echoes, and a screen that says what the guest is.

Invariant: a connection ends when its guest stops running here.
"""

import asyncio
from abc import ABC, abstractmethod

from whimbrel.domain.console import ConsoleKind
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.sim.world.guests import SimulatedGuest, path_of
from whimbrel.sim.world.screen import Picture
from whimbrel.sim.world.screen_protocol import ScreenServer
from whimbrel.sim.world.stored_guests import StoredGuests

LONGEST_LINE = 1024


class SimulatedConsoles:
    """The consoles of one host's guests."""

    def __init__(self, guests: StoredGuests) -> None:
        self._guests = guests
        self._serial_lines: dict[GuestKey, SerialLine] = {}  # the newest connection of each guest

    def open(self, guest: SimulatedGuest, kind: ConsoleKind) -> "SimulatedConsole":
        """Connect to a console. Raises: Refused: the guest does not run."""
        if not guest.is_live:
            raise Refused(f"guest {path_of(guest.key)} does not run: it has no console")
        if kind == "vnc":
            return Screen(self._guests, guest)
        if before := self._serial_lines.pop(guest.key, None):
            before.close()
        line = self._serial_lines[guest.key] = SerialLine(self._guests, guest)
        return line


def lines_about(guest: SimulatedGuest, host: str) -> list[str]:
    return [
        f"simulated guest {guest.spec.name}",
        f"server {guest.key.server}",
        f"slot {guest.key.slot}",
        f"host {host}",
    ]


class SimulatedConsole(ABC):
    """Implements ports.hosts.consoles.ConsoleStream."""

    def __init__(self, guests: StoredGuests, guest: SimulatedGuest) -> None:
        self._guests = guests
        self._key = guest.key
        self._output: asyncio.Queue[bytes] = asyncio.Queue()
        self._is_open = True
        guests.listeners.add(self._follow)

    async def read(self) -> bytes:
        return await self._output.get() if self._is_open or not self._output.empty() else b""

    async def write(self, data: bytes) -> None:
        if not self._is_open:
            raise ConnectionResetError("the guest has ended the connection")
        self.answer(data)

    @abstractmethod
    def answer(self, data: bytes) -> None:
        """React to input."""

    def send(self, data: bytes) -> None:
        self._output.put_nowait(data)

    def close(self) -> None:
        self._is_open = False
        self._guests.listeners.discard(self._follow)
        self.send(b"")

    def _follow(self, key: GuestKey, guest: SimulatedGuest | None) -> None:
        if key == self._key and (guest is None or not guest.is_live):
            self.close()


class SerialLine(SimulatedConsole):
    """Says what the guest is, then echoes each line."""

    def __init__(self, guests: StoredGuests, guest: SimulatedGuest) -> None:
        super().__init__(guests, guest)
        self._input = b""
        for line in (*lines_about(guest, guests.host), *guest.console[-1:]):
            self.send(f"{line}\r\n".encode())

    def answer(self, data: bytes) -> None:
        *lines, self._input = (self._input + data).replace(b"\n", b"\r").split(b"\r")
        self._input = self._input[-LONGEST_LINE:]
        for line in filter(None, lines):
            self.send(line + b"\r\n")


class Screen(SimulatedConsole):
    """Shows the same by the RFB protocol."""

    def __init__(self, guests: StoredGuests, guest: SimulatedGuest) -> None:
        super().__init__(guests, guest)
        picture = Picture(lines_about(guest, guests.host))
        self._server = ScreenServer(picture, f"{guest.spec.name} (simulated)", self.send)

    def answer(self, data: bytes) -> None:
        if not self._server.receive(data):
            self.close()
