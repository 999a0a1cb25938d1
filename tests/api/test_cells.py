"""Cells, as operators see them and switch them."""

from typing import Any

import pytest

from tests.api.front import Front, fault
from whimbrel.domain.ids import CellName, HostName

CELLS = "/whimbrel/cells"


async def add(front: Front, who: str = "admin", **requested: Any) -> Any:
    return await front.ask("POST", CELLS, {"cell": requested}, who=who)


async def switch(front: Front, name: str, enabled: Any, reason: Any = None, who: str = "admin") -> Any:
    requested = {"enabled": enabled} | ({} if reason is None else {"disabled_reason": reason})
    return await front.ask("PUT", f"{CELLS}/{name}", {"cell": requested}, who=who)


async def test_cells_are_listed_with_their_hosts_and_servers(front: Front) -> None:
    await front.boot()
    hosts = front.world.cloud.cell(CellName("c1")).hosts
    await hosts.set_service(HostName("h2"), enabled=True, disabled_reason=None, forced_down=True)
    listed = await front.get(CELLS, who="admin")
    [cell] = listed["cells"]
    assert cell["created_at"] > 0
    assert {key: cell[key] for key in cell if key != "created_at"} == {
        "name": "c1",
        "enabled": True,
        "disabled_reason": None,
        "state": "up",
        "problem": None,
        "database": "sqlite",
        "hosts": ["h1", "h2", "h3"],
        "hosts_up": 2,
        "servers": 1,
        "physnets": None,
        "storage": None,
        "migration_network": None,
        "in_settings": True,
    }
    assert listed["cell0"] == {"servers": 0}
    fault(await front.ask("GET", CELLS, who="manager"), "forbidden", 403)


async def test_a_server_that_found_no_host_is_counted_in_cell0(front: Front) -> None:
    for host in ("h1", "h2", "h3"):
        body = {"host": host, "binary": "nova-compute"}
        await front.ask("PUT", "/os-services/disable", body, who="admin", minor=52)
    await front.boot()
    listed = await front.get(CELLS, who="admin")
    assert (listed["cell0"]["servers"], listed["cells"][0]["servers"]) == (1, 0)


async def test_a_cell_is_added_and_is_down_until_it_is_open(front: Front) -> None:
    requested = {"name": "c2", "database": "postgresql://u:secret@db/c2", "physnets": ["front", "back"], "storage": []}
    answer = await add(front, **requested)
    assert answer.status_code == 201
    assert "secret" not in answer.text
    cell = answer.json()["cell"]
    assert (cell["state"], cell["problem"], cell["hosts"]) == ("down", "it is not open yet", [])
    assert (cell["physnets"], cell["storage"], cell["in_settings"]) == (["back", "front"], [], False)
    assert [each["name"] for each in (await front.get(CELLS, who="admin"))["cells"]] == ["c1", "c2"]
    assert "c2" in fault(await add(front, name="c2"), "conflictingRequest", 409)


async def test_a_cell_that_a_command_added_is_removed_while_nobody_lives_in_it(front: Front) -> None:
    async def remove(name: str, who: str = "admin") -> Any:
        return await front.ask("DELETE", f"{CELLS}/{name}", who=who)

    await add(front, name="c2")
    fault(await remove("c2", who="manager"), "forbidden", 403)
    assert (await remove("c2")).status_code == 204
    assert [each["name"] for each in (await front.get(CELLS, who="admin"))["cells"]] == ["c1"]
    fault(await remove("c2"), "itemNotFound", 404)
    assert "cloud.toml" in fault(await remove("c1"), "conflictingRequest", 409)
    await front.world.cloud.cell_infos.forget(CellName("c1"))  # as if a command had added it
    await add(front, name="c1")
    await front.boot()
    assert "has 1 server:" in fault(await remove("c1"), "conflictingRequest", 409)


async def test_a_disabled_cell_takes_no_more_servers_until_it_is_enabled(front: Front) -> None:
    answer = await switch(front, "c1", "false", "new hardware")
    assert answer.status_code == 200
    cell = answer.json()["cell"]
    assert (cell["enabled"], cell["disabled_reason"]) == (False, "new hardware")
    refused = await front.show(await front.boot())
    assert refused["status"] == "ERROR"
    assert (await switch(front, "c1", True)).json()["cell"]["disabled_reason"] is None
    assert (await front.show(await front.boot("two")))["status"] == "ACTIVE"


@pytest.mark.parametrize(
    "requested",
    [
        {},
        {"name": "Big"},
        {"name": "c2", "database": "mysql://there"},
        {"name": "c2", "database": "postgres://u@h/d"},
        {"name": "c2", "database": ""},
        {"name": "c2", "database": "sqlite://"},
        {"name": "c2", "database": "postgresql://u@h:port/d"},
        {"name": "c2", "physnets": ["a b"]},
        {"name": "c2", "storage": "ceph"},
        {"name": "c2", "storage": ["h@ceph#p"]},
        {"name": "c2", "hosts": []},
    ],
)
async def test_what_is_no_cell_is_refused(front: Front, requested: dict[str, Any]) -> None:
    fault(await add(front, **requested), "badRequest", 400)
    assert len((await front.get(CELLS, who="admin"))["cells"]) == 1


async def test_what_is_no_switch_is_refused(front: Front) -> None:
    fault(await switch(front, "c9", False), "itemNotFound", 404)
    fault(await switch(front, "c1", "perhaps"), "badRequest", 400)
    assert "no disabled_reason" in fault(await switch(front, "c1", True, "why not"), "badRequest", 400)
    for who in ("manager", "member"):
        fault(await add(front, who=who, name="c2"), "forbidden", 403)
        fault(await switch(front, "c1", False, who=who), "forbidden", 403)
