"""Turn passwords into what may be stored, and check them.

Law: a check takes the same time whether the user, the password or nothing of it is right.
"""

import asyncio
import hmac
import secrets
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import scrypt

COST_LOG2 = 14  # 16 MiB and about 50 ms of a processor for each check
RANDOM_COST_LOG2 = 10  # of a password that we made of random bytes: guessing is hopeless without being slow
BLOCK = 8
MEMORY_BYTES = 64 << 20

# Few at once: a flood of wrong passwords must not take all processors.
_hashers = ThreadPoolExecutor(2, thread_name_prefix="passwords")


async def hashed(password: str) -> str:
    """Give what is to be stored of a password."""
    return await asyncio.get_running_loop().run_in_executor(_hashers, hash_now, password)


async def matches(password: str, stored: str | None) -> bool:
    """Tell whether this is the password; stored None: nobody's."""
    return await asyncio.get_running_loop().run_in_executor(_hashers, _matches, password, stored)


def hash_now(password: str, cost_log2: int = COST_LOG2) -> str:
    """Give what is to be stored of a password, without leaving the thread."""
    salt = secrets.token_bytes(16)
    key = _derive(password, salt, cost_log2)
    return f"scrypt${cost_log2}${b64encode(salt).decode()}${b64encode(key).decode()}"


def _matches(password: str, stored: str | None) -> bool:
    _, cost, salt, key = (stored or _nobodys()).split("$")
    same = hmac.compare_digest(_derive(password, b64decode(salt), int(cost)), b64decode(key))
    return same and stored is not None


@cache
def _nobodys() -> str:
    return hash_now(secrets.token_urlsafe())


def _derive(password: str, salt: bytes, cost_log2: int) -> bytes:
    return scrypt(password.encode(), salt=salt, n=1 << cost_log2, r=BLOCK, p=1, maxmem=MEMORY_BYTES, dklen=32)
