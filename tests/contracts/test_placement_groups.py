"""What every store of placement does for server groups: no two claims break a rule together, whoever comes first."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contracts.databases import Opener
from tests.contracts.test_placement import HOST, LARGE, OTHER, OWNER, SMALL, check_sums, held, inventory, order
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.domain.errors import Refused, Superseded
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, GroupId, ProviderId, RunId, ServerId
from whimbrel.placement.provider import Claim
from whimbrel.ports.placement.placement import GroupLocations, GroupRule

THIRD = ProviderId("11111111-0000-4000-8000-000000000003")
GROUP = GroupId("44444444-0000-4000-8000-000000000001")
A, B, C = (ConsumerId(f"22222222-0000-4000-8000-00000000000{number}") for number in "123")
RUN_OF_A = Order(RunId("33333333-0000-4000-8000-000000000001"), 1)
MOVE_OF_A = ConsumerId(RUN_OF_A.run)


class Grouped:
    """A store under test on three hosts, with servers of one group."""

    def __init__(self, store: SqlPlacement) -> None:
        self.store = store
        self._orders = 0

    async def claim(self, server: ConsumerId, root: ProviderId, policy: str, most: int = 1, **more: Any) -> None:
        self._orders += 1
        rule = GroupRule(group=GROUP, policy=policy, max_server_per_host=most, root=root)
        by = more.get("by") or order(self._orders)
        await self.store.claim(by, server, OWNER, {root: more.get("want", SMALL)}, more.get("rule", rule))

    async def places(self) -> set[tuple[str, str]]:
        return {(server, root) for server, root in (await self.store.group_places(GROUP)).held}


@pytest.fixture
async def group(open_store: Opener) -> AsyncIterator[Grouped]:
    async with open_store("placement") as database:
        store = SqlPlacement(database)
        for provider, name in ((HOST, "host"), (OTHER, "other"), (THIRD, "third")):
            await store.register_host(provider, name, inventory())
        yield Grouped(store)
        await check_sums(database)


# Rules


async def test_anti_affinity_keeps_servers_apart(group: Grouped) -> None:
    await group.claim(A, HOST, "anti-affinity")
    with pytest.raises(Refused, match="anti-affinity policy of server group 44444444"):
        await group.claim(B, HOST, "anti-affinity")
    assert await held(group.store, B) == {}
    await group.claim(B, OTHER, "anti-affinity")
    assert await group.places() == {(A, HOST), (B, OTHER)}


async def test_anti_affinity_lets_as_many_together_as_its_rule_says(group: Grouped) -> None:
    await group.claim(A, HOST, "anti-affinity", 2)
    await group.claim(B, HOST, "anti-affinity", 2)
    with pytest.raises(Refused, match="at most 2"):
        await group.claim(C, HOST, "anti-affinity", 2)
    await group.claim(C, HOST, "anti-affinity", 3)


async def test_affinity_keeps_servers_together(group: Grouped) -> None:
    await group.claim(A, HOST, "affinity")
    with pytest.raises(Refused, match="affinity policy of server group 44444444"):
        await group.claim(B, OTHER, "affinity")
    await group.claim(B, HOST, "affinity")
    assert await group.places() == {(A, HOST), (B, HOST)}


@pytest.mark.parametrize("policy", ["soft-affinity", "soft-anti-affinity"])
async def test_soft_policies_refuse_nothing(group: Grouped, policy: str) -> None:
    for server, root in ((A, HOST), (B, HOST), (C, OTHER)):
        await group.claim(server, root, policy)
    assert (await group.store.group_places(GROUP)).beside(ServerId(A)) == {HOST: 1, OTHER: 1}


async def test_groups_know_nothing_of_each_other(group: Grouped) -> None:
    await group.claim(A, HOST, "anti-affinity")
    other = GroupRule(group=GroupId("another"), policy="anti-affinity", root=HOST)
    await group.claim(B, HOST, "", rule=other)
    await group.store.claim(order(9), C, OWNER, {HOST: SMALL})
    assert await group.places() == {(A, HOST)}
    assert await group.store.group_places(GroupId("nobody's")) == GroupLocations()


async def test_a_refused_claim_keeps_the_fence_raised(group: Grouped) -> None:
    await group.claim(A, HOST, "anti-affinity")
    with pytest.raises(Refused):
        await group.claim(B, HOST, "anti-affinity", by=Order(RunId("late"), 2))
    with pytest.raises(Superseded):
        await group.claim(B, OTHER, "anti-affinity", by=Order(RunId("late"), 1))


async def test_what_has_no_room_is_nowhere(group: Grouped) -> None:
    with pytest.raises(Refused):
        await group.claim(A, HOST, "anti-affinity", want={"VCPU": 99})
    assert await group.places() == set()


async def test_a_claim_can_be_repeated(group: Grouped) -> None:
    for _ in range(2):
        await group.claim(A, HOST, "anti-affinity")
    await group.claim(A, HOST, "anti-affinity", want=LARGE)
    assert await group.places() == {(A, HOST)}


# Moves


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
async def test_a_server_that_moves_is_not_in_its_own_way(group: Grouped, policy: str) -> None:
    await group.claim(A, HOST, policy)
    await group.store.hand_over(RUN_OF_A, A, MOVE_OF_A, OWNER)
    await group.claim(A, HOST, policy, by=RUN_OF_A, want=LARGE)  # a resize on the same host
    await group.claim(A, OTHER, policy, by=RUN_OF_A)
    assert await group.places() == {(A, HOST), (A, OTHER)}


async def test_a_server_that_moves_is_in_the_way_of_others_on_both_hosts(group: Grouped) -> None:
    await group.claim(A, HOST, "anti-affinity")
    await group.store.hand_over(RUN_OF_A, A, MOVE_OF_A, OWNER)
    await group.claim(A, OTHER, "anti-affinity", by=RUN_OF_A)
    for root in (HOST, OTHER):
        with pytest.raises(Refused):
            await group.claim(B, root, "anti-affinity")
    await group.store.release(RUN_OF_A, MOVE_OF_A)  # confirmed
    await group.claim(B, HOST, "anti-affinity")
    assert await group.places() == {(A, OTHER), (B, HOST)}


async def test_who_goes_back_is_where_he_was(group: Grouped) -> None:
    await group.claim(A, HOST, "anti-affinity")
    await group.store.hand_over(RUN_OF_A, A, MOVE_OF_A, OWNER)
    await group.claim(A, OTHER, "anti-affinity", by=RUN_OF_A)
    for _ in range(2):
        await group.store.hand_over(RUN_OF_A, MOVE_OF_A, A, OWNER)
    assert await group.places() == {(A, HOST)}
    await group.claim(B, OTHER, "anti-affinity")


async def test_who_lets_go_is_nowhere_however_he_does(group: Grouped) -> None:
    for server in (A, B, C):
        await group.claim(server, HOST, "affinity")
    await group.store.release(order(20), A)
    await group.store.drop(B)
    await group.store.rewrite([Claim(consumer=C, owner=OWNER, held={})])
    assert await group.places() == set()


async def test_what_is_claimed_without_a_word_of_the_group_leaves_it_there(group: Grouped) -> None:
    """An interface that is attached claims anew, on the same host."""
    await group.claim(A, HOST, "anti-affinity")
    await group.store.claim(order(30), A, OWNER, {HOST: LARGE})
    assert await group.places() == {(A, HOST)}


# Together to another host


async def test_a_group_that_moves_together_may_be_on_two_hosts_meanwhile(group: Grouped) -> None:
    for server in (A, B):
        await group.claim(server, HOST, "affinity")
    await group.store.move_group(GROUP, OTHER, 5.0)
    now = await group.store.group_places(GROUP)
    assert (now.is_moving, now.moving_to, now.moving_since) == (True, OTHER, 5.0)
    await group.claim(A, OTHER, "affinity")
    with pytest.raises(Refused, match="being moved"):
        await group.claim(C, HOST, "affinity")
    with pytest.raises(Refused):
        await group.claim(B, THIRD, "affinity")
    await group.claim(B, OTHER, "affinity")
    assert not (await group.store.group_places(GROUP)).is_moving
    with pytest.raises(Refused):
        await group.claim(C, HOST, "affinity")


async def test_a_move_that_is_over_permits_nothing_any_more(group: Grouped) -> None:
    await group.claim(A, HOST, "affinity")
    await group.store.move_group(GROUP, OTHER, 5.0)
    await group.claim(A, OTHER, "affinity")
    await group.claim(A, THIRD, "affinity")  # it is alone in its group, and may go anywhere
    with pytest.raises(Refused):
        await group.claim(B, OTHER, "affinity")


async def test_a_move_that_came_to_nothing_is_ended_later(group: Grouped) -> None:
    for server in (A, B):
        await group.claim(server, HOST, "affinity")
    await group.store.move_group(GROUP, OTHER, 5.0)
    await group.store.end_group_moves(before=5.0)
    assert (await group.store.group_places(GROUP)).is_moving
    await group.claim(A, OTHER, "affinity")
    await group.store.end_group_moves(before=6.0)
    assert (await group.store.group_places(GROUP)).is_moving, "it is on two hosts"
    await group.store.release(order(40), A)
    await group.store.end_group_moves(before=6.0)
    assert (await group.store.group_places(GROUP)).moving_to is None


async def test_what_is_forgotten_is_in_nobodys_way(group: Grouped) -> None:
    await group.claim(A, HOST, "anti-affinity")
    for _ in range(2):
        await group.store.forget_group(GROUP)
    assert await group.store.group_places(GROUP) == GroupLocations()
    await group.claim(B, HOST, "anti-affinity")


# At once


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
async def test_of_claims_that_break_the_rule_together_one_wins(group: Grouped, policy: str) -> None:
    servers = [ConsumerId(f"55555555-0000-4000-8000-00000000000{number}") for number in range(8)]
    roots = [HOST, OTHER] if policy == "affinity" else [HOST, HOST]
    for _ in range(3):
        claims = [group.claim(server, roots[place % 2], policy) for place, server in enumerate(servers)]
        answers = await asyncio.gather(*claims, return_exceptions=True)
        assert {type(answer) for answer in answers} == {type(None), Refused}
        won = [answer for answer in answers if answer is None]
        assert len(won) == (4 if policy == "affinity" else 1)
        assert len({root for _, root in await group.places()}) == 1
        for server in servers:
            await group.store.drop(server)


async def test_of_two_moves_toward_one_host_one_wins(group: Grouped) -> None:
    moves = {A: (HOST, RUN_OF_A), B: (OTHER, Order(RunId("33333333-0000-4000-8000-000000000002"), 1))}
    for server, (root, _) in moves.items():
        await group.claim(server, root, "anti-affinity")

    async def move(server: ConsumerId) -> None:
        by = moves[server][1]
        await group.store.hand_over(by, server, ConsumerId(by.run), OWNER)
        await group.claim(server, THIRD, "anti-affinity", by=by)

    answers = await asyncio.gather(move(A), move(B), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["NoneType", "Refused"]
