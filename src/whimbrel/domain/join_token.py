"""Join tokens: what an operator passes to a new host, as one word."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import CellName, HostName

PREFIX = "whimbrel1."


class JoinToken(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    url: str  # of the compute API, with its version
    host: HostName
    cell: CellName
    secret: str  # of the invitation
    ca_sha256: str = ""  # hash of the certificates that the API is trusted by; "": the system trusts it

    def __str__(self) -> str:
        return PREFIX + urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def read(text: str) -> JoinToken:
    """Raises: Invalid: it is no token, or a part of one."""
    body = text.strip()
    try:
        if not body.startswith(PREFIX):
            raise ValueError("no prefix")
        raw = body.removeprefix(PREFIX)
        return msgspec.json.decode(urlsafe_b64decode(raw + "=" * (-len(raw) % 4)), type=JoinToken)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise Invalid("this is no join token: copy the whole word that `whimbrel host invite` printed") from None
