"""Grants: access of one host to one image for a short time, as a token that the image service can check by itself.

The control plane signs a grant with a secret that it shares with the embedded image service. A host that is broken into
can use the images of its own servers' runs, and no others.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Literal

import msgspec

from whimbrel.domain.ids import HostName

PREFIX = "grant."
"""The beginning of a grant's token; no token of the identity service begins so."""

LIFETIME_S = 600.0
"""How long a transfer may be begun; one that has begun may end later."""

ImageAccess = Literal["read", "write"]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    host: HostName
    image_id: str
    access: ImageAccess
    expires_at: float  # seconds since 1970

    def token(self, secret: bytes) -> str:
        """Return the signed token of this grant."""
        body = urlsafe_b64encode(msgspec.json.encode(self)).decode()
        return f"{PREFIX}{body}.{_signature(body, secret)}"


def granted(token: str, secret: bytes, now: float) -> Grant | None:
    """Return the grant of a token; None: it is no grant, is not signed with this secret, or has expired."""
    body, _, signature = token.removeprefix(PREFIX).rpartition(".")
    if not token.startswith(PREFIX) or not hmac.compare_digest(signature.encode(), _signature(body, secret).encode()):
        return None
    grant = msgspec.json.decode(urlsafe_b64decode(body), type=Grant)
    return grant if now < grant.expires_at else None


def _signature(body: str, secret: bytes) -> str:
    return hmac.new(secret, body.encode(), hashlib.sha256).hexdigest()
