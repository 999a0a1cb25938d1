"""Attaches and detaches that come before the earlier ones are over: all are taken, and done in order."""

import asyncio

from tests.api.devices import volume
from tests.api.front import Front, fault
from tests.api.test_interfaces import network, plugged
from tests.api.test_volume_attachments import attached, path, status
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers.rounds import reconcile


async def attach(front: Front, server_id: str, volume_id: str) -> str:
    """Attach a volume; return its device name as answered. It is found at once."""
    answer = await front.ask("POST", path(server_id), {"volumeAttachment": {"volumeId": volume_id}}, minor=100)
    assert answer.status_code == 200, answer.text
    shown = (await front.get(path(server_id, volume_id), minor=88))["volumeAttachment"]
    assert shown == {**answer.json()["volumeAttachment"]}
    device: str = shown["device"]
    return device


async def test_eight_volumes_are_attached_at_once_under_the_names_that_were_answered(front: Front) -> None:
    server_id = await front.boot()
    mine = [volume(front) for _ in range(8)]
    names = await asyncio.gather(*(attach(front, server_id, one) for one in mine))
    assert sorted(names) == [f"/dev/vd{letter}" for letter in "bcdefghi"]
    listed = (await front.get(path(server_id)))["volumeAttachments"]
    assert {each["volumeId"]: each["device"] for each in listed} == dict(zip(mine, names, strict=True))
    await front.settle()
    listed = (await front.get(path(server_id)))["volumeAttachments"]
    assert {each["volumeId"]: each["device"] for each in listed} == dict(zip(mine, names, strict=True))
    assert sorted(await attached(front, server_id)) == sorted(mine)
    for one in mine:
        assert (await front.ask("DELETE", path(server_id, one))).status_code == 202
    fault(await front.ask("DELETE", path(server_id, mine[-1])), "badRequest", 400)
    await front.settle()
    assert await attached(front, server_id) == ()
    assert {await status(front, one) for one in mine} == {"available"}


async def test_whether_it_goes_with_its_server_is_changed_right_after_the_attach(front: Front) -> None:
    server_id, first, second = await front.boot(), volume(front), volume(front)

    async def put(volume_id: str, wanted: bool) -> int:
        body = {"volumeAttachment": {"volumeId": volume_id, "delete_on_termination": wanted}}
        status: int = (await front.ask("PUT", path(server_id, volume_id), body)).status_code
        return status

    async def goes() -> dict[str, bool]:
        listed = (await front.get(path(server_id)))["volumeAttachments"]
        for one in listed:
            assert (await front.get(path(server_id, one["volumeId"])))["volumeAttachment"] == one
        return {one["volumeId"]: one["delete_on_termination"] for one in listed}

    await attach(front, server_id, first)
    assert await put(first, True) == 202
    assert await goes() == {first: True}
    await front.settle()
    assert await goes() == {first: True}
    await attach(front, server_id, second)
    assert [await put(first, False), await put(second, True), await put(second, False)] == [202] * 3
    assert await goes() == {first: False, second: False}
    assert (await front.ask("DELETE", path(server_id, second))).status_code == 202
    assert await put(second, True) == 202  # too late
    await front.settle()
    assert await goes() == {first: False}
    assert (await front.show(server_id))["OS-EXT-STS:task_state"] is None


async def test_a_volume_is_attached_detached_and_attached_elsewhere(front: Front) -> None:
    server_id, one = await front.boot(), volume(front)
    await attach(front, server_id, one)
    body = {"volumeAttachment": {"volumeId": one}}
    assert "already attached" in fault(await front.ask("POST", path(server_id), body), "badRequest", 400)
    assert (await front.ask("DELETE", path(server_id, one))).status_code == 202
    await front.settle()
    assert (await attached(front, server_id), await status(front, one)) == ((), "available")
    fault(await front.ask("GET", path(server_id, one)), "itemNotFound", 404)


async def test_one_that_fails_at_its_turn_does_not_hold_up_the_next(front: Front) -> None:
    server_id, other = await front.boot(), await front.boot("other")
    first, taken, last = (volume(front) for _ in range(3))
    for one in (first, taken, last):
        await attach(front, server_id, one)
    body = {"volumeAttachment": {"volumeId": taken}}
    assert (await front.ask("POST", path(other), body, minor=100)).status_code == 200
    await front.settle()
    assert await attached(front, other) == (taken,)
    assert sorted(await attached(front, server_id)) == sorted((first, last))
    assert (await front.show(server_id))["status"] == "ACTIVE"


async def test_two_ports_are_detached_one_after_the_other(front: Front) -> None:
    a = network(front)
    server_id = await front.boot(networks=[{"uuid": a}, {"uuid": a}])
    for port_id in await plugged(front, server_id):
        for _ in range(2):  # a repeated request changes nothing
            assert (await front.ask("DELETE", f"/servers/{server_id}/os-interface/{port_id}")).status_code == 202
    await front.settle()
    assert await plugged(front, server_id) == ()
    assert len(await front.world.cloud.journal.find(RunFilter(sagas=("detach_interface",)))) == 2


async def test_interfaces_that_wait_have_their_addresses_and_can_be_detached(front: Front) -> None:
    a = network(front)
    server_id = await front.boot()
    shown = []
    for _ in range(3):
        body = {"interfaceAttachment": {"net_id": a}}
        answer = await front.ask("POST", f"/servers/{server_id}/os-interface", body)
        shown.append(answer.json()["interfaceAttachment"])
        found = await front.get(f"/servers/{server_id}/os-interface/{shown[-1]['port_id']}")
        assert found["interfaceAttachment"]["fixed_ips"] == shown[-1]["fixed_ips"]
    first, second, third = (each["port_id"] for each in shown)
    assert len({each["fixed_ips"][0]["ip_address"] for each in shown}) == 3
    assert (await front.ask("DELETE", f"/servers/{server_id}/os-interface/{second}")).status_code == 202
    await front.settle()
    assert await plugged(front, server_id) == (first, third)


async def test_nothing_else_begins_between_them_and_a_delete_comes_before_them(front: Front) -> None:
    a = network(front)
    server_id, mine = await front.boot(), [volume(front) for _ in range(3)]
    for one in mine:
        await attach(front, server_id, one)
    await front.ask("POST", f"/servers/{server_id}/os-interface", {"interfaceAttachment": {"net_id": a}})
    fault(await front.act(server_id, {"resize": {"flavorRef": "2"}}), "conflictingRequest", 409)
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    for _ in range(3):
        await front.settle()
        await reconcile(front.world.cloud, front.engine)
    await front.settle()
    fault(await front.ask("GET", f"/servers/{server_id}"), "itemNotFound", 404)
    assert {await status(front, one) for one in mine} == {"available"}
    assert await front.world.cloud.network.ports_of([server_id]) == []
    runs = await front.world.cloud.journal.find(RunFilter(subject=server_id))
    *queued, first = [run for run in runs if run.saga.startswith("attach")]
    assert (first.state, {run.state for run in queued}) == ("done", {"undone"})
    assert not await front.world.cloud.journal.find(RunFilter(subject=server_id, only_open=True))
