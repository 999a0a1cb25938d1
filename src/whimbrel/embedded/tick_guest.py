"""The tick guest: an operating system in one sector, to verify what happened to a server.

Invariant: its console distinguishes memory from disk. `nonce` is new at every boot and in memory, `boots` is counted
on the disk, `marker` was written there when the image was created. After a cold move the marker is the same, boots is
one higher and the nonce is new; a live move would keep the nonce. It handles the ACPI power button, and releases
devices on request (machine type `pc`). The variant for live moves counts ticks on the disk too, and can be moved by an
emulator that loses memory (see FOR_LIVE_MOVES).

The disk: sector 0 is the program below and a partition table, sector 1 the program's data: u32 boots, u32 ticks (else
unused), the marker, a zero byte. One partition has all sectors but the first: image services reject a boot sector
without partitions.
"""

import re
import struct

import msgspec

SECTOR_BYTES = 512
TICKS_AT = 4
MARKER_AT = 8
MARKER_MAX = 64
TABLE_AT = 446
NOT_A_FILE_SYSTEM = 0xDA  # type of the partition

# Real mode, as the BIOS leaves it. `abs:` is the 16-bit address of a name, `rel8:` and `rel16:` the distance to it.
PROGRAM = """
        fa                              ; cli
        31 c0                           ; xor ax, ax
        8e d8  8e c0  8e d0             ; mov ds, ax; mov es, ax; mov ss, ax
        bc abs:start                    ; mov sp, start
        fb fc                           ; sti; cld
        88 16 abs:drive                 ; mov [drive], dl           the BIOS says what it booted from
        0f 31  66 a3 abs:nonce          ; rdtsc; mov [nonce], eax
        66 31 c0  66 a3 abs:ticks       ; xor eax, eax; mov [ticks], eax
        b8 01 02  e8 rel16:disk         ; mov ax, 0201h; call disk  read the data sector
        66 ff 06 abs:boots              ; inc dword [boots]
        b8 01 03  e8 rel16:disk         ; mov ax, 0301h; call disk  write it back
        ba 02 06  b8 00 01  ef          ; out 602h, 100h            have the power button reported
tick:
        f6 06 abs:ticks 0f              ; test byte [ticks], 15     say something about once a second
        75 rel8:quiet                   ; jnz quiet
        be abs:says_nonce  e8 rel16:puts
        66 a1 abs:nonce    e8 rel16:hex
        be abs:says_boots  e8 rel16:puts
        66 a1 abs:boots    e8 rel16:hex
        be abs:says_ticks  e8 rel16:puts
        66 a1 abs:ticks    e8 rel16:hex
        be abs:says_marker e8 rel16:puts
        be abs:marker      e8 rel16:puts
        be abs:newline     e8 rel16:puts
quiet:
        66 ff 06 abs:ticks              ; inc dword [ticks]
        ba 04 ae  66 ed                 ; mov dx, 0ae04h; in eax, dx    devices that are to be given back
        66 85 c0  74 rel8:kept          ; test eax, eax; jz kept
        ba 08 ae  66 ef                 ; mov dx, 0ae08h; out dx, eax   let go of them
kept:
        ba 00 06  ed                    ; in ax, 600h
        f6 c4 01  75 rel8:off           ; test ah, 1; jnz off       bit 8: the power button was pressed
        f4  eb rel8:tick                ; hlt; jmp tick             the timer wakes us 18.2 times a second
off:
        ba 04 06  b8 00 20  ef          ; out 604h, 2000h           sleep state 5
        f4  eb rel8:off                 ; hlt; jmp off
disk:                                   ; ax says read or write, one sector
        b9 02 00  30 f6                 ; mov cx, 2; xor dh, dh     cylinder 0, head 0, second sector
        8a 16 abs:drive                 ; mov dl, [drive]
        bb abs:boots  cd 13             ; mov bx, boots; int 13h
        72 rel8:broken  c3              ; jc broken; ret
broken:
        be abs:says_broken e8 rel16:puts
        f4  eb rel8:off                 ; hlt; jmp off
hex:                                    ; eax, as eight digits
        b9 08 00                        ; mov cx, 8
digit:
        66 c1 c0 04  66 50              ; rol eax, 4; push eax
        24 0f  3c 0a  72 02             ; and al, 15; cmp al, 10; jb +2
        04 27  04 30                    ; add al, 'a' - '0' - 10; add al, '0'
        e8 rel16:putc  66 58            ; call putc; pop eax
        e2 rel8:digit  c3               ; loop digit; ret
puts:                                   ; the text at si, up to a zero byte
        ac  84 c0  74 rel8:end          ; lodsb; test al, al; jz end
        e8 rel16:putc  eb rel8:puts
end:
        c3
putc:                                   ; al, to COM1
        50  ba fd 03                    ; push ax; mov dx, 3fdh
busy:
        ec  a8 20  74 rel8:busy         ; in al, dx; test al, 20h; jz busy
        58  ba f8 03  ee  c3            ; pop ax; mov dx, 3f8h; out dx, al; ret
"""

TEXTS = {
    "says_nonce": "tick nonce=",
    "says_boots": " boots=",
    "says_ticks": " ticks=",
    "says_marker": " marker=",
    "says_broken": "tick: the disk does not answer\n",
    "newline": "\n",
}

ORIGIN = 0x7C00
PLACES = {
    "start": ORIGIN,
    "nonce": 0x7E00,
    "ticks": 0x7E04,
    "drive": 0x7E08,
    "boots": 0x8000,  # the data sector in memory begins here
    "kept_ticks": 0x8004,
    "marker": 0x8000 + MARKER_AT,
}
FOR_LIVE_MOVES = {
    "tick:": """tick:
        fa  0f 20 c0                    ; cli; mov eax, cr0
        0c 01  0f 22 c0                 ; or al, 1; mov cr0, eax    in and out of protected mode: emulation by QEMU
        24 fe  0f 22 c0  fb             ; and al, 0feh; mov cr0, eax; sti   before 9 then sees what is written
""",
    "quiet:": """
        66 a1 abs:ticks  66 a3 abs:kept_ticks   ; mov eax, [ticks]; mov [kept_ticks], eax
        b8 01 03  e8 rel16:disk         ; mov ax, 0301h; call disk
quiet:
""",
}
"""Label -> what stands in its place."""

WIDTHS = {"abs": 2, "rel8": 1, "rel16": 2}

TICK = re.compile(r"^tick nonce=([0-9a-f]{8}) boots=([0-9a-f]{8}) ticks=([0-9a-f]{8}) marker=(.*)\n", re.MULTILINE)


class Tick(msgspec.Struct, frozen=True):
    """One line of the console."""

    nonce: str
    boots: int
    ticks: int
    marker: str


def image(marker: str = "whimbrel", size_bytes: int = 1 << 20, for_live_moves: bool = False) -> bytes:
    """Return a raw disk image that boots the tick guest; its console shows `marker`."""
    text = marker.encode("ascii")
    if len(text) > MARKER_MAX or not marker.isprintable():
        raise ValueError(f"a marker is at most {MARKER_MAX} printable ASCII characters: {marker!r}")
    if size_bytes < 2 * SECTOR_BYTES or size_bytes % SECTOR_BYTES:
        raise ValueError(f"an image is a whole number of sectors and at least two: {size_bytes} bytes")
    data = bytes(MARKER_AT) + text
    program = PROGRAM
    for label, lines in FOR_LIVE_MOVES.items() if for_live_moves else ():
        program = program.replace(f"\n{label}\n", f"\n{lines}")
    return (_boot_sector(program, size_bytes // SECTOR_BYTES) + data).ljust(size_bytes, b"\0")


def ticks(console: str) -> list[Tick]:
    """Parse the complete lines of a console log, in order."""
    return [
        Tick(nonce, int(boots, 16), int(count, 16), marker) for nonce, boots, count, marker in TICK.findall(console)
    ]


def kept_ticks(disk: bytes) -> int:
    """Return the tick of which a disk of the variant for live moves knows. disk: its beginning."""
    found: int = struct.unpack_from("<I", disk, SECTOR_BYTES + TICKS_AT)[0]
    return found


def _boot_sector(program: str, sectors: int) -> bytes:
    lines = [line.partition(";")[0].split() for line in program.splitlines()]
    tokens = [token for line in lines for token in line]
    texts = {name: text.encode() + b"\0" for name, text in TEXTS.items()}
    places = _places(tokens, texts)
    code = b"".join(_bytes(token, at, places) for token, at in _addressed(tokens))
    sector = code + b"".join(texts.values())
    assert len(sector) <= TABLE_AT, "the program does not fit into its sector"
    table = _bootable_partition(1, sectors - 1).ljust(SECTOR_BYTES - 2 - TABLE_AT, b"\0")
    return sector.ljust(TABLE_AT, b"\0") + table + b"\x55\xaa"


def _bootable_partition(first: int, count: int) -> bytes:
    """Return an entry of a partition table. first, count: sectors; cylinders are not used (all bits set)."""
    return struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", NOT_A_FILE_SYSTEM, b"\xfe\xff\xff", first, count)


def _addressed(tokens: list[str]) -> list[tuple[str, int]]:
    """Return every token with the address of the byte after it."""
    at, placed = ORIGIN, []
    for token in tokens:
        at += _width(token)
        placed.append((token, at))
    return placed


def _width(token: str) -> int:
    if token.endswith(":"):
        return 0
    return WIDTHS[token.partition(":")[0]] if ":" in token else 1


def _places(tokens: list[str], texts: dict[str, bytes]) -> dict[str, int]:
    labels = {token[:-1]: at for token, at in _addressed(tokens) if token.endswith(":")}
    at = ORIGIN + sum(map(_width, tokens))
    for name, text in texts.items():
        labels[name] = at
        at += len(text)
    return PLACES | labels


def _bytes(token: str, after: int, places: dict[str, int]) -> bytes:
    kind, colon, name = token.partition(":")
    if not colon:
        return bytes.fromhex(token)
    if not name:
        return b""
    if kind == "abs":
        return struct.pack("<H", places[name])
    return struct.pack("<b" if kind == "rel8" else "<h", places[name] - after)
