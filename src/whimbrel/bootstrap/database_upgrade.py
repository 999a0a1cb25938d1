"""Migrate all databases of a cloud to this program's schema, and show their versions."""

import asyncio

from whimbrel.adapters.clock import RandomIds, SystemClock
from whimbrel.adapters.sql.engine.create_database import make_missing
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.engine.schema import prepare, revisions, version_of
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.adapters.sql.global_.cloud_identity import SqlCloudIdentity
from whimbrel.adapters.sql.key_value_store import SqlKeyValueStore
from whimbrel.adapters.sql.tables import kind_of
from whimbrel.bootstrap.cloud_agreement import check_cloud, write_rules
from whimbrel.bootstrap.process_base import STORES, prepare_stores
from whimbrel.bootstrap.upgrade_check import Schema, migration_obstacle, opened
from whimbrel.domain.errors import Refused, WorldError
from whimbrel.settings import CloudConfig


async def upgrade(url: str, config: CloudConfig) -> None:
    """Migrate the databases, and make the rules of the settings those of the cloud. Missing ones are created.

    Raises: Refused: a process is too old for the new schema, or a database is of a newer program; Unavailable.
    """
    await asyncio.to_thread(make_missing, url)
    if reason := await migration_obstacle(url):
        raise Refused(reason)
    await asyncio.to_thread(prepare_stores, url, config.external)
    databases = Databases(config.database.connections)
    global_, keep = databases.open(url, "global"), databases.open(url, "keep")
    try:
        await check_cloud(SqlCloudIdentity(global_), config, None, RandomIds(), SystemClock().now())
        store = SqlKeyValueStore(keep)
        if config.rules_in_file:
            await write_rules(store, config.rules)
        for info in await SqlCells(global_).all():
            await asyncio.to_thread(prepare, info.database or url, f"cell_{info.name}")
    finally:
        await keep.close()
        await global_.close()


async def cloud_of(url: str) -> str | None:
    """Return the id of the cloud of a database; None: it has none yet. Raises: Unavailable."""
    if (await asyncio.to_thread(version_of, url, "global") or "") < revisions("global")[-1]:
        return None
    async with opened(url, "global") as database:
        return await SqlCloudIdentity(database).get()


async def versions(url: str) -> list[Schema]:
    """Return the versions of all schemas. Raises: Refused: one is of a newer program; Unavailable: the cloud's own."""
    shown = [await asyncio.to_thread(_version, url, store) for store in STORES]
    if shown[0].is_current:
        async with opened(url, "global") as database:
            cells = await SqlCells(database).all()
        shown += [await asyncio.to_thread(_version, each.database or url, f"cell_{each.name}") for each in cells]
    return shown


def _version(url: str, store: str) -> Schema:
    newest = revisions(kind_of(store))[-1]
    try:
        return Schema(store=store, version=version_of(url, store), newest=newest)
    except WorldError as trouble:
        if not store.startswith("cell_"):
            raise
        return Schema(store=store, version=None, newest=newest, trouble=trouble.reason)
