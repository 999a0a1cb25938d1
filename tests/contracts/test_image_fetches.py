"""What every store of requested images does: each host and image once, those that have waited longest first."""

import asyncio

from msgspec.structs import replace

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.global_.image_fetches import SqlImageFetches
from whimbrel.domain.host import Aggregate
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.stores.image_fetches import ImageFetch, ImageRequest, Outcome

A, B = HostName("a"), HostName("b")


def fetch(host: HostName, image_id: str, at: float = 1.0) -> ImageFetch:
    return ImageFetch(host=host, cell=CellName("c1"), image_id=image_id, requested_at=at, due_at=at)


async def test_requests_are_due_in_order_until_they_are_removed(open_store: Opener) -> None:
    async with open_store("global") as db:
        fetches = SqlImageFetches(db)
        await fetches.add([])
        assert await fetches.due(9.0, 10) == []
        await fetches.add([fetch(B, "x"), fetch(A, "y"), fetch(A, "x"), fetch(A, "z", 2.0)])
        in_order = [fetch(A, "x"), fetch(B, "x"), fetch(A, "y")]
        assert await fetches.due(1.5, 10) == in_order
        assert await fetches.due(2.0, 2) == in_order[:2]
        for _ in "ab":
            await fetches.remove(in_order[0], is_cached=True)
        assert await fetches.due(2.0, 10) == [*in_order[1:], fetch(A, "z", 2.0)]
        assert [await fetches.is_wanted(A, image) for image in "xyz"] == [False, True, True]


async def test_a_request_is_postponed_and_replaced(open_store: Opener) -> None:
    async with open_store("global") as db:
        fetches, one = SqlImageFetches(db), fetch(A, "x")
        await fetches.add([one])
        await fetches.postpone(one, 30.0)
        assert await fetches.due(29.0, 10) == []
        assert await fetches.due(30.0, 10) == [replace(one, due_at=30.0)]
        await fetches.add([fetch(A, "x", 5.0), fetch(B, "x", 5.0)])
        assert await fetches.due(5.0, 10) == [fetch(A, "x", 5.0), fetch(B, "x", 5.0)]
        await fetches.remove(one, is_cached=True)
        await fetches.postpone(one, 60.0)
        assert await fetches.due(99.0, 10) == [fetch(B, "x", 5.0)]


def request(id: str, hosts: list[HostName], images: list[str], at: float = 1.0) -> ImageRequest:
    aggregate = Aggregate(id=1, uuid="u", name="a", hosts=hosts, metadata={"ssd": "true"})
    return ImageRequest(id=id, aggregate=aggregate, hosts=hosts, images=images, requested_at=at)


async def test_outcomes_are_noted_in_all_requests_that_have_them(open_store: Opener) -> None:
    async with open_store("global") as db:
        fetches = SqlImageFetches(db)
        both, one = request("both", [A, B], ["x", "y"]), request("one", [B], ["x"], 2.0)
        every = [fetch(host, image) for host in (A, B) for image in "xy"]
        await fetches.add(every, both, kept_s=5)
        await fetches.add([fetch(B, "x")], one, kept_s=5)
        assert await fetches.requests() == [both, one]
        await fetches.remove(fetch(B, "x"), is_cached=False)
        await fetches.remove(fetch(B, "x"), is_cached=True)  # by another process, which was late
        first, second = await fetches.requests()
        assert first.outcomes == second.outcomes == [Outcome(B, "x", False)]
        assert (list(first.done()), list(second.done())) == ([], [(B, {"x": False})])
        await asyncio.gather(*(fetches.remove(each, is_cached=True) for each in every))
        done = dict((await fetches.requests())[0].done())
        assert done == {A: {"x": True, "y": True}, B: {"x": False, "y": True}}


async def test_old_requests_are_removed_with_the_next(open_store: Opener) -> None:
    async with open_store("global") as db:
        fetches, empty = SqlImageFetches(db), request("empty", [], ["x"], 9.0)
        await fetches.add([], request("old", [A], ["x"], 1.0))
        await fetches.add([], empty, kept_s=7)
        assert await fetches.requests() == [empty]
