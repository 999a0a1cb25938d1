"""Accounts on the servers of NATS: each server stores what the operator has signed, and forwards it to the others.

Invariant: what is stored there becomes what the database has, even if several processes change it at once: after each
push the database is read again.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import msgspec
import structlog
from nats.aio.msg import Msg

from whimbrel.adapters.bus.account_keys import AccountKeys
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.domain.errors import Unavailable, WorldError
from whimbrel.ports.stores.bus_accounts import BusAccount

log = structlog.get_logger(__name__)

ANSWER_S = 5.0
LOOK_S = 30.0
"""Interval at which processes compare the servers' accounts with the database: the longest wait of a new cell."""


class _Code(msgspec.Struct):
    code: int = 0
    message: str = ""
    description: str = ""


class _Pushed(msgspec.Struct):
    data: _Code | None = None
    error: _Code | None = None


class _Listed(msgspec.Struct):
    data: list[str] = []  # public keys


Answer = TypeVar("Answer")


async def push_accounts(system: BusConnection, keys: AccountKeys) -> list[str]:
    """Store on the servers what they lack or have in another version. Return the names of those that were stored.

    system: a connection to the system account. Raises: Unavailable: no answer, or a server does not store it.
    """
    pushed: list[str] = []
    while found := await outdated(system, await keys.all()):
        for account, stored in found:
            if stored:
                await keys.supersede(account, stored)
            await _push(system, await keys.account(account.name))
            pushed.append(account.name)
    return pushed


async def keep_accounts(system: BusConnection, keys: AccountKeys) -> None:
    """Push accounts until cancelled: a process of the control plane runs this as a task."""
    while True:
        await system.connected()
        try:
            for name in await push_accounts(system, keys):
                log.info("an account was stored on the bus", account=name)
        except WorldError as error:
            log.warning("accounts cannot be stored on the bus", error=error.reason)
        await asyncio.sleep(LOOK_S)


async def outdated(system: BusConnection, accounts: Sequence[BusAccount]) -> list[tuple[BusAccount, str]]:
    """Return those that the servers lack or have in another version, with the claims that they have.

    Raises: Unavailable.
    """
    known = (await _ask(system, "$SYS.REQ.CLAIMS.LIST", b"", _Listed)).data  # servers do not answer for other accounts
    stored = [(each, await _stored(system, each) if each.public_key in known else "") for each in accounts]
    return [(account, jwt) for account, jwt in stored if jwt != account.jwt]


async def _stored(system: BusConnection, account: BusAccount) -> str:
    message = await system.ask(f"$SYS.REQ.ACCOUNT.{account.public_key}.CLAIMS.LOOKUP", b"", ANSWER_S)
    return message.data.decode()


async def _push(system: BusConnection, account: BusAccount) -> None:
    answer = await _ask(system, "$SYS.REQ.CLAIMS.UPDATE", account.jwt.encode(), _Pushed)
    if answer.error or not answer.data or answer.data.code != 200:
        problem = answer.error.description if answer.error else "it gives no reason"
        raise Unavailable(f"the bus does not store the account {account.name}: {problem}")


async def _ask(system: BusConnection, subject: str, body: bytes, kind: type[Answer]) -> Answer:
    return read_report(await system.ask(subject, body, ANSWER_S), subject, kind)


def read_report(message: Msg, subject: str, kind: type[Answer]) -> Answer:
    """Return what a server of NATS answers in the system account. Raises: Unavailable: it is not readable."""
    try:
        return msgspec.json.decode(message.data, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"no readable answer of nats-server to {subject}: {error}") from error
