"""Keys of NATS, and the signed claims (JWT, version 2) with which one key admits another.

An operator's key signs accounts, an account's key its users, and a user proves by its own key that it is the one whom
the claims name. A server of NATS knows the operator only, so nothing on it changes when a host or a cell is added.
Source: https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/jwt
"""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import nkeys

from whimbrel.domain.errors import Invalid

KeyKind = Literal["operator", "account", "user"]
ConnectionKind = Literal["STANDARD", "LEAFNODE"]

_PREFIXES: dict[KeyKind, int] = {
    "operator": nkeys.PREFIX_BYTE_OPERATOR,
    "account": nkeys.PREFIX_BYTE_ACCOUNT,
    "user": nkeys.PREFIX_BYTE_USER,
}
PUBLIC_KEY_BYTES = 35  # a prefix, 32 bytes, a checksum of 2
_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_UNLIMITED = {"subs": -1, "data": -1, "payload": -1}
_UNLIMITED_ACCOUNT = {**_UNLIMITED, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}


class Key(NamedTuple):
    public: str  # the first letter says what it is: "O" an operator, "A" an account, "U" a user
    seed: str  # secret


class Permissions(NamedTuple):
    publish: Sequence[str]  # subjects, wildcards included; all others are refused
    subscribe: Sequence[str]
    answer_s: float = 0.0
    """How long it may send one answer to a question that it received, to any subject. 0: not at all."""


class Login(NamedTuple):
    """What a process needs to connect."""

    jwt: str
    seed: str  # of its own key
    inbox: str  # the subject below which it receives answers; its claims admit it there


def new_key(kind: KeyKind) -> Key:
    seed = nkeys.encode_seed(os.urandom(32), _PREFIXES[kind])
    return Key(public_key(seed.decode()), seed.decode())


def public_key(seed: str) -> str:
    """Return the public key of a seed. Raises: nkeys errors: it is none."""
    public: bytes = nkeys.from_seed(seed.encode()).public_key
    return public.decode()


def check_user_key(text: str) -> None:
    """Raises: Invalid: it is no public key of a user."""
    try:
        content = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        content = b""
    checksum = int.from_bytes(content[-2:], "little")
    if (
        len(content) != PUBLIC_KEY_BYTES
        or content[0] != nkeys.PREFIX_BYTE_USER
        or nkeys.crc16(content[:-2]) != checksum
    ):
        raise Invalid(f"{text!r} is no public key of NATS: it begins with U and has 56 characters")


def sign_nonce(seed: str, nonce: str) -> bytes:
    return base64.b64encode(nkeys.from_seed(seed.encode()).sign(nonce.encode()))


def operator_jwt(operator: Key, now: float) -> str:
    return _signed(operator, "whimbrel", operator.public, now, {"type": "operator"})


def account_jwt(operator: Key, name: str, account: str, now: float, revoked: Mapping[str, int] | None = None) -> str:
    """account: its public key. revoked: users' public keys -> the time up to which claims for them do not count."""
    claims: dict[str, Any] = {"type": "account", "limits": _UNLIMITED_ACCOUNT}
    if revoked:
        claims["revocations"] = dict(revoked)
    return _signed(operator, name, account, now, claims)


def user_jwt(
    account: Key,
    name: str,
    user: str,
    now: float,
    valid_s: float,
    may: Permissions,
    connects_as: ConnectionKind = "STANDARD",
) -> str:
    """user: its public key. connects_as: a client, or a leaf server that joins others."""
    claims: dict[str, Any] = {
        "type": "user",
        "pub": {"allow": list(may.publish)},
        "sub": {"allow": list(may.subscribe)},
        "allowed_connection_types": [connects_as],
        **_UNLIMITED,
    }
    if may.answer_s:
        claims["resp"] = {"max": 1, "ttl": int(may.answer_s * 1e9)}
    return _signed(account, name, user, now, claims, expires_at=now + valid_s)


def credentials_file(jwt: str, seed: str) -> str:
    """Return the text of a file with which a server or a tool of NATS connects as a user. It is secret."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


class Claims(msgspec.Struct, frozen=True):
    """What is read of claims."""

    sub: str  # the public key that is admitted
    iat: int  # seconds since 1970, of signing
    exp: int = 0  # 0: never
    nats: dict[str, Any] = {}


def read_claims(jwt: str) -> Claims:
    """Return the contents of claims that are one's own: the signature is not checked. Raises: msgspec.DecodeError."""
    body = jwt.split(".")[1] if jwt.count(".") == 2 else ""
    return msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=Claims)


def _signed(
    issuer: Key, name: str, subject: str, now: float, nats: dict[str, Any], expires_at: float | None = None
) -> str:
    claims: dict[str, Any] = {
        "iat": int(now),
        "iss": issuer.public,
        "name": name,
        "sub": subject,
        "nats": {**nats, "version": 2},
    }
    if expires_at is not None:
        claims["exp"] = int(expires_at)
    digest = hashlib.sha256(msgspec.json.encode(claims, order="deterministic")).digest()
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    text = f"{_encoded(_HEADER)}.{_encoded(claims)}"
    signature = nkeys.from_seed(issuer.seed.encode()).sign(text.encode())
    return f"{text}.{_unpadded(signature)}"


def _encoded(document: Any) -> str:
    return _unpadded(msgspec.json.encode(document))


def _unpadded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
