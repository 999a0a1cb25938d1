"""What every store of server groups does, with the journal that has servers join them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.runs import NOW, PROJECT, QUOTA_USAGE, Store, a_run, a_server, an_action
from whimbrel.adapters.sql.global_.server_groups import SqlServerGroups
from whimbrel.domain.errors import Conflict, Invalid, NotFound, OverQuota
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import GroupId, ProjectId, ServerId, UserId
from whimbrel.domain.server import RequestSpec
from whimbrel.ports.stores.journal import Limits
from whimbrel.ports.stores.server_groups import ServerGroup

OTHER = ProjectId("other")
ANN, BOB = UserId("ann"), UserId("bob")


def group(name: str, **fields: Any) -> ServerGroup:
    fields = {"policy": "affinity", "project_id": PROJECT, "user_id": ANN, "created_at": 5.0, **fields}
    return ServerGroup(id=GroupId(f"group-{name}"), name=name, **fields)


class Groups(SqlServerGroups):
    """The store under test, beside a journal and a directory in the same database."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.database)
        self.store = store

    async def join(self, name: str, to: ServerGroup, limit: int = -1) -> ServerId:
        """Accept a new server that requests a group."""
        run = a_run(name)
        server = replace(a_server(run), spec=RequestSpec(hints={"group": to.id}))
        limits = Limits(group_members=limit)
        await self.store.journal.accept(run, an_action(run, "create"), QUOTA_USAGE, limits, server)
        return server.id

    async def members(self, of: ServerGroup) -> tuple[ServerId, ...]:
        return (await self.get(of.id)).members


@pytest.fixture
async def groups(open_store: Opener) -> AsyncIterator[Groups]:
    async with open_store("global") as database:
        yield Groups(Store(database))


async def test_what_is_created_is_there(groups: Groups) -> None:
    spread = group("spread", policy="anti-affinity", max_server_per_host=3)
    for one in (spread, group("b", user_id=BOB), group("c", project_id=OTHER)):
        await groups.create(one, -1)
    assert await groups.get(spread.id) == spread
    assert [one.name for one in await groups.find(PROJECT)] == ["spread", "b"]
    assert [one.name for one in await groups.find(None)] == ["spread", "b", "c"]
    assert [one.name for one in await groups.find(None, offset=1, limit=1)] == ["b"]
    assert [await groups.count(PROJECT), await groups.count(PROJECT, BOB), await groups.count(OTHER, BOB)] == [
        2,
        1,
        0,
    ]


async def test_what_is_deleted_is_gone(groups: Groups) -> None:
    await groups.create(group("a"), -1)
    await groups.delete(group("a").id)
    with pytest.raises(NotFound, match="Instance group group-a could not be found"):
        await groups.delete(group("a").id)
    with pytest.raises(NotFound):
        await groups.get(group("a").id)


async def test_only_anti_affinity_has_a_number(groups: Groups) -> None:
    with pytest.raises(Conflict):
        await groups.create(group("a", max_server_per_host=2), -1)
    with pytest.raises(Conflict):
        await groups.create(group("a", policy="any"), -1)
    assert await groups.find(None) == []


async def test_no_more_groups_than_the_quota_also_when_many_add_at_once(groups: Groups) -> None:
    await groups.create(group("other", project_id=OTHER), 1)
    tries = [groups.create(group(str(number)), 3) for number in range(12)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(answer, OverQuota) for answer in answers) == 9
    assert len(await groups.find(PROJECT)) == 3


async def test_a_server_is_in_the_group_that_it_was_made_in_until_it_is_deleted(groups: Groups) -> None:
    wanted, other = group("a"), group("b")
    for one in (wanted, other):
        await groups.create(one, -1)
    first, second = await groups.join("1", wanted), await groups.join("2", wanted)
    await groups.store.create("3")
    assert await groups.members(wanted) == (first, second)
    assert await groups.members(other) == ()
    assert [one.members for one in await groups.find(None)] == [(first, second), ()]
    assert await groups.of_server(first) == wanted
    assert await groups.of_server(ServerId("server-3")) is None
    await groups.store.directory.erase(Order(a_run("1").id, 1), first, NOW)
    assert await groups.members(wanted) == (second,)


async def test_who_cannot_join_is_not_accepted_at_all(groups: Groups) -> None:
    await groups.create(group("a"), -1)
    first = await groups.join("1", group("a"), 1)
    before = await groups.store.rows()
    with pytest.raises(OverQuota, match="too many servers in group"):
        await groups.join("2", group("a"), 1)
    with pytest.raises(Invalid, match="could not be found"):
        await groups.join("3", group("nowhere"))
    assert await groups.store.rows() == before
    await groups.store.directory.erase(Order(a_run("1").id, 1), first, NOW)
    await groups.join("4", group("a"), 1)


async def test_a_deleted_group_frees_its_members(groups: Groups) -> None:
    await groups.create(group("a"), -1)
    server = await groups.join("1", group("a"))
    await groups.delete(group("a").id)
    assert await groups.of_server(server) is None
    await groups.create(group("a"), -1)
    assert await groups.members(group("a")) == ()


async def test_the_quota_of_members_holds_when_many_join_at_once(groups: Groups) -> None:
    await groups.create(group("a"), -1)
    answers = await asyncio.gather(
        *(groups.join(str(number), group("a"), 3) for number in range(8)), return_exceptions=True
    )
    assert sum(isinstance(answer, OverQuota) for answer in answers) == 5
    assert len(await groups.members(group("a"))) == 3
