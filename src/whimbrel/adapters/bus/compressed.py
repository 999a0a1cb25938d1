"""Large messages are compressed: a server of NATS transmits 1 MiB at most, unless its configuration says otherwise.

A guest then takes 80 bytes and an entry of a ledger 55, a third of what they take as JSON; logs become much smaller.
"""

import zlib

from whimbrel.domain.errors import Unavailable

LARGE = 16 * 1024
"""From this size on, in bytes, compression is worth its time."""
LARGEST = 64 * 1024 * 1024
"""Maximum size of a decompressed message: a compromised host could send a small one that expands to fill the memory."""

HEADERS = {"Content-Encoding": "deflate"}


def compress(body: bytes) -> tuple[bytes, dict[str, str]]:
    """Return what to send, and the headers that say so."""
    return (body, {}) if len(body) < LARGE else (zlib.compress(body, 1), HEADERS)


def decompress(body: bytes, headers: dict[str, str] | None) -> bytes:
    """Raises: Unavailable: it is not readable, or larger than LARGEST."""
    if not headers or "Content-Encoding" not in headers:
        return body
    work = zlib.decompressobj()
    try:
        content = work.decompress(body, LARGEST)
    except zlib.error as error:
        raise Unavailable(f"a compressed message is not readable: {error}") from None
    if not work.eof:
        raise Unavailable(f"a compressed message is incomplete, or larger than {LARGEST} bytes")
    return content
