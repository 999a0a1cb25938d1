"""Conversion between rows of the identity service and values, and the locking statements."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.tables import identity as tables
from whimbrel.domain.errors import NotFound
from whimbrel.ports.services.identity import (
    ApplicationCredential,
    CatalogEndpoint,
    CatalogRegion,
    CatalogService,
    Credential,
    Domain,
    Group,
    Project,
    ProjectLimit,
    RegisteredLimit,
    Role,
    User,
)

Kept = TypeVar("Kept", bound=msgspec.Struct)

KINDS: Mapping[type[msgspec.Struct], tuple[sa.Table, str]] = {
    Domain: (tables.domains, "domain"),
    User: (tables.users, "user"),
    Project: (tables.projects, "project"),
    Role: (tables.roles, "role"),
    Group: (tables.groups, "group"),
    ApplicationCredential: (tables.application_credentials, "application credential"),
    Credential: (tables.credentials, "credential"),
    CatalogRegion: (tables.catalog_regions, "region"),
    CatalogService: (tables.catalog_services, "service"),
    CatalogEndpoint: (tables.catalog_endpoints, "endpoint"),
    RegisteredLimit: (tables.registered_limits, "registered limit"),
    ProjectLimit: (tables.limits, "limit"),
}
"""The kinds that `IdentityStore.records` takes: table, and word of its messages."""


def select_by(table: sa.Table, *columns: str) -> sa.Select[Any]:
    return sa.select(table).where(*(table.c[name] == sa.bindparam(name) for name in columns))


LOCK_USER = select_by(tables.users, "id").with_for_update()
HOLD_PROJECT = select_by(tables.projects, "id").with_for_update(read=True)
HOLD_ROLE = select_by(tables.roles, "id").with_for_update(read=True)


async def find(tx: Tx, kind: type[Kept], record_id: str, statement: sa.Select[Any] | None = None) -> Kept:
    """Return a record. statement: one that also locks its row. Raises: NotFound."""
    table, word = KINDS[kind]
    row = await tx.row(select_by(table, "id") if statement is None else statement, {"id": record_id})
    if row is None:
        raise NotFound(f"Could not find {word}: {record_id}.")
    return value_of(kind, row)


def value_of(kind: type[Kept], row: sa.Row[Any]) -> Kept:
    return kind(**row._mapping)
