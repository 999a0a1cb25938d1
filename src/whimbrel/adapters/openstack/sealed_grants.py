"""Grants that are users' tokens, encrypted with a key that only processes with this cloud's login can derive.

Invariant: neither the databases nor their backups suffice to use a grant. A new secret of the login ends all grants.
Why tokens and not trusts: docs/adr/0019-grants-are-sealed-tokens.md.
"""

import hashlib
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from whimbrel.domain.errors import Refused

NONCE_BYTES = 12
SALT = b"whimbrel: grants of users, 1"


class SealedGrants:
    """Implements ports.services.user_grants.UserGrants. secret: returns that of the login. Raises: Unavailable."""

    def __init__(self, secret: Callable[[], str]) -> None:
        self._secret = secret

    def seal(self, token: str) -> str:
        nonce = os.urandom(NONCE_BYTES)
        sealed = AESGCM(_key(self._secret())).encrypt(nonce, token.encode(), SALT)
        return urlsafe_b64encode(nonce + sealed).decode()

    def open(self, grant: str) -> str:
        """Return the token. Raises: Refused: the secret is another one since; Unavailable: it cannot be read."""
        try:
            raw = urlsafe_b64decode(grant)
            return AESGCM(_key(self._secret())).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], SALT).decode()
        except (InvalidTag, ValueError):
            reason = "the user's grant cannot be read: the secret of [keystone] has changed since the request"
            raise Refused(f"{reason}; repeat the request") from None


@lru_cache(maxsize=4)
def _key(secret: str) -> bytes:
    """Return the key: slow to derive, because the secret may be a password."""
    return hashlib.scrypt(secret.encode(), salt=SALT, n=2**14, r=8, p=1, dklen=32)
