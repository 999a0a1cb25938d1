"""What every store of requested images does: each host and image once, those that have waited longest first."""

from msgspec.structs import replace

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.global_.image_fetches import SqlImageFetches
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.stores.image_fetches import ImageFetch

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
            await fetches.remove(in_order[0])
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
        await fetches.remove(one)
        await fetches.postpone(one, 60.0)
        assert await fetches.due(99.0, 10) == [fetch(B, "x", 5.0)]
