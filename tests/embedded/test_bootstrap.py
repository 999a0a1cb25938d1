"""The first start of the identity service."""

from collections.abc import AsyncIterator

import pytest

from tests.embedded.opened import Opened
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.identity.store import SqlIdentity
from whimbrel.domain.errors import NotFound
from whimbrel.embedded.identity import bootstrap, reset_password
from whimbrel.embedded.identity.passwords import matches
from whimbrel.ports.services.identity import Assignment, Domain, Population, Project, Role, User
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.ids import SeededIds


@pytest.fixture
async def store() -> AsyncIterator[SqlIdentity]:
    db = open_database("sqlite://", "identity")
    await create_all(db, "identity")
    yield SqlIdentity(db, JumpingClock())
    await db.close()


async def test_the_first_start_makes_the_first_people(store: SqlIdentity) -> None:
    written: list[object] = []
    passwords = await bootstrap(store, SeededIds(1), write_down=written.append)
    assert passwords is not None
    assert written == [passwords]
    assert set(passwords) == {"demo", "admin", "whimbrel"}
    assert all(password.isalnum() for password in passwords.values()), "a command line takes a dash for an option"
    assert [domain.id for domain in await store.records(Domain)] == ["default"]
    names = {role.id: role.name for role in await store.records(Role)}
    assert set(names.values()) == {"admin", "manager", "member", "reader", "service"}
    users = {user.id: user.name for user in await store.records(User)}
    projects = {project.id: project.name for project in await store.records(Project)}
    has = {
        (users[each.user_id], projects[each.project_id], names[each.role_id])
        for each in await store.assignments(Assignment)
    }
    assert has == {
        ("demo", "demo", "member"),
        ("admin", "admin", "admin"),
        ("admin", "demo", "admin"),
        ("whimbrel", "service", "admin"),
        ("whimbrel", "service", "service"),
    }
    (demo,) = await store.records(User, name="demo")
    assert await matches(passwords["demo"], demo.password_hash)
    assert not await matches(passwords["admin"], demo.password_hash)


async def test_what_is_to_be_there_is_made_before_the_people(store: SqlIdentity) -> None:
    prepared: list[list[str]] = []

    async def prepare(population: Population) -> None:
        assert await store.is_empty()
        prepared.append([project.name for project in population.projects])

    await bootstrap(store, SeededIds(1), prepare=prepare)
    await bootstrap(store, SeededIds(1), prepare=prepare)
    assert prepared == [["demo", "admin", "service"]]


async def test_a_later_start_makes_nothing(store: SqlIdentity) -> None:
    await bootstrap(store, SeededIds(1))
    before = await store.records(User)
    assert await bootstrap(store, SeededIds(2), write_down=lambda _: pytest.fail("written again")) is None
    assert await store.records(User) == before


async def test_a_crash_after_writing_down_is_a_first_start_again(store: SqlIdentity) -> None:
    def crash(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await bootstrap(store, SeededIds(1), write_down=crash)
    assert await store.is_empty()
    assert await bootstrap(store, SeededIds(2)) is not None


async def test_a_lost_password_can_be_replaced(services: Opened) -> None:
    password = await reset_password(services.store, "ann")
    assert await matches(password, (await services.store.record(User, "ann")).password_hash)
    assert await services.store.principal("token of ann") is None
    with pytest.raises(NotFound):
        await reset_password(services.store, "nobody")


async def test_nobody_has_no_password(store: SqlIdentity) -> None:
    assert not await matches("", None)
