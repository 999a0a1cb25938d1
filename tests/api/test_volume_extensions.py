"""volume-extended: a running guest sees the new size of its volume, and the user sees an action."""

from typing import Any

import pytest

from tests.api.devices import volume
from tests.api.front import Front
from tests.api.test_assisted_snapshots import newest_action, with_volume
from tests.api.test_external_events import NOWHERE, tell
from tests.api.test_volume_attachments import path
from tests.api.test_volume_swaps import migrating, put
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.servers import lookup
from whimbrel.sim.world.hypervisor import SimulatedHypervisor

EVENT = "compute_extend_volume"


async def host_of(front: Front, server_id: str) -> tuple[SimulatedHypervisor, GuestKey]:
    record = await lookup.find(front.world.cloud, ServerId(server_id))
    return front.world.hypervisors[HostName(record.host or "")], GuestKey(record.id, Slot(record.slot or ""))


async def sizes(front: Front, server_id: str) -> dict[str, int]:
    """Return the volumes that became larger while the guest was live, with the size that it sees."""
    host, key = await host_of(front, server_id)
    return await host.extended(key)


async def extend(front: Front, server_id: str, volume_id: str, size_gib: int = 3) -> Any:
    """Extend a volume at its service, which reports it. Return the code of its event."""
    front.world.remains.volumes.extend(volume_id, size_gib)
    [code] = await tell(front, event(server_id, volume_id), minor=51)
    return code


def event(server_id: str, volume_id: str) -> dict[str, Any]:
    return {"name": "volume-extended", "server_uuid": server_id, "tag": volume_id}


@pytest.mark.parametrize("state", ["active", "paused", "resized"])
async def test_a_live_guest_sees_the_new_size(front: Front, state: str) -> None:
    server_id, one = await with_volume(front)
    acts: dict[str, dict[str, Any]] = {"paused": {"pause": None}, "resized": {"migrate": None}}
    if state in acts:
        assert (await front.act(server_id, acts[state], who="admin")).status_code == 202
        await front.settle()
    assert await extend(front, server_id, one) == 200
    await front.settle()
    assert await sizes(front, server_id) == {one: 3}
    host, key = await host_of(front, server_id)
    assert await host.console_log(key, 1) == "/dev/vdb: detected capacity change to 3 GiB\n"
    shown = await front.show(server_id, who="admin")
    assert (shown["OS-EXT-STS:vm_state"], shown["OS-EXT-STS:task_state"]) == (state, None)
    history = f"/servers/{server_id}/os-instance-actions"
    action = (await front.get(history))["instanceActions"][0]
    assert (action["action"], action["message"]) == ("extend_volume", None)
    events = (await front.get(f"{history}/{action['request_id']}", who="admin"))["instanceAction"]["events"]
    assert {(each["event"], each["result"]) for each in events} == {(EVENT, "Success")}


async def test_a_guest_that_is_off_has_the_new_size_when_it_starts(front: Front) -> None:
    server_id, one = await with_volume(front)
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    await front.make_its_agent_old(server_id)  # it is not asked
    assert await extend(front, server_id, one) == 200
    await front.settle()
    assert await sizes(front, server_id) == {}
    assert await newest_action(front, server_id) == ("extend_volume", None)
    assert (await front.show(server_id))["status"] == "SHUTOFF"


async def test_several_volumes_of_a_server_by_one_request(front: Front) -> None:
    server_id, one = await with_volume(front)
    two = volume(front)
    assert (await front.ask("POST", path(server_id), {"volumeAttachment": {"volumeId": two}})).status_code == 202
    for each in (one, two):
        front.world.remains.volumes.extend(each, 5)
    assert await tell(front, event(server_id, one), event(server_id, two), event(server_id, NOWHERE)) == [200] * 3
    await front.settle()  # the second one waits for its attachment
    assert await sizes(front, server_id) == {one: 5, two: 5}


async def test_the_size_is_that_of_the_turn(front: Front) -> None:
    """What is asked for while another operation is under way is done after it, once for each event."""
    server_id = await front.boot()
    old, new = await migrating(front, server_id)
    assert (await put(front, server_id, old, new)).status_code == 202
    for size_gib in (5, 6):
        assert await extend(front, server_id, old, size_gib) == 200
        front.world.remains.volumes.extend(new, size_gib)
    await front.settle()
    assert await sizes(front, server_id) == {old: 6}


async def test_a_volume_that_is_detached_meanwhile_is_left_alone(front: Front) -> None:
    server_id, one = await with_volume(front)
    assert (await front.ask("DELETE", path(server_id, one))).status_code == 202
    assert await extend(front, server_id, one) == 200
    await front.settle()
    assert await sizes(front, server_id) == {}
    assert await newest_action(front, server_id) == ("extend_volume", None)


async def test_a_host_that_refuses_is_seen_in_the_action(front: Front) -> None:
    server_id, one = await with_volume(front)
    host, _ = await host_of(front, server_id)
    host.refusing.add("extend_volume")
    assert await extend(front, server_id, one) == 200
    await front.settle()
    assert await newest_action(front, server_id) == ("extend_volume", "Error")
    host.refusing.clear()
    assert await tell(front, event(server_id, one)) == [200]
    await front.settle()
    assert await sizes(front, server_id) == {one: 3}
    assert (await front.show(server_id))["status"] == "ACTIVE"


async def test_an_agent_that_lacks_the_order_is_answered_as_before(front: Front) -> None:
    server_id, one = await with_volume(front)
    before = await newest_action(front, server_id)
    await front.make_its_agent_old(server_id)
    assert await extend(front, server_id, one) == 422
    await front.settle()
    assert await newest_action(front, server_id) == before
    assert await sizes(front, server_id) == {}


@pytest.mark.parametrize("act", [{"suspend": None}, {"rescue": None}, {"os-stop": None}, {"migrate": None}])
async def test_what_cannot_be_done_now_is_said(front: Front, act: dict[str, Any]) -> None:
    server_id, one = await with_volume(front)
    assert (await front.act(server_id, act, who="admin")).status_code in (200, 202)
    if "os-stop" not in act and "migrate" not in act:
        await front.settle()
    assert await extend(front, server_id, one) == 422
    await front.settle()
    assert await sizes(front, server_id) == {}
