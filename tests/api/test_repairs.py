"""Repairs by the API: what would be done is said first, and what is done is a move that can be looked at."""

from tests.api.front import Front, fault
from tests.api.test_proof import NOBODY, leak
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.servers import lookup

URL = "/whimbrel/repairs"


async def test_what_is_wrong_is_listed_with_what_would_be_done_and_mended(front: Front) -> None:
    await front.boot()
    await leak(front)
    found = await front.get(URL, who="admin")
    assert not found["holds"]
    [one] = found["repairs"]
    assert one["actions"] == [{"kind": "release_claim", "sentence": f"release the claim of {NOBODY}"}]
    assert one["mends"] == one["actions"], "clients of the last release read it"
    assert one["left"] == []
    answer = await front.ask("POST", URL, {"repair": {"subject": NOBODY}}, who="admin")
    assert answer.status_code == 202
    await front.settle()
    move = (await front.get(f"/whimbrel/moves/{answer.json()['repair']['move_id']}", who="admin"))["move"]
    assert (move["saga"], move["state"], move["server_id"]) == ("repair", "done", NOBODY)
    assert await front.get(URL, who="admin") == {"repairs": [], "holds": True, "unseen": []}


async def test_what_nobody_can_decide_is_refused_with_the_reason(front: Front) -> None:
    server = ServerId(await front.boot(host="h1", who="admin"))
    slot = (await lookup.find(front.world.cloud, server)).slot
    await front.world.hypervisors[HostName("h1")].destroy(GuestKey(server, slot or Slot("")))
    [one] = (await front.get(URL, who="admin"))["repairs"]
    assert one["actions"] == []
    assert "it has no guest" in one["left"][0]
    answer = await front.ask("POST", URL, {"repair": {"subject": server}}, who="admin")
    assert "it has no guest" in fault(answer, "conflictingRequest", 409)


async def test_where_all_is_right_nothing_is_repaired(front: Front) -> None:
    server = await front.boot()
    answer = await front.ask("POST", URL, {"repair": {"subject": server}}, who="admin")
    assert "Nothing is wrong" in fault(answer, "badRequest", 400)


async def test_only_operators_repair(front: Front) -> None:
    fault(await front.ask("GET", URL), "forbidden", 403)
    fault(await front.ask("POST", URL, {"repair": {"subject": NOBODY}}), "forbidden", 403)
