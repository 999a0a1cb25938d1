"""What every store of placement does for zones and disabled hosts: of a claim and a change one comes too late."""

from collections.abc import AsyncIterator

import pytest

from tests.contracts.databases import Opener
from tests.contracts.test_placement import HOST, OTHER, OWNER, SMALL, check_sums, held, inventory, order
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import ConsumerId, ProviderId
from whimbrel.placement.errors import HostInUse
from whimbrel.ports.placement.placement import HostRule, HostZone

CHILD = ProviderId("11111111-0000-4000-8000-000000000009")
A, B = (ConsumerId(f"22222222-0000-4000-8000-00000000000{number}") for number in "12")


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[SqlPlacement]:
    """A store with two hosts, consistent after the test."""
    async with open_store("placement") as database:
        store = SqlPlacement(database)
        for provider, name in ((HOST, "host"), (OTHER, "other")):
            await store.register_host(provider, name, inventory())
        yield store
        await check_sums(database)


def counting_on(*zones: str, root: ProviderId = HOST) -> HostRule:
    return HostRule(root=root, zones=frozenset(zones))


async def test_a_claim_that_counts_on_the_old_zone_comes_too_late(store: SqlPlacement) -> None:
    await store.zone_hosts({HOST: "new"})
    with pytest.raises(Refused, match="in another availability zone by now"):
        await store.claim(order(1), A, OWNER, {HOST: SMALL}, None, counting_on("old"))
    assert await held(store, A) == {}
    await store.claim(order(2), A, OWNER, {HOST: SMALL}, None, counting_on("new"))
    await store.claim(order(3), B, OWNER, {OTHER: SMALL}, None, counting_on("old", root=OTHER))


async def test_a_change_of_a_zone_comes_too_late_for_a_claim(store: SqlPlacement) -> None:
    await store.claim(order(1), A, OWNER, {HOST: SMALL}, None, counting_on("old"))
    for hosts in ({HOST: "new"}, {OTHER: "new", HOST: "new"}):
        with pytest.raises(HostInUse, match=r"\(host is in use, or was given to a server just now\)"):
            await store.zone_hosts(hosts)
    assert await store.zoned_hosts() == []  # of several hosts all or none
    await store.release(order(2), A)
    await store.zone_hosts({HOST: "new"})


async def test_what_is_held_below_a_host_is_held_of_it(store: SqlPlacement) -> None:
    await store.create_provider(CHILD, "child", HOST)
    await store.set_inventories(CHILD, None, inventory())
    await store.zone_hosts({HOST: "new"})
    with pytest.raises(Refused, match="another availability zone"):
        await store.claim(order(1), A, OWNER, {CHILD: SMALL}, None, counting_on("old"))
    await store.claim(order(2), A, OWNER, {CHILD: SMALL}, None, counting_on("new"))
    with pytest.raises(HostInUse):
        await store.zone_hosts({HOST: "old"})


async def test_what_a_move_holds_at_its_source_keeps_the_zone(store: SqlPlacement) -> None:
    await store.claim(order(1), A, OWNER, {HOST: SMALL})
    await store.hand_over(order(2), A, ConsumerId(order(2).run), OWNER)
    with pytest.raises(HostInUse):
        await store.zone_hosts({HOST: "new"})
    await store.hand_over(order(2), ConsumerId(order(2).run), A, OWNER)
    assert await held(store, A) == {HOST: SMALL}


async def test_a_claim_on_a_host_that_is_disabled_by_now_comes_too_late(store: SqlPlacement) -> None:
    await store.claim(order(1), A, OWNER, {HOST: SMALL}, None, counting_on("old"))
    await store.set_disabled(HOST, True)
    with pytest.raises(Refused, match="disabled by now"):
        await store.claim(order(2), B, OWNER, {HOST: SMALL}, None, counting_on("old"))
    assert await held(store, B) == {}
    await store.claim(order(1), A, OWNER, {HOST: SMALL}, None, counting_on("old"))  # a repetition
    await store.claim(order(3), B, OWNER, {OTHER: SMALL}, None, counting_on("old", root=OTHER))
    await store.set_disabled(HOST, False)
    await store.claim(order(4), B, OWNER, {HOST: SMALL}, None, counting_on("old"))


async def test_a_claim_below_a_disabled_host_and_a_return_to_one(store: SqlPlacement) -> None:
    await store.create_provider(CHILD, "child", HOST)
    await store.set_inventories(CHILD, None, inventory())
    await store.claim(order(1), A, OWNER, {HOST: SMALL})
    await store.hand_over(order(2), A, ConsumerId(order(2).run), OWNER)
    await store.set_disabled(HOST, True)
    with pytest.raises(Refused, match="disabled by now"):
        await store.claim(order(3), B, OWNER, {CHILD: SMALL}, None, counting_on("old"))
    await store.hand_over(order(2), ConsumerId(order(2).run), A, OWNER)  # the undo of a move
    assert await held(store, A) == {HOST: SMALL}


async def test_zones_are_put_right_unless_they_were_said_anew(store: SqlPlacement) -> None:
    await store.zone_hosts({HOST: "new", OTHER: ""})
    [first, other] = await store.zoned_hosts()
    assert (first, other.zone) == (HostZone(root=HOST, zone="new", version=1), "")
    await store.zone_hosts({HOST: "newer"})
    await store.correct_zone(first, "old")
    [second, _] = await store.zoned_hosts()
    assert second == HostZone(root=HOST, zone="newer", version=2)
    await store.claim(order(1), A, OWNER, {HOST: SMALL})
    await store.correct_zone(second, "old")  # whoever holds something there: it is as it is
    assert [one.zone for one in await store.zoned_hosts()] == ["old", ""]


async def test_a_host_that_is_gone_has_no_zone_when_it_comes_back(store: SqlPlacement) -> None:
    await store.zone_hosts({HOST: "new", CHILD: "new"})  # who is not there is left out
    await store.delete_tree(HOST)
    assert await store.zoned_hosts() == []
    await store.register_host(HOST, "host", inventory())
    await store.claim(order(1), A, OWNER, {HOST: SMALL}, None, counting_on("old"))
