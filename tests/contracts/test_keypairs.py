"""What every store of keypairs does."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.global_.keypairs import SqlKeypairs
from whimbrel.domain.errors import Conflict, NotFound, OverQuota
from whimbrel.domain.ids import UserId
from whimbrel.ports.stores.catalog import Keypair

ANN, BOB = UserId("ann"), UserId("bob")


@pytest.fixture
async def keypairs(open_store: Opener) -> AsyncIterator[SqlKeypairs]:
    async with open_store("global") as db:
        yield SqlKeypairs(db)


def keypair(user: UserId, name: str) -> Keypair:
    return Keypair(user_id=user, name=name, public_key="ssh-ed25519 AAAA", fingerprint="aa:bb", created_at=5.0)


async def test_each_user_has_names_of_his_own(keypairs: SqlKeypairs) -> None:
    z = await keypairs.create(keypair(ANN, "z"), -1)
    a = await keypairs.create(keypair(ANN, "a"), -1)
    await keypairs.create(keypair(BOB, "a"), -1)
    assert await keypairs.of_user(ANN) == [a, z]
    assert await keypairs.get(ANN, "z") == z
    assert 0 < z.number < a.number


async def test_all_and_whether_they_have_changed(keypairs: SqlKeypairs) -> None:
    assert (await keypairs.ids(), await keypairs.mark()) == ([], (0, 0, 0.0))
    added = [await keypairs.create(keypair(user, "a"), -1) for user in (BOB, ANN)]
    bob, ann = [each.number for each in added]
    assert (await keypairs.ids(), await keypairs.mark()) == ([(bob, 5.0), (ann, 5.0)], (2, ann, 5.0))
    assert await keypairs.numbered([ann, bob, 1000]) == added
    assert await keypairs.numbered([ann]) == added[1:]
    assert await keypairs.numbered([*range(ann + 1, ann + 600), bob]) == added[:1]
    assert await keypairs.numbered([]) == []
    await keypairs.delete(BOB, "a")
    assert (await keypairs.ids(), await keypairs.mark()) == ([(ann, 5.0)], (1, ann, 5.0))
    await keypairs.delete(ANN, "a")
    another = await keypairs.create(replace(keypair(ANN, "b"), created_at=6.0), -1)
    assert await keypairs.mark() == (1, another.number, 6.0), "its number may be that of the one before"


async def test_a_name_is_taken_once(keypairs: SqlKeypairs) -> None:
    await keypairs.create(keypair(ANN, "a"), 10)
    with pytest.raises(Conflict, match="Key pair 'a' already exists"):
        await keypairs.create(keypair(ANN, "a"), 10)


async def test_no_more_than_the_quota(keypairs: SqlKeypairs) -> None:
    await keypairs.create(keypair(ANN, "a"), 1)
    await keypairs.create(keypair(BOB, "a"), 1)
    with pytest.raises(OverQuota):
        await keypairs.create(keypair(ANN, "b"), 1)
    assert len(await keypairs.of_user(ANN)) == 1


async def test_the_quota_holds_when_many_add_at_once(keypairs: SqlKeypairs) -> None:
    tries = [keypairs.create(keypair(ANN, f"key-{number}"), 3) for number in range(12)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(answer, OverQuota) for answer in answers) == 9
    assert len(await keypairs.of_user(ANN)) == 3


async def test_what_is_deleted_is_gone(keypairs: SqlKeypairs) -> None:
    await keypairs.create(keypair(ANN, "a"), -1)
    with pytest.raises(NotFound):
        await keypairs.delete(BOB, "a")
    await keypairs.delete(ANN, "a")
    with pytest.raises(NotFound):
        await keypairs.delete(ANN, "a")
    with pytest.raises(NotFound):
        await keypairs.get(ANN, "a")
