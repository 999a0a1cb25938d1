"""Server records as JSON documents. Fields that a newer program wrote are kept when this one changes a record."""

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from whimbrel.adapters.unknown_fields import unknown_field, with_unknown
from whimbrel.domain.server import Server

_encode = msgspec.json.Encoder().encode
decode_known = msgspec.json.Decoder(Server).decode
"""Decode a record that is only read. Raises: DecodeError."""


def decode(document: bytes) -> Server:
    """Decode a record that may be changed or copied. Raises: DecodeError."""
    server = decode_known(document)
    if document != _encode(server) and unknown_field(document, Server):
        return replace(server, unknown=document)
    return server


def encode(server: Server) -> bytes:
    if server.unknown is UNSET:
        return _encode(server)
    return with_unknown(_encode(replace(server, unknown=UNSET)), Server, server.unknown)
