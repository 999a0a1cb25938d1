"""Hash passwords and check them.

Invariant: every check costs the same, independent of the account, its hash, and whether it exists.
"""

import asyncio
import hmac
import secrets
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import scrypt

COST_LOG2 = 14  # 16 MiB and about 50 ms of a processor
RANDOM_COST_LOG2 = 10  # of a password generated from random bytes, which needs no slow hash
COSTS_LOG2 = (RANDOM_COST_LOG2, COST_LOG2)
"""The costs of all stored passwords. Each check pays all of them."""
BLOCK = 8
MEMORY_BYTES = 64 << 20
CHECKS_AT_ONCE = 2
"""Limits the processors that a flood of wrong passwords can use."""

_hashers = ThreadPoolExecutor(CHECKS_AT_ONCE, thread_name_prefix="passwords")


async def hashed(password: str) -> str:
    """Return the hash of a password to be stored."""
    return await asyncio.get_running_loop().run_in_executor(_hashers, hash_now, password)


async def matches(password: str, stored: str | None, costs_log2: tuple[int, ...] = COSTS_LOG2) -> bool:
    """Check a password; stored None: there is no such account, or it has no password."""
    return await asyncio.get_running_loop().run_in_executor(_hashers, _matches, password, stored, costs_log2)


def hash_now(password: str, cost_log2: int = COST_LOG2) -> str:
    """Return the hash of a password to be stored, computed in the current thread."""
    salt = secrets.token_bytes(16)
    key = _derive(password, salt, cost_log2)
    return f"scrypt${cost_log2}${b64encode(salt).decode()}${b64encode(key).decode()}"


def work(stored: str | None, costs_log2: tuple[int, ...]) -> list[int]:
    """Return the costs of the keys that a check derives."""
    return sorted({*costs_log2, _parts(stored)[0]} if stored else costs_log2)


def _matches(password: str, stored: str | None, costs_log2: tuple[int, ...]) -> bool:
    right_cost, salt, right_key = _parts(stored) if stored else (0, bytes(16), b"")
    keys = {cost: _derive(password, salt, cost) for cost in work(stored, costs_log2)}
    return stored is not None and hmac.compare_digest(keys[right_cost], right_key)


def _parts(stored: str) -> tuple[int, bytes, bytes]:
    _, cost, salt, key = stored.split("$")
    return int(cost), b64decode(salt), b64decode(key)


def _derive(password: str, salt: bytes, cost_log2: int) -> bytes:
    return scrypt(password.encode(), salt=salt, n=1 << cost_log2, r=BLOCK, p=1, maxmem=MEMORY_BYTES, dklen=32)
