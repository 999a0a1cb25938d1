"""A move's journal as one document: for administrators, of resizes and migrations, and it can be told again."""

from tests.api.front import Front, fault
from whimbrel.moves.journal_export import read
from whimbrel.sim.replay.replay import Replay


async def test_a_move_is_exported_and_told_again(front: Front) -> None:
    server = await front.boot(user_data="c2VjcmV0")
    assert (await front.act(server, {"resize": {"flavorRef": "2"}})).status_code == 202
    await front.settle()
    [move] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    document = (await front.get(f"/whimbrel/moves/{move['id']}/export", who="admin"))["export"]
    assert document["whimbrel"] == "move"
    assert document["run"]["id"] == move["id"]
    assert {host["name"] for host in document["hosts"]} >= {move["source"], move["target"]}
    assert "c2VjcmV0" not in str(document)
    again = await Replay(read(document)).tell()
    assert again.differs is None
    assert again.stands == again.stood == "waits for a verdict"


async def test_what_cannot_be_exported(front: Front) -> None:
    await front.boot()
    [made] = (await front.get("/whimbrel/moves?kind=any", who="admin"))["moves"]
    path = f"/whimbrel/moves/{made['id']}/export"
    said = fault(await front.ask("GET", path, who="admin"), "badRequest", 400)
    assert "only resizes and migrations" in said
    fault(await front.ask("GET", path), "forbidden", 403)
    fault(await front.ask("GET", "/whimbrel/moves/no-such-move/export", who="admin"), "itemNotFound", 404)
