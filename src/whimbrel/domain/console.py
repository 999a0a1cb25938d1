"""Consoles of guests: their kinds, and how a connection to one is made."""

from typing import Literal

import msgspec

ConsoleKind = Literal["vnc", "serial"]
"""vnc: screen, keyboard and mouse by the RFB protocol. serial: the bytes of the first serial port."""


class ConsoleAddress(msgspec.Struct, frozen=True):
    """The address at which a host waits for one connection to a console of one of its guests.

    The connection is TLS, and the client's first line is the ticket. certificate: PEM, the only one that the host has;
    it is made anew by each agent process, and trusted because it came over the bus.
    """

    host: str
    port: int
    ticket: str  # a secret; it is valid once, and for a short time
    certificate: str
