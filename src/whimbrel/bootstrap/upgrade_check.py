"""What holds an upgrade back: older processes and agents, runs on older lists of steps, and schemas.

Read from the databases, so that it can be asked before any process of this release runs, and beside processes of the
release before, whose databases lack columns of this one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version as installed
from typing import Literal

import msgspec

from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.cell.hosts import SqlHosts
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.engine.schema import Contract, contracts, look, revisions
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.adapters.sql.global_.processes import SqlProcesses
from whimbrel.adapters.sql.global_.run_counts import OpenRuns, open_runs
from whimbrel.adapters.sql.tables import MODULES, kind_of
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Refused, WorldError
from whimbrel.domain.release import floor_of, number_of
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord

FIRST_WITH_CELLS = "0007"
FIRST_WITH_PROCESSES = "0013"
FIRST_WITH_KNOWLEDGE = "0015"
"""Versions of the global schema. The last one is also the first of a release that may share databases with others."""

FIRST_WITH_AGENTS = "0007"
"""The first version of the schema of cells that has what agents register."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A live process, or the agent of a host."""

    name: str
    role: str
    host: str
    release: str


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """A database's schema. trouble: why it cannot be read."""

    store: str
    version: str | None  # None: it does not exist
    newest: str  # of this program
    trouble: str | None = None

    @property
    def is_current(self) -> bool:
        return self.version is not None and self.version >= self.newest


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that holds an upgrade back, and what to do."""

    kind: Literal["process", "agent", "runs", "database", "migration"]
    name: str
    reason: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    release: str  # of this program
    floor: str | None  # the oldest release of all live processes and agents; None: none is live
    processes: list[Member]
    agents: list[Member]
    runs: list[OpenRuns]
    databases: list[Schema]
    holds_back: list[Obstacle]


async def report(url: str) -> Report:
    """Raises: Unavailable: the cloud's own databases; Refused: they are none."""
    schemas = [await _schema(url, store) for store in _stores()]
    found = {each.store: each.version or "" for each in schemas}["global"]
    if not found:
        raise Refused("there is no cloud in this database yet: `whimbrel db upgrade` or `whimbrel up` makes one")
    async with opened(url, "global") as global_:
        live = await _live(global_, found)
        cells = await SqlCells(global_).all() if found >= FIRST_WITH_CELLS else []
        runs = await open_runs(global_)
    agents: list[Member] = []
    for cell in cells:
        schemas.append(schema := await _schema(cell.database or url, f"cell_{cell.name}"))
        agents += await _agents(url, cell) if (schema.version or "") >= FIRST_WITH_AGENTS else []
    processes = [Member(name=each.id, role=each.role, host=each.host, release=each.release) for each in live]
    obstacles = [
        *_older(processes, agents),
        *_of_runs(runs),
        *_of_schemas(schemas),
        *_of_contracts(schemas, live),
    ]
    return Report(
        release=installed("whimbrel"),
        floor=floor_of(each.release for each in (*processes, *agents)),
        processes=processes,
        agents=agents,
        runs=runs,
        databases=schemas,
        holds_back=obstacles,
    )


async def migration_obstacle(url: str, but: str = "") -> str | None:
    """Return why the databases must not be migrated now: a live process is too old for the result. None: they may be.

    but: the id of the process that asks. Raises: Unavailable; Refused: they are no databases.
    """
    if not any(map(contracts, MODULES)):
        return None
    schemas = [await _schema(url, store) for store in _stores()]
    found = {each.store: each.version or "" for each in schemas}["global"]
    if not found:
        return None
    async with opened(url, "global") as global_:
        live = [each for each in await _live(global_, found) if each.id != but]
        for cell in await SqlCells(global_).all() if found >= FIRST_WITH_CELLS else []:
            schemas.append(await _schema(cell.database or url, f"cell_{cell.name}"))
    return next((f"{each.name}: {each.reason}" for each in _of_contracts(schemas, live)), None)


# Read


@asynccontextmanager
async def opened(url: str, schema: str) -> AsyncIterator[Database]:
    database = Databases(1).open(url, schema)
    try:
        yield database
    finally:
        await database.close()


def _stores() -> list[str]:
    return [kind for kind in MODULES if kind != "cell"]


async def _schema(url: str, store: str) -> Schema:
    newest = revisions(kind_of(store))[-1]
    try:
        found = await asyncio.to_thread(look, url, store)
    except WorldError as trouble:
        if not store.startswith("cell_"):
            raise
        return Schema(store=store, version=None, newest=newest, trouble=trouble.reason)
    return Schema(store=store, version=found.version, newest=newest)


async def _live(global_: Database, version: str) -> list[ProcessRecord]:
    processes = SqlProcesses(global_, SystemClock())
    if version < FIRST_WITH_PROCESSES:
        return []
    if version < FIRST_WITH_KNOWLEDGE:
        return await processes.live_before_0_2(LEASE_S)
    return await processes.live(LEASE_S)


async def _agents(url: str, cell: CellInfo) -> list[Member]:
    """Return the agents that began sessions; those in the process of the cloud are of its release."""
    async with opened(cell.database or url, f"cell_{cell.name}") as database:
        agents = await SqlHosts(database, cell.name).agents()
    return [Member(name=host, role="agent", host=host, release=each.release) for host, each in sorted(agents.items())]


# Judge


def _older(processes: Sequence[Member], agents: Sequence[Member]) -> Iterator[Obstacle]:
    own = number_of(installed("whimbrel"))
    for each in processes:
        if number_of(each.release) < own:
            reason = f"a process ({each.role}) on host {each.host} is of release {each.release}: upgrade it"
            yield Obstacle(kind="process", name=each.name, reason=reason)
    for each in agents:
        if number_of(each.release) < own:
            reason = f"the agent of host {each.host} is of release {each.release}: upgrade it"
            yield Obstacle(kind="agent", name=each.name, reason=reason)


def _of_runs(runs: Sequence[OpenRuns]) -> Iterator[Obstacle]:
    known = SAGAS.versions()
    for each in runs:
        versions = known.get(each.saga, ())
        if versions and each.version == versions[-1]:
            continue
        what = f"{each.runs} open {'run' if each.runs == 1 else 'runs'} of version {each.version} of {each.saga}"
        if each.version in versions:
            todo = f"{what}; the newest is {versions[-1]}: wait until they end, or give their verdicts"
        else:
            todo = f"{what}, which this release does not know: they need a process of the release that began them"
        yield Obstacle(kind="runs", name=f"{each.saga} {each.version}", reason=todo)


def _of_schemas(schemas: Sequence[Schema]) -> Iterator[Obstacle]:
    for each in schemas:
        if each.trouble:
            yield Obstacle(kind="database", name=each.store, reason=f"it was not checked: {each.trouble}")
        elif (each.version or "") < each.newest:
            what = f"schema version {each.version or 'none'}, and this release has {each.newest}"
            yield Obstacle(kind="database", name=each.store, reason=f"{what}: run `whimbrel db upgrade`")


def _of_contracts(schemas: Sequence[Schema], live: Sequence[ProcessRecord]) -> Iterator[Obstacle]:
    for schema in schemas:
        kind = kind_of(schema.store)
        for contract in contracts(kind):
            if (schema.version or "0") >= contract.revision or schema.version is None:
                continue
            if too_old := [each for each in live if each.knows.schemas.get(kind, "") < contract.oldest_program]:
                yield Obstacle(
                    kind="migration", name=f"{schema.store} {contract.revision}", reason=_why(contract, too_old)
                )


def _why(contract: Contract, processes: Sequence[ProcessRecord]) -> str:
    names = ", ".join(f"{each.role} on host {each.host} ({each.release}, {each.id})" for each in processes)
    return (
        f"migration {contract.revision} removes what releases before {contract.safe_since} need: upgrade or stop"
        f" these processes first: {names}"
    )
