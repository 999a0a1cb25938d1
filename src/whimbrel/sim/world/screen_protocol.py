"""The server side of the RFB protocol, as far as a picture that never changes needs it. Source: RFC 6143."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from whimbrel.sim.world.screen import HEIGHT, INK, PAPER, WIDTH, Picture, Rgb

VERSION = b"RFB 003.008\n"
NO_SECURITY = b"\x01\x01"
RAW = 0
LENGTHS = {0: 20, 2: 4, 3: 10, 4: 8, 5: 6, 6: 8}
"""Length in bytes of the client's messages, by type. Those of types 2 and 6 contain the length of what follows."""
LONGEST = 1 << 20


class PixelFormat(NamedTuple):
    bits: int
    depth: int
    big_endian: int
    true_colour: int
    most: Rgb  # the largest value of red, green and blue
    shifts: Rgb

    @classmethod
    def read(cls, data: bytes) -> "PixelFormat":
        bits, depth, big, true, r, g, b, *shifts = struct.unpack(">BBBBHHHBBB3x", data)
        return cls(bits, depth, big, true, (r, g, b), (shifts[0], shifts[1], shifts[2]))

    def encoded(self) -> bytes:
        return struct.pack(">BBBBHHHBBB3x", *self[:4], *self.most, *self.shifts)

    def pixel(self, colour: Rgb) -> bytes:
        parts = zip(colour, self.most, self.shifts, strict=True)
        value = sum((part * most // 255) << shift for part, most, shift in parts)
        length = self.bits // 8
        return (value & (1 << self.bits) - 1).to_bytes(length, "big" if self.big_endian else "little")


OWN_FORMAT = PixelFormat(32, 24, 0, 1, (255, 255, 255), (16, 8, 0))


class ScreenServer:
    """One client's view of a picture. send: bytes to the client."""

    def __init__(self, picture: Picture, name: str, send: Callable[[bytes], None]) -> None:
        self._picture = picture
        self._name = name.encode()[:LONGEST]
        self._send = send
        self._format = OWN_FORMAT
        self._input = b""
        self._greetings = [(len(VERSION), NO_SECURITY), (1, bytes(4)), (1, self._description())]  # (length, answer)
        send(VERSION)

    def receive(self, data: bytes) -> bool:
        """Answer the client's messages; False: it sent what is not understood."""
        self._input += data
        while self._input:
            length = self._greetings[0][0] if self._greetings else self._length()
            if length is None or length > LONGEST:
                return False
            if len(self._input) < length:
                return True
            message, self._input = self._input[:length], self._input[length:]
            if self._greetings:
                self._send(self._greetings.pop(0)[1])
            elif not self._obey(message):
                return False
        return True

    def _description(self) -> bytes:
        head = struct.pack(">HH", WIDTH, HEIGHT) + OWN_FORMAT.encoded()
        return head + struct.pack(">I", len(self._name)) + self._name

    def _length(self) -> int | None:
        """Return the length of the client's next message, as far as it is known; None: an unknown type."""
        length = LENGTHS.get(self._input[0])
        if length is None or len(self._input) < length:
            return length
        if self._input[0] == 2:
            return length + 4 * int(struct.unpack_from(">H", self._input, 2)[0])
        if self._input[0] == 6:
            return length + abs(int(struct.unpack_from(">i", self._input, 4)[0]))
        return length

    def _obey(self, message: bytes) -> bool:
        if message[0] == 0:
            self._format = PixelFormat.read(message[4:])
            return self._format.bits in (8, 16, 32) and bool(self._format.true_colour)
        is_incremental = message[1]
        if message[0] == 3 and not is_incremental:
            rectangle = struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, RAW)
            self._send(rectangle + self._picture.pixels(self._format.pixel(PAPER), self._format.pixel(INK)))
        return True
