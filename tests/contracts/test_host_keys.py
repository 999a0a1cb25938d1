"""What every store of host keys does: an invitation is used once, and a host has one key."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.global_.host_keys import SqlHostKeys
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.stores.host_keys import HostKey, Invitation

A, B, CELL = HostName("a"), HostName("b"), CellName("cell1")


@pytest.fixture
async def keys(open_store: Opener) -> AsyncIterator[SqlHostKeys]:
    async with open_store("global") as db:
        yield SqlHostKeys(db)


def invitation(token: str, host: HostName = A, **fields: float) -> Invitation:
    times = {"created_at": 10.0, "expires_at": 100.0, **fields}
    return Invitation(token_hash=token, host=host, cell=CELL, **times)


async def test_a_host_joins_once_with_an_invitation(keys: SqlHostKeys) -> None:
    await keys.invite(invitation("t1"))
    joined = HostKey(host=A, cell=CELL, public_key="UA", joined_at=20.0)
    assert await keys.join("t1", "UA", 20.0) == joined
    assert await keys.get(A) == joined
    with pytest.raises(NotFound, match="used"):
        await keys.join("t1", "UA", 21.0)
    assert await keys.invitations(A) == [invitation("t1", used_at=20.0)]


async def test_of_many_who_use_one_invitation_at_once_one_joins(keys: SqlHostKeys) -> None:
    await keys.invite(invitation("t1"))
    tried = await asyncio.gather(*(keys.join("t1", f"U{n}", 20.0) for n in range(5)), return_exceptions=True)
    [joined] = [each for each in tried if isinstance(each, HostKey)]
    assert [type(each) for each in tried if each is not joined] == [NotFound] * 4
    assert await keys.all() == [joined]


async def test_an_invitation_expires(keys: SqlHostKeys) -> None:
    await keys.invite(invitation("t1"))
    for token, now in (("t1", 100.0), ("other", 20.0)):
        with pytest.raises(NotFound):
            await keys.join(token, "UA", now)
    assert await keys.all() == []
    [stored] = await keys.invitations(A)
    assert (stored.is_valid(99.0), stored.is_valid(100.0)) == (True, False)


async def test_a_newer_invitation_replaces_an_unused_one(keys: SqlHostKeys) -> None:
    for token, host in (("t1", A), ("t2", A), ("t3", B)):
        await keys.invite(invitation(token, host))
    assert await keys.invitations(A) == [invitation("t2")]
    assert await keys.invitations(B) == [invitation("t3", B)]


async def test_a_host_that_joins_again_has_its_new_key_only(keys: SqlHostKeys) -> None:
    for token, key, now in (("t1", "U1", 20.0), ("t2", "U2", 30.0)):
        await keys.invite(invitation(token))
        await keys.join(token, key, now)
    assert await keys.all() == [HostKey(host=A, cell=CELL, public_key="U2", joined_at=30.0)]


async def test_two_hosts_never_share_a_key(keys: SqlHostKeys) -> None:
    await keys.invite(invitation("t1"))
    await keys.invite(invitation("t2", B))
    await keys.join("t1", "U1", 20.0)
    with pytest.raises(Conflict, match="another host"):
        await keys.join("t2", "U1", 20.0)
    assert (await keys.join("t2", "U2", 20.0)).host == B  # the invitation was not used up
    assert [key.host for key in await keys.all()] == ["a", "b"]


async def test_a_retired_host_keeps_its_row_and_has_no_invitations(keys: SqlHostKeys) -> None:
    await keys.retire(B, 5.0)
    with pytest.raises(NotFound):
        await keys.get(B)
    await keys.invite(invitation("t1"))
    joined = await keys.join("t1", "U1", 20.0)
    assert joined.retired_at is None
    await keys.invite(invitation("t2"))
    await keys.retire(A, 40.0)
    await keys.retire(A, 50.0)
    assert (await keys.get(A)).retired_at == 40.0
    with pytest.raises(NotFound):
        await keys.join("t2", "U2", 41.0)
    await keys.invite(invitation("t3"))
    assert (await keys.join("t3", "U1", 60.0)).retired_at is None
