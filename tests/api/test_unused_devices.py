"""Shares: no backend of this cloud has them, so they are refused as Nova refuses them."""

from tests.api.front import Front, fault

SHARE = "99999999-9999-4999-8999-999999999998"


async def test_a_server_has_no_shares(front: Front) -> None:
    server_id = await front.boot()
    path, body = f"/servers/{server_id}/shares", {"share": {"share_id": SHARE, "tag": "mine"}}
    assert await front.get(path, minor=97) == {"shares": []}
    assert (await front.ask("GET", path, minor=96)).status_code == 404
    fault(await front.ask("GET", f"{path}/{SHARE}"), "itemNotFound", 404)
    fault(await front.ask("POST", path, {"share": {"share_id": "x"}}), "badRequest", 400)
    fault(await front.ask("POST", path, body), "conflictingRequest", 409)
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    assert "Manila" in fault(await front.ask("POST", path, body), "forbidden", 403)
    fault(await front.ask("DELETE", f"{path}/{SHARE}"), "itemNotFound", 404)
