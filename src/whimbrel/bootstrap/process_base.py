"""What every process of a cloud begins with: its databases at the right version, and its registration."""

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from whimbrel.adapters.clock import DatabaseClock, RandomIds, SystemClock
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.engine.schema import check, prepare, version_of
from whimbrel.adapters.sql.global_.cloud_identity import SqlCloudIdentity
from whimbrel.adapters.sql.global_.processes import SqlProcesses
from whimbrel.adapters.sql.key_value_store import SqlKeyValueStore
from whimbrel.bootstrap.cloud_agreement import agreed_rules, check_cloud, write_rules
from whimbrel.bootstrap.health import Health
from whimbrel.bootstrap.registration import Registration
from whimbrel.bootstrap.roles import Role
from whimbrel.bootstrap.upgrade_check import (
    FIRST_WITH_KNOWLEDGE,
    FIRST_WITH_PROCESSES,
    migration_obstacle,
    opened,
)
from whimbrel.domain.errors import Refused
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord
from whimbrel.settings import CloudConfig
from whimbrel.settings.datadir import DataDir

STORES = ("global", "placement", "identity", "images", "network", "volumes", "keep")

OF_SERVICES = {"identity": "identity", "image": "images", "network": "network", "volume": "volumes"}
"""The stores of embedded services: a cloud has those of the services that no others run."""


def stores_of(external: Collection[str]) -> list[str]:
    """Return the stores of a cloud, except the cells'. external: the services that others run."""
    not_here = {OF_SERVICES[service] for service in external}
    return [store for store in STORES if store not in not_here]


def prepare_stores(url: str, external: Collection[str] = ()) -> None:
    """Migrate every store except the cells' to this program's schema. external: the services that others run.

    Raises: Refused: of a newer version; Unavailable.
    """
    for schema in stores_of(external):
        prepare(url, schema)


def check_stores(url: str, external: Collection[str] = ()) -> None:
    """Raises: Refused: a store is not at this program's schema; Unavailable."""
    for schema in stores_of(external):
        check(url, schema)


class Start(msgspec.Struct, frozen=True):
    """What a process is started with."""

    role: Role
    config: CloudConfig
    url: str  # of the cloud's databases
    record: ProcessRecord
    data: DataDir | None = None  # None: the process has no files
    front_url: str = ""  # of the HTTP front ends, if the settings do not say it

    @property
    def home(self) -> DataDir:
        assert self.data, f"a process of the role {self.role.name} has a data directory"
        return self.data


@dataclass(frozen=True)
class ProcessBase:
    """The dependencies of a process's parts. Their resources are closed with `opened`, in reverse order."""

    start: Start
    clock: DatabaseClock
    databases: Databases
    global_: Database
    registration: Registration
    keep: SqlKeyValueStore
    opened: AsyncExitStack

    @property
    def health(self) -> Health:
        return Health(self.global_, self.registration.check)

    def database(self, schema: str) -> Database:
        made = self.databases.open(self.start.url, schema)
        self.opened.push_async_callback(made.close)
        return made


async def _prepare_registration(url: str, start: Start) -> None:
    """Migrate the global database if this process cannot register in it as it is.

    Raises: Refused: a live process of release 0.1 has the role, and could not start again.
    """
    version = version_of(url, "global") or ""
    if version >= FIRST_WITH_KNOWLEDGE:
        return
    if version >= FIRST_WITH_PROCESSES:
        async with opened(url, "global") as global_:
            await SqlProcesses(global_, SystemClock()).check_free(start.record, LEASE_S)
    await asyncio.to_thread(prepare, url, "global")


async def registered(start: Start, opened: AsyncExitStack) -> ProcessBase:
    """Register this process, and migrate the stores to this program's schema or check them.

    Only a process that has its role migrates stores. A refused process leaves an older one's databases unchanged, so
    that the older one can start again.

    Raises: Refused: another process has the role, or a store has another version; Unavailable.
    """
    url, config = start.url, start.config
    if not start.role.migrates:
        await asyncio.to_thread(check_stores, url, config.external)
    else:
        await _prepare_registration(url, start)
    clock, databases = DatabaseClock(SystemClock()), Databases(config.database.connections)
    global_ = databases.open(url, "global")
    opened.push_async_callback(global_.close)
    record = replace(start.record, knows=replace(start.record.knows, parts=start.role.sole_parts))
    registration = Registration(SqlProcesses(global_.urgent, SystemClock()), record, clock)
    await registration.begin()
    opened.push_async_callback(registration.end)
    if start.role.migrates:
        if reason := await migration_obstacle(url, but=record.id):
            raise Refused(reason)
        await asyncio.to_thread(prepare_stores, url, config.external)  # the lease is renewed meanwhile
    await check_cloud(SqlCloudIdentity(global_), config, start.data, RandomIds(), clock.now())
    keep = databases.open(url, "keep")
    opened.push_async_callback(keep.close)
    store = SqlKeyValueStore(keep)
    if start.role.has_hosts:
        await write_rules(store, config.rules)
    rules = await agreed_rules(store, config)
    start = replace(start, config=replace(config, rules=rules))
    return ProcessBase(start, clock, databases, global_, registration, store, opened)
