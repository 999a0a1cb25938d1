"""Accounts of the bus: each is made once, and changed by nobody unseen."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.bus.account_keys import LEAF_VALID_S, AccountKeys
from whimbrel.adapters.bus.nats_keys import new_key, public_key, read_claims
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.global_.bus_accounts import SqlBusAccounts
from whimbrel.domain.ids import CellName
from whimbrel.ports.stores.bus_accounts import BusAccount
from whimbrel.sim.world.clock import JumpingClock

C1 = CellName("c1")


@pytest.fixture
async def accounts(open_store: Opener) -> AsyncIterator[SqlBusAccounts]:
    async with open_store("global") as database:
        yield SqlBusAccounts(database)


def made(name: str, jwt: str = "claims") -> BusAccount:
    key = new_key("account")
    return BusAccount(name=name, public_key=key.public, seed=key.seed, jwt=jwt, created_at=1.0)


async def test_who_adds_second_gets_the_first(accounts: SqlBusAccounts) -> None:
    first = made("cell/c1")
    assert await accounts.add(first) == first
    assert await accounts.add(made("cell/c1")) == first
    other = await accounts.add(made("SYS"))
    assert await accounts.all() == [other, first]


async def test_claims_are_replaced_by_who_knows_them(accounts: SqlBusAccounts) -> None:
    account = await accounts.add(made("cell/c1", "one"))
    assert await accounts.replace_jwt(account.name, "one", "two")
    assert not await accounts.replace_jwt(account.name, "one", "three")
    assert not await accounts.replace_jwt("cell/c2", "one", "two")
    assert [each.jwt for each in await accounts.all()] == ["two"]


async def test_processes_that_start_at_once_make_one_set_of_keys(accounts: SqlBusAccounts) -> None:
    several = [AccountKeys(accounts, SystemClock()) for _ in range(4)]
    found = await asyncio.gather(*(each.account("cell/c1") for each in several))
    assert len({each.public_key for each in found}) == 1
    assert [each.name for each in await accounts.all()] == ["cell/c1", "operator"]
    assert all(public_key(each.seed) == each.public_key for each in await accounts.all())


async def test_what_was_revoked_is_forgotten_when_all_its_claims_have_ended(accounts: SqlBusAccounts) -> None:
    clock = JumpingClock()
    keys, first, second = AccountKeys(accounts, clock), new_key("user").public, new_key("user").public
    await keys.revoke(C1, first)
    clock.advance(LEAF_VALID_S)
    await keys.revoke(C1, second)
    assert read_claims((await keys.account("cell/c1")).jwt).nats["revocations"].keys() == {second}


async def test_keys_that_are_revoked_at_once_are_all_revoked(accounts: SqlBusAccounts) -> None:
    keys = AccountKeys(accounts, SystemClock())
    before = read_claims((await keys.account("cell/c1")).jwt)
    users = {new_key("user").public for _ in range(4)}
    await asyncio.gather(*(AccountKeys(accounts, SystemClock()).revoke(C1, user) for user in users))
    after = read_claims((await keys.account("cell/c1")).jwt)
    assert set(after.nats["revocations"]) == users
    assert after.sub == before.sub
    assert after.iat >= before.iat + len(users), "servers keep the newest by its time"
