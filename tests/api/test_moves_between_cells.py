"""What users, other services and operators see of a server that moves from one cell to another."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.api.devices import network
from tests.api.front import Front
from tests.api.test_down_cells import take_away
from tests.api.test_external_events import tell
from whimbrel.api.http.policy import DEFAULTS
from whimbrel.domain.ids import CellName, ServerId
from whimbrel.domain.server_devices import FixedIp
from whimbrel.http.policy import Policy
from whimbrel.sim.cloud.cloud import PROJECT

CELLS = {"c1": ("h1",), "c2": ("h2",)}
ANYWHERE = Policy.load({**DEFAULTS, "compute:servers:resize:cross_cell": "rule:project_member_or_admin"})
ADDRESS = "10.0.0.200"


async def moved(front: Front, *, settle: bool = True) -> str:
    """Create a server with a port on its way from the one cell to the other, where only the other has room."""
    server_id = await front.boot(
        networks=[{"uuid": network(front)}], availability_zone="nova:h1", who="admin@" + PROJECT
    )
    answer = await front.act(server_id, {"resize": {"flavorRef": "2"}})
    assert answer.status_code == 202, answer.text
    if settle:
        await front.settle()
    return server_id


async def give_address(front: Front, server_id: str) -> Any:
    service = front.world.remains.network
    [mine] = await service.ports_of([ServerId(server_id)])
    service._ports[mine.id] = replace(mine, addresses=(FixedIp(ADDRESS, mine.addresses[0].subnet_id),))
    return {"name": "network-changed", "server_uuid": server_id, "tag": mine.id}


async def shown_address(front: Front, server_id: str) -> str:
    server = await front.show(server_id)
    return str(server["addresses"]["private"][0]["addr"])


@pytest.mark.cloud(cells=CELLS, policy=ANYWHERE)
async def test_news_heard_in_one_cell_holds_in_the_other(front: Front) -> None:
    server_id = await moved(front)
    assert (await front.show(server_id))["status"] == "VERIFY_RESIZE"
    assert (await front.world.cloud.directory.entry(ServerId(server_id))).cell == "c2"
    assert await tell(front, await give_address(front, server_id)) == [200]
    assert await shown_address(front, server_id) == ADDRESS
    await front.act(server_id, {"revertResize": None})
    await front.settle()
    assert (await front.world.cloud.directory.entry(ServerId(server_id))).cell == "c1"
    assert await shown_address(front, server_id) == ADDRESS


@pytest.mark.cloud(cells=CELLS, policy=ANYWHERE)
async def test_news_heard_before_it_arrives_goes_along(front: Front) -> None:
    server_id = await moved(front, settle=False)
    assert await tell(front, await give_address(front, server_id)) == [200]
    await front.settle()
    assert (await front.world.cloud.directory.entry(ServerId(server_id))).cell == "c2"
    assert await shown_address(front, server_id) == ADDRESS


@pytest.mark.cloud(cells=CELLS)
async def test_news_of_a_server_whose_cell_is_away_comes_to_nothing_now(front: Front) -> None:
    server_id = await front.boot(availability_zone="nova:h2", who="admin@" + PROJECT)
    here = await front.boot(availability_zone="nova:h1", who="admin@" + PROJECT)
    take_away(front, CellName("c2"))
    events = [{"name": "network-changed", "server_uuid": id} for id in (here, server_id)]
    assert await tell(front, *events) == [200, 422]


@pytest.mark.cloud(cells=CELLS, policy=ANYWHERE)
async def test_it_is_one_server_and_one_move(front: Front) -> None:
    server_id = await moved(front)
    assert [one["id"] for one in (await front.get("/servers"))["servers"]] == [server_id]
    assert (await front.get("/limits"))["limits"]["absolute"]["totalInstancesUsed"] == 1
    [migration] = (await front.get("/os-migrations", who="admin"))["migrations"]
    assert (migration["source_compute"], migration["dest_compute"]) == ("h1", "h2")
    [brief] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    move = (await front.get(f"/whimbrel/moves/{brief['id']}", who="admin"))["move"]
    for one in (brief, move):
        assert (one["cross_cell"], one["source_cell"], one["target_cell"]) == (True, "c1", "c2")


@pytest.mark.cloud(cells=CELLS, policy=ANYWHERE)
async def test_it_is_on_one_hypervisor(front: Front) -> None:
    server_id = await moved(front)
    shown = (await front.get("/os-hypervisors?with_servers=true", who="admin"))["hypervisors"]
    on_them = {one["hypervisor_hostname"]: [each["uuid"] for each in one["servers"]] for one in shown}
    assert on_them == {"h1": [], "h2": [server_id]}


async def test_a_move_inside_a_cell_says_so(front: Front) -> None:
    server_id = await front.boot()
    await front.act(server_id, {"resize": {"flavorRef": "2"}})
    await front.settle()
    [brief] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    assert (brief["cross_cell"], brief["source_cell"], brief["target_cell"]) == (False, "c1", "c1")
