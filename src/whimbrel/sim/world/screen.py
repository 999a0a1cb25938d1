"""The picture on the screen of a simulated guest: lines of text, in capital letters of 5 by 7 dots."""

from collections.abc import Sequence
from functools import cached_property

Rgb = tuple[int, int, int]

PAPER: Rgb = (16, 40, 72)
INK: Rgb = (255, 214, 102)
WIDTH, HEIGHT = 640, 200
SCALE = 2  # pixels of a dot
COLUMN, LINE = 6 * SCALE, 10 * SCALE
MARGIN = 16

# Of each character its five columns from left to right, one byte each; the lowest bit is the top dot.
_GLYPHS = {
    "A": "7E1111117E", "B": "7F49494936", "C": "3E41414122", "D": "7F4141221C", "E": "7F49494941", "F": "7F09090901",
    "G": "3E4149497A", "H": "7F0808087F", "I": "00417F4100", "J": "2040413F01", "K": "7F08142241", "L": "7F40404040",
    "M": "7F020C027F", "N": "7F0408107F", "O": "3E4141413E", "P": "7F09090906", "Q": "3E4151215E", "R": "7F09192946",
    "S": "4649494931", "T": "01017F0101", "U": "3F4040403F", "V": "1F2040201F", "W": "3F4038403F", "X": "6314081463",
    "Y": "0708700807", "Z": "6151494543", "0": "3E5149453E", "1": "00427F4000", "2": "4261514946", "3": "2141454B31",
    "4": "1814127F10", "5": "2745454539", "6": "3C4A494930", "7": "0171090503", "8": "3649494936", "9": "064949291E",
    "-": "0808080808", ".": "0060600000", ":": "0036360000", "_": "4040404040", "/": "2010080402", " ": "0000000000",
}  # fmt: skip
_BOX = "7F4141417F"  # any other character


class Picture:
    """Lines of text on a screen of WIDTH by HEIGHT; what does not fit is cut off."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    @cached_property
    def inked(self) -> list[bytearray]:
        """Return for each row of pixels which of them have ink: 1."""
        rows = [bytearray(WIDTH) for _ in range(HEIGHT)]
        for number, line in enumerate(self._lines):
            for place, character in enumerate(line.upper()):
                self._draw(rows, character, MARGIN + place * COLUMN, MARGIN + number * LINE)
        return rows

    @staticmethod
    def _draw(rows: list[bytearray], character: str, left: int, top: int) -> None:
        if left + COLUMN > WIDTH or top + LINE > HEIGHT:
            return
        for x, column in enumerate(bytes.fromhex(_GLYPHS.get(character, _BOX))):
            for y in range(7):
                if column >> y & 1:
                    for row in rows[top + y * SCALE : top + (y + 1) * SCALE]:
                        row[left + x * SCALE : left + (x + 1) * SCALE] = b"\1" * SCALE

    def pixels(self, paper: bytes, ink: bytes) -> bytes:
        """Return all pixels, row by row, in these representations of both colours."""
        both = (paper, ink)
        return b"".join(both[dot] for row in self.inked for dot in row)
