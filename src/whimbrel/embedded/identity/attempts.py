"""Rate limit of wrong passwords.

Attempts are counted for each account from each address, and for each address over all accounts. There is no limit for
an account over all addresses: it would allow anyone to lock out a user by sending wrong passwords.

The counts are in memory: a client cannot cause a restart, and a restart only permits one more burst.
"""

import asyncio
import math
from dataclasses import dataclass
from hashlib import sha256

from whimbrel.domain.ip_addresses import network_of
from whimbrel.embedded.identity import passwords
from whimbrel.ports.clock import Clock

MOST_COUNTS = 100_000


class TooManyAttempts(Exception):
    """The requester has to wait."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"Too many wrong passwords: try again in {retry_after_s} seconds.")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class Allowance:
    """How many wrong passwords are permitted at once, and after how many seconds one more."""

    burst: int
    one_more_after_s: float


OF_ACCOUNT = Allowance(burst=10, one_more_after_s=30.0)  # from one address
OF_ADDRESS = Allowance(burst=100, one_more_after_s=3.0)


class Failures:
    """Recent failures by origin; each expires after a while."""

    def __init__(self, allowance: Allowance, clock: Clock) -> None:
        self._allowance = allowance
        self._clock = clock
        self._levels: dict[bytes, tuple[float, float]] = {}  # origin -> level and its time; the oldest first

    def check(self, who: bytes) -> None:
        """Raises: TooManyAttempts."""
        over = self._level(who) + 1 - self._allowance.burst
        if over > 0:
            raise TooManyAttempts(math.ceil(over * self._allowance.one_more_after_s))

    def add(self, who: bytes) -> None:
        level = self._level(who) + 1
        self.forget(who)
        while len(self._levels) >= MOST_COUNTS:
            del self._levels[next(iter(self._levels))]
        self._levels[who] = level, self._clock.now()

    def forget(self, who: bytes) -> None:
        self._levels.pop(who, None)

    def _level(self, who: bytes) -> float:
        level, at = self._levels.get(who, (0.0, 0.0))
        return max(0.0, level - max(0.0, self._clock.now() - at) / self._allowance.one_more_after_s)


class Attempts:
    """The password checks of one identity service."""

    def __init__(self, clock: Clock, costs_log2: tuple[int, ...] = passwords.COSTS_LOG2) -> None:
        self._costs_log2 = costs_log2
        self._of_account = Failures(OF_ACCOUNT, clock)
        self._of_address = Failures(OF_ADDRESS, clock)
        self._turns = asyncio.Semaphore(passwords.CHECKS_AT_ONCE)

    async def is_right(self, password: str, stored: str | None, account: str, address: str) -> bool:
        """Check a password for an account, which need not exist. Raises: TooManyAttempts."""
        by_address = sha256(network_of(address).encode()).digest()
        by_account = sha256(f"{network_of(address)} {account}".encode()).digest()
        self._check(by_account, by_address)
        async with self._turns:
            self._check(by_account, by_address)  # again, for concurrent attempts that waited for their turn
            right = await passwords.matches(password, stored, self._costs_log2)
            if right:
                self._of_account.forget(by_account)
            else:
                self._of_account.add(by_account)
                self._of_address.add(by_address)
        return right

    def _check(self, by_account: bytes, by_address: bytes) -> None:
        self._of_account.check(by_account)
        self._of_address.check(by_address)
