"""The accounts of the bus: the operator, one account for each cell, one for the control plane, and NATS's own.

Each is created once, by the process that needs it first. Read access to the global database suffices to sign for the
bus.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from whimbrel.adapters.bus.nats_keys import (
    Key,
    KeyKind,
    Login,
    Permissions,
    account_jwt,
    credentials_file,
    new_key,
    operator_jwt,
    read_claims,
    user_jwt,
)
from whimbrel.adapters.bus.nats_subjects import (
    CONTROL_ACCOUNT,
    SYSTEM_ACCOUNT,
    agent_inbox,
    cell_account,
    of_agent,
    of_cell_process,
    of_control_process,
    of_leaf_in_cell,
    of_leaf_in_system,
    of_system_user,
    process_inbox,
)
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.clock import Clock
from whimbrel.ports.stores.bus_accounts import BusAccount, BusAccounts

OPERATOR: Final = "operator"

VALID_S: Final = 30 * 86400.0
"""Lifetime of users' claims. Those of agents are renewed before they expire."""

LEAF_VALID_S: Final = 365 * 86400.0
"""Lifetime of leaf servers' claims; an operator renews their files. Revocations are kept as long."""

LEAF_NAME: Final = "leaf "
"""Prefix of the names of leaf servers' claims; the server's name follows."""

AGENT_NAME: Final = "agent "
"""Prefix of the names of agents' claims; the host's name follows."""

Logins = Callable[[], Awaitable[Login]]


class AccountKeys:
    def __init__(self, accounts: BusAccounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock

    async def operator(self) -> BusAccount:
        """Return the operator; create it if there is none."""
        return await self._ensure(OPERATOR, "operator", operator_jwt)

    async def account(self, name: str) -> BusAccount:
        """Return an account; create it if there is none."""
        operator = key_of(await self.operator())

        def signed(key: Key, now: float) -> str:
            return account_jwt(operator, name, key.public, now)

        return await self._ensure(name, "account", signed)

    async def all(self) -> list[BusAccount]:
        """Return those that exist, without the operator."""
        return [each for each in await self._accounts.all() if each.name != OPERATOR]

    async def _ensure(self, name: str, kind: KeyKind, signed: Callable[[Key, float], str]) -> BusAccount:
        for each in await self._accounts.all():
            if each.name == name:
                return each
        key, now = new_key(kind), self._clock.now()
        made = BusAccount(name=name, public_key=key.public, seed=key.seed, jwt=signed(key, now), created_at=now)
        return await self._accounts.add(made)

    # Users

    async def agent_claims(self, cell: CellName, host: HostName, public_key: str, valid_s: float = VALID_S) -> str:
        """Return claims that admit a host's key for its own subjects."""
        account = key_of(await self.account(cell_account(cell)))
        return user_jwt(account, f"{AGENT_NAME}{host}", public_key, self._clock.now(), valid_s, of_agent(host))

    def cell_logins(self, cell: CellName, name: str) -> Logins:
        """Return logins of this process to a cell's account. name: of the process, as servers of NATS show it."""
        return self._logins(cell_account(cell), name, of_cell_process)

    def control_logins(self, name: str) -> Logins:
        """Return logins of this process to the account of wake-ups."""
        return self._logins(CONTROL_ACCOUNT, name, of_control_process)

    def system_logins(self, name: str) -> Logins:
        """Return logins of this process to the system account, where accounts are stored."""
        return self._logins(SYSTEM_ACCOUNT, name, of_system_user)

    def _logins(self, account: str, name: str, permitted: Callable[[str], Permissions]) -> Logins:
        key = new_key("user")  # never stored: it ends with the process

        async def login() -> Login:
            signer = key_of(await self.account(account))
            may = permitted(key.public)
            jwt = user_jwt(signer, name, key.public, self._clock.now(), VALID_S, may)
            return Login(jwt, key.seed, process_inbox(key.public))

        return login

    async def leaf_credentials(self, name: str, key: Key, accounts: Sequence[str]) -> dict[str, str]:
        """Return files of credentials by account, secret, with which a leaf server joins others in these accounts."""
        files = {}
        for account in accounts:
            may = of_leaf_in_system() if account == SYSTEM_ACCOUNT else of_leaf_in_cell()
            signer, now = key_of(await self.account(account)), self._clock.now()
            jwt = user_jwt(signer, LEAF_NAME + name, key.public, now, LEAF_VALID_S, may, "LEAFNODE")
            files[account] = credentials_file(jwt, key.seed)
        return files

    async def revoke_leaf(self, public_key: str) -> None:
        """Revoke all claims of a leaf server that were signed until now. Takes effect when it is pushed."""
        for account in await self.all():
            await self._sign_again(account.name, {public_key: int(self._clock.now())})

    async def revoke(self, cell: CellName, public_key: str) -> None:
        """Revoke all claims for a key of a cell that were signed until now. Takes effect when it is pushed."""
        await self._sign_again(cell_account(cell), {public_key: int(self._clock.now())})

    async def supersede(self, account: BusAccount, stored: str) -> None:
        """Sign an account again if servers have newer claims of it, as after a database was restored.

        What was revoked meanwhile stays revoked. stored: the claims that the servers have.
        """
        if read_claims(stored).iat >= read_claims(account.jwt).iat:
            await self._sign_again(account.name, _revocations(stored), after=read_claims(stored).iat)

    async def _sign_again(self, name: str, revoked: Mapping[str, int], after: int = 0) -> None:
        """Sign an account with further revocations. after: of the claims that these follow."""
        operator = key_of(await self.operator())
        while True:
            account = await self.account(name)
            claims, now = read_claims(account.jwt), int(self._clock.now())
            both = {**_revocations(account.jwt), **revoked}
            still = {key: at for key, at in both.items() if at > now - LEAF_VALID_S}
            # Servers keep the newest: two changes within a second need two times.
            signed_at = max(now, claims.iat + 1, after + 1)
            jwt = account_jwt(operator, name, account.public_key, signed_at, still)
            if await self._accounts.replace_jwt(name, account.jwt, jwt):
                return


def _revocations(jwt: str) -> Mapping[str, int]:
    found: Mapping[str, int] = read_claims(jwt).nats.get("revocations", {})
    return found


def key_of(account: BusAccount) -> Key:
    return Key(account.public_key, account.seed)


def agent_logins(host: HostName, seed: Callable[[], str], claims: Callable[[], str]) -> Logins:
    """Return logins of a host's agent. seed, claims: return those of the host's own key, as of now."""

    async def login() -> Login:
        return Login(claims(), seed(), agent_inbox(host))

    return login
