"""The present state of the bus, as servers of NATS report it: the servers, the accounts, and the connections."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from whimbrel.adapters.bus.account_keys import AGENT_NAME, AccountKeys
from whimbrel.adapters.bus.account_store import outdated, read_report
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_subjects import SYSTEM_ACCOUNT
from whimbrel.domain.errors import Unavailable

QUIET_S = 0.5
"""How long to wait for further servers' answers."""


class ServerView(msgspec.Struct, frozen=True):
    name: str
    host: str
    version: str
    connections: int
    slow_consumers: int  # connections that were cut since it started because they did not read


class AccountView(msgspec.Struct, frozen=True):
    name: str
    public_key: str
    is_stored: bool  # on the servers, in its newest version
    connections: int


class ConnectionView(msgspec.Struct, frozen=True):
    """A connection. name: from its signed claims, as is the account."""

    name: str
    account: str
    public_key: str
    server: str
    address: str
    since: str
    host: str | None = None  # for the agent of a host


class LeafView(msgspec.Struct, frozen=True):
    """A connection of a leaf server. The connections to the leaf server itself are not known here."""

    account: str
    server: str  # which it has joined
    address: str
    round_trip: str  # as the server writes it, such as "1.2ms"


class BusView(msgspec.Struct, frozen=True):
    servers: list[ServerView]
    accounts: list[AccountView]
    connections: list[ConnectionView]
    leaf_servers: list[LeafView] = []


class _Server(msgspec.Struct):
    name: str = ""
    host: str = ""
    ver: str = ""


class _Stats(msgspec.Struct):
    connections: int = 0
    slow_consumers: int = 0


class _Ping(msgspec.Struct):
    server: _Server
    statsz: _Stats


class _Connection(msgspec.Struct):
    ip: str = ""
    port: int = 0
    start: str = ""
    account: str = ""
    authorized_user: str = ""
    name_tag: str = ""


class _Connections(msgspec.Struct):
    connections: list[_Connection] = []


class _Leaf(msgspec.Struct):
    ip: str = ""
    port: int = 0
    account: str = ""
    rtt: str = ""


class _Leaves(msgspec.Struct):
    leafs: list[_Leaf] | None = None


Answer = TypeVar("Answer")


class _Report(msgspec.Struct, Generic[Answer]):
    server: _Server
    data: Answer


async def read_bus(system: BusConnection, keys: AccountKeys) -> BusView:
    """Raises: Unavailable: no server answers."""
    accounts = await keys.all()
    names = {each.public_key: each.name for each in accounts}
    pings = await _gather(system, "$SYS.REQ.SERVER.PING", {}, _Ping)
    tables = await _gather(
        system, "$SYS.REQ.SERVER.PING.CONNZ", {"auth": True, "limit": 1_000_000}, _Report[_Connections]
    )
    leaves = await _gather(system, "$SYS.REQ.SERVER.PING.LEAFZ", {}, _Report[_Leaves])
    connected = [(each.server, one) for each in tables for one in each.data.connections]
    missing = {account.name for account, _ in await outdated(system, accounts)}
    return BusView(
        servers=[
            ServerView(
                each.server.name,
                each.server.host,
                each.server.ver,
                each.statsz.connections,
                each.statsz.slow_consumers,
            )
            for each in sorted(pings, key=lambda each: each.server.name)
        ],
        accounts=[
            AccountView(
                each.name,
                each.public_key,
                each.name not in missing,
                sum(one.account == each.public_key for _, one in connected),
            )
            for each in accounts
        ],
        connections=sorted(
            (
                ConnectionView(
                    one.name_tag,
                    names.get(one.account, one.account),
                    one.authorized_user,
                    server.name,
                    f"{one.ip}:{one.port}",
                    one.start,
                    one.name_tag.removeprefix(AGENT_NAME) if one.name_tag.startswith(AGENT_NAME) else None,
                )
                for server, one in connected
            ),
            key=lambda each: (each.account, each.name),
        ),
        leaf_servers=[
            LeafView(names[leaf.account], each.server.name, f"{leaf.ip}:{leaf.port}", leaf.rtt)
            for each in leaves
            for leaf in each.data.leafs or ()
            if names.get(leaf.account, SYSTEM_ACCOUNT) != SYSTEM_ACCOUNT
        ],
    )


async def _gather(system: BusConnection, subject: str, question: Any, kind: type[Answer]) -> Sequence[Answer]:
    messages = await system.gather(subject, msgspec.json.encode(question), QUIET_S)
    answers = [read_report(each, subject, kind) for each in messages]
    if not answers:
        raise Unavailable(
            "no NATS server answers in the system account: check that their configuration is of this cloud"
        )
    return answers
