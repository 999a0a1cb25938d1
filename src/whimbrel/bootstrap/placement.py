"""Creates the stand-alone Placement API from its settings: database, authentication, policy, CORS.

Invariant: errors in the settings are reported before the database is opened.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import httpx
from starlette.types import ASGIApp

from whimbrel.adapters.clock import RandomIds, SystemClock
from whimbrel.adapters.openstack.identity import KeystoneIdentity
from whimbrel.adapters.openstack.own_token import CredentialLogin, Login, OwnToken
from whimbrel.adapters.sql.engine.create_database import make_missing
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.engine.schema import check, prepare
from whimbrel.adapters.sql.engine.urls import CONNECTIONS, check_url
from whimbrel.adapters.sql.identity.store import SqlIdentity
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.placement.index_refresh import keep_up, load
from whimbrel.bootstrap.health import Health
from whimbrel.domain.errors import Invalid
from whimbrel.http.policy import Policy
from whimbrel.placement_api.app import MOST_CANDIDATES, placement_app
from whimbrel.placement_api.cors import Cors
from whimbrel.placement_api.policy import DEFAULTS, Defaults
from whimbrel.placement_api.principals import access
from whimbrel.ports.services.identity import Identity
from whimbrel.settings.datadir import DataDir

KEYSTONE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class EmbeddedIdentity:
    """The identity service of the cloud whose database it is. url: where clients get a token."""

    url: str


@dataclass(frozen=True, kw_only=True)
class PlacementSettings:
    """The settings of such a process."""

    database_url: str
    # Keystone, or the identity service of a cloud, on this machine or of the same database; None: no authentication
    identity: Login | CredentialLogin | DataDir | EmbeddedIdentity | None
    connections: int = CONNECTIONS
    migrates: bool = True  # creates and migrates its database; otherwise it has to be at this program's schema
    policy_defaults: Defaults = "legacy"
    policy: Path | None = None
    cors_origins: tuple[str, ...] = ()
    max_allocation_candidates: int = MOST_CANDIDATES  # -1: no cap
    seed: int | None = None  # of the order of candidates; None: random


@asynccontextmanager
async def open_placement(settings: PlacementSettings) -> AsyncIterator[tuple[ASGIApp, Health]]:
    """Ensure that the database has this program's schema, and yield the application and its health.

    Raises: Invalid: the settings. Refused: a database of a newer program, NotFound: no cloud exists, Unavailable.
    """
    defaults = settings.policy_defaults
    rights = access(defaults, Policy.load(DEFAULTS[defaults], settings.policy))
    check_url(settings.database_url)
    most = _most_candidates(settings.max_allocation_candidates)
    async with AsyncExitStack() as closing:
        databases = Databases(settings.connections)
        identity, identity_url = await _identity(settings, databases, closing)
        if settings.migrates:
            make_missing(settings.database_url)
            prepare(settings.database_url, "placement")
        else:
            check(settings.database_url, "placement")
        database = databases.open(settings.database_url, "placement")
        closing.push_async_callback(database.close)
        store, clock = SqlPlacement(database, Random(settings.seed)), SystemClock()
        await load(store, clock)
        closing.push_async_callback(_end, asyncio.create_task(keep_up(store, clock)))
        app = placement_app(
            store, identity, clock, RandomIds(), identity_url=identity_url, rights=rights, most_candidates=most
        )
        yield (Cors(app, settings.cors_origins) if settings.cors_origins else app), Health(database, _always)


def _always() -> None:
    """Permit work: the process has no lease."""


async def _end(work: "asyncio.Task[None]") -> None:
    work.cancel()
    await asyncio.wait((work,))


def _most_candidates(option: int) -> int | None:
    if option < -1 or option == 0:
        raise Invalid(
            f"a cap of {option} leaves no candidates: give --max-allocation-candidates a number from 1, or -1"
        )
    return None if option == -1 else option


async def _identity(
    settings: PlacementSettings, databases: Databases, closing: AsyncExitStack
) -> tuple[Identity | None, str | None]:
    """Return the identity service, and the URL where clients get a token."""
    asked = settings.identity
    if asked is None:
        return None, None
    if not isinstance(asked, Login | CredentialLogin):
        if isinstance(asked, DataDir):
            database_url, url = asked.running().database_url, f"{asked.running().url}/identity"
        else:
            database_url, url = settings.database_url, asked.url
        check(database_url, "identity")
        database = databases.open(database_url, "identity")
        closing.push_async_callback(database.close)
        return SqlIdentity(database, SystemClock()), url
    client = httpx.AsyncClient(base_url=asked.auth_url, timeout=KEYSTONE_TIMEOUT_S)
    await closing.enter_async_context(client)
    clock = SystemClock()
    return KeystoneIdentity(client, OwnToken(client, lambda: asked, clock), clock), asked.auth_url
