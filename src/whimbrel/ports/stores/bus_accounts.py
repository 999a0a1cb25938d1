"""The keys with which the cloud admits users of its bus. Seeds are secret: with one, any client can be admitted."""

from typing import Protocol

import msgspec


class BusAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The operator, or an account that it has signed. Names are of the bus, such as "cell/cell1"."""

    name: str
    public_key: str
    seed: str
    jwt: str  # its newest signed claims
    created_at: float


class BusAccounts(Protocol):
    async def all(self) -> list[BusAccount]:
        """Return all of them, by name."""

    async def add(self, account: BusAccount) -> BusAccount:
        """Store a new account and return what is stored under its name: this one, or another that was there before."""

    async def replace_jwt(self, name: str, before: str, jwt: str) -> bool:
        """Store new claims if the current ones are `before`. Return whether they were."""
