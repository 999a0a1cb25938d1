"""What every store of flavors does."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.global_.flavors import SqlFlavors
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ProjectId

SMALL = Flavor(
    flavor_id="1", name="small", vcpus=1, memory_mib=512, root_gib=1, extra_specs={"hw:cpu_policy": "shared"}
)
LARGE = Flavor(flavor_id="2", name="large", vcpus=8, memory_mib=8192, root_gib=20, is_public=False, description="big")
ME, YOU = ProjectId("me"), ProjectId("you")


@pytest.fixture
async def flavors(open_store: Opener) -> AsyncIterator[SqlFlavors]:
    async with open_store("global") as db:
        yield SqlFlavors(db)


async def test_gives_what_was_created(flavors: SqlFlavors) -> None:
    await flavors.create(LARGE, 1.0)
    await flavors.create(SMALL, 2.0)
    assert await flavors.get("1") == SMALL
    assert await flavors.by_name("large") == LARGE
    assert await flavors.by_name("1") is None
    assert await flavors.all() == [LARGE, SMALL]


async def test_ids_and_names_are_taken_once(flavors: SqlFlavors) -> None:
    await flavors.create(SMALL, 1.0)
    with pytest.raises(Conflict, match=r"Flavor with ID 1 already exists\."):
        await flavors.create(msgspec.structs.replace(LARGE, flavor_id="1"), 1.0)
    with pytest.raises(Conflict, match=r"Flavor with name small already exists\."):
        await flavors.create(msgspec.structs.replace(LARGE, name="small"), 1.0)
    assert await flavors.all() == [SMALL]


async def test_a_size_that_cannot_be_is_refused_by_the_database(open_store: Opener) -> None:
    async with open_store("global") as db:
        with pytest.raises(Conflict):
            await SqlFlavors(db).create(msgspec.structs.replace(SMALL, vcpus=0), 1.0)


async def test_extra_specs_are_merged(flavors: SqlFlavors) -> None:
    await flavors.create(SMALL, 1.0)
    whole = await flavors.change_extra_specs("1", {"hw:cpu_policy": None, "a": "1", "b": "2"})
    assert whole == {"a": "1", "b": "2"} == (await flavors.get("1")).extra_specs
    with pytest.raises(NotFound):
        await flavors.change_extra_specs("9", {"a": "1"})


async def test_description_is_changed(flavors: SqlFlavors) -> None:
    await flavors.create(SMALL, 1.0)
    assert await flavors.update("1", "tiny") == msgspec.structs.replace(SMALL, description="tiny")
    assert (await flavors.get("1")).description == "tiny"
    assert (await flavors.update("1", None)).description is None
    assert isinstance((await flavors.update("1", None)).rxtx_factor, float)
    with pytest.raises(NotFound):
        await flavors.update("9", None)


async def test_access_is_granted_and_revoked(flavors: SqlFlavors) -> None:
    await flavors.create(LARGE, 1.0)
    await flavors.grant("2", YOU)
    await flavors.grant("2", ME)
    assert await flavors.projects("2") == [ME, YOU]
    assert await flavors.granted(ME) == {"2"}
    with pytest.raises(Conflict):
        await flavors.grant("2", ME)
    await flavors.revoke("2", ME)
    assert not await flavors.has_access("2", ME)
    assert await flavors.has_access("2", YOU)
    with pytest.raises(NotFound):
        await flavors.revoke("2", ME)
    with pytest.raises(NotFound):
        await flavors.grant("9", ME)


async def test_delete_takes_its_access_along(flavors: SqlFlavors) -> None:
    await flavors.create(LARGE, 1.0)
    await flavors.grant("2", ME)
    await flavors.delete("2")
    assert await flavors.granted(ME) == frozenset()
    with pytest.raises(NotFound):
        await flavors.get("2")
    with pytest.raises(NotFound):
        await flavors.delete("2")
