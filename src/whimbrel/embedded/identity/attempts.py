"""Rate limit of wrong passwords.

Attempts are counted for each account from each address, and for each address over all accounts. There is no limit for
an account over all addresses: it would allow anyone to lock out a user by sending wrong passwords.
"""

import asyncio
from hashlib import sha256

from whimbrel.domain.ip_addresses import network_of
from whimbrel.embedded.identity import passwords
from whimbrel.http.failed_attempts import OF_ADDRESS, Allowance, Failures
from whimbrel.ports.clock import Clock

OF_ACCOUNT = Allowance(burst=10, one_more_after_s=30.0)  # from one address


class Attempts:
    """The password checks of one identity service."""

    def __init__(self, clock: Clock, costs_log2: tuple[int, ...] = passwords.COSTS_LOG2) -> None:
        self._costs_log2 = costs_log2
        self._of_account = Failures(OF_ACCOUNT, clock, "passwords")
        self._of_address = Failures(OF_ADDRESS, clock, "passwords")
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
