"""The embedded identity service's records in a database.

Invariant: what a token grants is always current. Every change first locks its user or project, and updates or removes
the dependent tokens before it commits; issuing a token takes the same locks.
"""

from collections.abc import Callable

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.identity.groups import GroupStore
from whimbrel.adapters.sql.identity.role_holders import RoleStore
from whimbrel.adapters.sql.identity.rows import find, select_by, value_of
from whimbrel.adapters.sql.identity.tokens import TokenStore
from whimbrel.adapters.sql.tables.identity import (
    application_credentials,
    assignments,
    domains,
    group_assignments,
    group_members,
    groups,
    projects,
    roles,
    system_assignments,
    tokens,
    users,
)
from whimbrel.domain.errors import Conflict
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.identity import (
    ApplicationCredential,
    Domain,
    Group,
    Population,
    Project,
    User,
)

_LOCK_PROJECT = select_by(projects, "id").with_for_update()
_LOCK_CREDENTIAL = select_by(application_credentials, "id").with_for_update()
_OWN = sa.select(assignments.c.project_id).where(assignments.c.user_id == sa.bindparam("user"))
_BY_GROUP = (
    sa.select(group_assignments.c.project_id)
    .join(group_members, group_members.c.group_id == group_assignments.c.group_id)
    .where(group_members.c.user_id == sa.bindparam("user"))
)
_PROJECTS_OF = (
    sa.select(projects).where(projects.c.id.in_(_OWN.union(_BY_GROUP))).order_by(projects.c.name, projects.c.id)
)


class SqlIdentity(TokenStore, GroupStore, RoleStore):
    """Implements ports.services.identity.Identity and IdentityStore."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    # Population

    async def is_empty(self) -> bool:
        return await self._db.row(sa.select(domains.c.id).limit(1)) is None

    async def populate(self, population: Population) -> None:
        async with self._db.write() as tx:
            if await tx.row(sa.select(domains.c.id).limit(1)) is not None:
                raise Conflict("the identity service has been populated before")
            for table, records in (
                (domains, population.domains),
                (roles, population.roles),
                (projects, population.projects),
                (users, population.users),
                (assignments, population.assignments),
                (system_assignments, population.system_assignments),
            ):
                if records:
                    await tx.run(sa.insert(table), [msgspec.structs.asdict(record) for record in records])

    # Records by id

    async def _after_change(self, tx: Tx, before: msgspec.Struct, after: msgspec.Struct) -> None:
        await super()._after_change(tx, before, after)
        if isinstance(after, Domain) and not after.enabled:
            its = (tokens.c.user_domain_id == after.id, tokens.c.project_domain_id == after.id)
            await tx.run(sa.delete(tokens).where(sa.or_(*its)))
        elif isinstance(before, User) and isinstance(after, User):
            mine = tokens.c.user_id == after.id
            if after.password_hash != before.password_hash or not after.enabled:
                await tx.run(sa.delete(tokens).where(mine))
            await tx.run(sa.update(tokens).where(mine).values(user_name=after.name))
        elif isinstance(after, Project):
            for_it = tokens.c.project_id == after.id
            if not after.enabled:
                await tx.run(sa.delete(tokens).where(for_it))
            await tx.run(sa.update(tokens).where(for_it).values(project_name=after.name))

    async def _before_removal(self, tx: Tx, kind: type[msgspec.Struct], record_id: str) -> None:
        await super()._before_removal(tx, kind, record_id)
        if kind is ApplicationCredential:
            await tx.row(_LOCK_CREDENTIAL, {"id": record_id})
            await tx.run(sa.delete(tokens).where(tokens.c.application_credential_id == record_id))
        elif kind is Domain:
            await self._empty_domain(tx, record_id)

    async def _empty_domain(self, tx: Tx, domain_id: str) -> None:
        """Remove groups, users and projects of a domain. Groups first: they can give users of other domains roles."""
        its_groups = sa.select(groups.c.id).where(groups.c.domain_id == domain_id).order_by(groups.c.id)
        for row in await tx.rows(its_groups):
            await self._before_removal(tx, Group, row.id)
        for table in (groups, users, projects):
            await tx.run(sa.delete(table).where(table.c.domain_id == domain_id))

    # Projects

    async def projects_of(self, user_id: str) -> list[Project]:
        return [value_of(Project, row) for row in await self._db.rows(_PROJECTS_OF, {"user": user_id})]

    async def has_project(self, project_id: str, token: str) -> bool:
        return bool(await self.records(Project, id=project_id))

    async def tag_project(self, project_id: str, edit: Callable[[list[str]], list[str]]) -> Project:
        async with self._db.write() as tx:
            project = await find(tx, Project, project_id, _LOCK_PROJECT)
            tagged = msgspec.structs.replace(project, tags=edit(project.tags))
            await tx.run(sa.update(projects).where(projects.c.id == project_id).values(tags=tagged.tags))
        return tagged
