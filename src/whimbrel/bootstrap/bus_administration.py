"""What an operator does with the bus: the keys and the configuration of its servers, and what is on it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from whimbrel.adapters.bus.account_keys import AccountKeys
from whimbrel.adapters.bus.account_store import push_accounts
from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.bus_view import BusView, read_bus
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_keys import check_user_key, new_key
from whimbrel.adapters.bus.nats_subjects import cell_account
from whimbrel.adapters.bus.server_configuration import Hub, ServerOptions, server_configuration
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.engine.schema import check
from whimbrel.adapters.sql.global_.bus_accounts import SqlBusAccounts
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.settings.sections import BusTable

CONNECTS_S = 10.0
"""How long a command waits for a server."""


def bus_servers(table: BusTable) -> BusServers:
    """Return the servers that the settings name. Raises: Invalid."""
    ca_file = Path(table.ca_file) if table.ca_file else None
    return BusServers(urls=table.urls, ca_file=ca_file, insecure=table.insecure)


async def make_configuration(url: str, options: ServerOptions) -> str:
    """Return the configuration of a server; keys that the database lacks are made, also those of its cells."""
    async with _keys(url) as keys:
        return await server_configuration(keys, options)


async def make_leaf(url: str, options: ServerOptions, hub: Hub) -> tuple[str, Mapping[str, str]]:
    """Make a key for a leaf server. Return the public key, and its files by name: configuration and credentials.

    Raises: NotFound: no such cell.
    """
    key = new_key("user")
    hub = replace(hub, public_key=key.public)
    async with _keys(url) as keys:
        known = {each.name for each in await keys.all()}
        for cell in hub.cells:
            if cell_account(cell) not in known:
                raise NotFound(f"there is no cell {cell}: `whimbrel cell list` lists them")
        credentials = await keys.leaf_credentials(options.name, key, hub.accounts)
        files = {hub.file(account): text for account, text in credentials.items()}
        return key.public, {"nats-server.conf": await server_configuration(keys, options, hub), **files}


async def revoke_leaf(url: str, table: BusTable, public_key: str) -> None:
    """Revoke the key of a leaf server on all servers, which end its connections. Raises: Invalid: it is no key."""
    check_user_key(public_key)
    async with _keys(url) as keys, _system(keys, table) as system:
        await keys.revoke_leaf(public_key)
        await push_accounts(system, keys)


async def push(url: str, table: BusTable) -> list[str]:
    """Store accounts on the servers. Return the names of those that they lacked or had in another version."""
    async with _keys(url) as keys, _system(keys, table) as system:
        return await push_accounts(system, keys)


async def show(url: str, table: BusTable) -> BusView:
    async with _keys(url) as keys, _system(keys, table) as system:
        return await read_bus(system, keys)


@asynccontextmanager
async def _keys(url: str) -> AsyncIterator[AccountKeys]:
    """Open the keys in a database, with an account for each cell. Raises: Refused: its schema is not this version's."""
    await asyncio.to_thread(check, url, "global")
    database = Databases().open(url, "global")
    try:
        keys = AccountKeys(SqlBusAccounts(database), SystemClock())
        for cell in await SqlCells(database).all():
            await keys.account(cell_account(cell.name))
        yield keys
    finally:
        await database.close()


@asynccontextmanager
async def _system(keys: AccountKeys, table: BusTable) -> AsyncIterator[BusConnection]:
    if not table.urls:
        raise Invalid("the settings name no server of NATS: set 'urls' in [bus]")
    async with BusConnection(bus_servers(table), keys.system_logins("whimbrel bus"), "whimbrel bus") as system:
        await system.connected(CONNECTS_S)
        yield system
