"""Runs, servers and a store to keep them in, for the suites of journal and directory."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.global_.directory import SqlDirectory
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.adapters.sql.tables import global_ as tables
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId, UserId
from whimbrel.domain.run import Action, Run
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.ports.stores.directory import Usage
from whimbrel.ports.stores.journal import Limits, QuotaUsage

PROJECT, USER = ProjectId("project"), UserId("user")
FLAVOR = Flavor(flavor_id="1", name="small", vcpus=2, memory_mib=512, root_gib=1)
QUOTA_USAGE = QuotaUsage(vcpus=2, memory_mib=512)
NOW = 1000.0
UNKNOWN = "what nobody knows"
FORMER, PRESENT = "former_name", "present_name"


class Source(msgspec.Struct, frozen=True):
    """Where a move begins."""

    host: HostName


class Live(msgspec.Struct, frozen=True):
    """What a live migration knows."""

    ticket: int = 0


class Facts(msgspec.Struct, frozen=True):
    """What a run of these tests knows."""

    host: str = ""
    tried: tuple[str, ...] = ()
    source: Source | msgspec.UnsetType = msgspec.UNSET
    live: Live | msgspec.UnsetType = msgspec.UNSET


class Sagas:
    """Knows every saga and step but UNKNOWN; the step FORMER was renamed to PRESENT."""

    def facts_type(self, name: str, version: int) -> type:
        if name == UNKNOWN:
            raise KeyError(name)
        return Facts

    def has_step(self, name: str, version: int, step: str) -> bool:
        self.facts_type(name, version)
        return step != UNKNOWN

    def renamed(self, name: str, version: int) -> dict[str, str]:
        return {FORMER: PRESENT} if name != UNKNOWN else {}


class Store:
    """A journal, with the directory beside it in which bookings show."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.journal = SqlJournal(database, Sagas())
        self.directory = SqlDirectory(database)

    async def accept(self, name: str, **fields: Any) -> Run:
        """Accept a run without a server."""
        run = a_run(name, **fields)
        return await self.journal.accept(run, an_action(run))

    async def create(self, name: str, limits: Limits | None = None, **fields: Any) -> Run:
        """Accept the run that creates a server."""
        run = a_run(name, **fields)
        return await self.journal.accept(run, an_action(run, "create"), QUOTA_USAGE, limits, a_server(run))

    async def usage(self, project: str = PROJECT) -> Usage:
        return await self.directory.usage(ProjectId(project))

    async def rows(self) -> tuple[int, int, int]:
        """Count what is recorded: runs, actions, entries."""
        async with self.database.read() as tx:
            counts = [
                await tx.value(sa.select(sa.func.count()).select_from(table))
                for table in (tables.runs, tables.actions, tables.directory)
            ]
        return counts[0], counts[1], counts[2]


def a_run(name: str, **fields: Any) -> Run:
    """Return an open run `run-<name>` on `server-<name>` that nobody owns and that is due."""
    run = Run(
        id=RunId(f"run-{name}"),
        saga="resize",
        version=1,
        subject=ServerId(f"server-{name}"),
        project_id=PROJECT,
        user_id=USER,
        asker_project_id=PROJECT,
        action=f"req-{name}",
        at="lock",
        facts=Facts(),
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(run, **fields)


def an_action(run: Run, name: str = "resize", **fields: Any) -> Action:
    action = Action(
        server_id=run.subject,
        request_id=run.action,
        name=name,
        project_id=PROJECT,
        user_id=USER,
        run_id=run.id,
        started_at=NOW,
    )
    return replace(action, **fields)


def a_server(run: Run) -> Server:
    return Server(
        id=run.subject,
        project_id=run.project_id,
        user_id=run.user_id,
        name="s",
        flavor=FLAVOR,
        image_id=None,
        spec=RequestSpec(zone_pin="north"),
        created_at=NOW,
        updated_at=NOW,
    )


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[Store]:
    async with open_store("global") as database:
        yield Store(database)
