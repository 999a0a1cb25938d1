"""Shares and assisted snapshots: no backend of this cloud has them, so they are refused as Nova refuses them."""

from typing import Any

from tests.api.front import Front, fault

SHARE = "99999999-9999-4999-8999-999999999998"
ASSISTED = "/os-assisted-volume-snapshots"


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


async def test_no_volume_takes_assisted_snapshots(front: Front) -> None:
    info = {"snapshot_id": SHARE, "type": "qcow2", "new_file": "f"}
    body: dict[str, Any] = {"snapshot": {"volume_id": SHARE, "create_info": info}}
    fault(await front.ask("POST", ASSISTED, body), "forbidden", 403)
    assert SHARE in fault(await front.ask("POST", ASSISTED, body, who="admin"), "badRequest", 400)
    body["snapshot"]["create_info"] = info | {"type": "raw"}
    fault(await front.ask("POST", ASSISTED, body, who="admin"), "badRequest", 400)
    for query, code, name in (("", 400, "badRequest"), ('?delete_info={"volume_id":"v"}', 404, "itemNotFound")):
        fault(await front.ask("DELETE", f"{ASSISTED}/{SHARE}{query}", who="admin"), name, code)
