"""os-volume_attachments: attached, changed and detached, also while a resize waits for its verdict."""

from typing import Any

import pytest

from tests.api.devices import volume
from tests.api.front import OTHER_PROJECT, Front, fault
from whimbrel.domain.flavor import Flavor
from whimbrel.ports.cloud import Rules
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.sim.cloud.cloud import IMAGE

NOWHERE = "99999999-9999-4999-8999-999999999999"


def path(server_id: str, volume_id: str = "") -> str:
    return f"/servers/{server_id}/os-volume_attachments" + (f"/{volume_id}" if volume_id else "")


async def attached(front: Front, server_id: str) -> tuple[str, ...]:
    """Return the volumes that its guest has."""
    return (await front.guest(server_id)).volumes


async def attach(front: Front, server_id: str, volume_id: str, *, minor: int = 100, **more: Any) -> Any:
    body = {"volumeAttachment": {"volumeId": volume_id, **more}}
    answer = await front.ask("POST", path(server_id), body, minor=minor)
    assert answer.status_code == (200 if minor < 101 else 202), answer.text
    await front.settle()
    return answer.json()["volumeAttachment"] if minor < 101 else answer.content


async def status(front: Front, volume_id: str) -> str:
    return (await front.world.cloud.volumes.volume(volume_id)).status


async def test_a_volume_comes_and_goes(front: Front) -> None:
    server_id, one, two = await front.boot(), volume(front), volume(front)
    shown = await attach(front, server_id, one, tag="t", delete_on_termination=True)
    expected = {"volumeId": one, "serverId": server_id, "device": "/dev/vdb", "tag": "t", "delete_on_termination": True}
    assert shown == {"id": one} | expected
    assert await attach(front, server_id, two, minor=104, device="/dev/vdx") == b""
    assert await attached(front, server_id) == (one, two)
    assert [await status(front, each) for each in (one, two)] == ["in-use", "in-use"]
    listed = (await front.get(path(server_id)))["volumeAttachments"]
    assert [each["device"] for each in listed] == ["/dev/vdb", "/dev/vdc"]
    first = (await front.get(path(server_id, one)))["volumeAttachment"]
    assert first == expected | {key: listed[0][key] for key in ("attachment_id", "bdm_uuid")}
    assert (await front.world.cloud.volumes.attachment(first["attachment_id"])).volume_id == one
    assert [each["id"] for each in (await front.show(server_id))["os-extended-volumes:volumes_attached"]] == [one, two]
    answer = await front.ask("DELETE", path(server_id, one))
    assert (answer.status_code, answer.content) == (202, b"")
    await front.settle()
    assert await attached(front, server_id) == (two,)
    assert await status(front, one) == "available"
    assert (await attach(front, server_id, one))["device"] == "/dev/vdb"


async def test_no_volume_gets_the_names_of_ephemeral_and_swap_disks(front: Front) -> None:
    roomy = Flavor(flavor_id="9", name="roomy", vcpus=1, memory_mib=512, root_gib=1, ephemeral_gib=1, swap_mib=64)
    await front.world.cloud.flavors.create(roomy, 0.0)
    server_id, one = await front.boot(flavorRef="9"), volume(front)
    assert (await attach(front, server_id, one, device="/dev/vdc"))["device"] == "/dev/vdd"
    blank = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    root = {"source_type": "image", "uuid": IMAGE, "destination_type": "local", "boot_index": 0}
    made = await front.boot(flavorRef="9", block_device_mapping_v2=[root, blank])
    assert [each["device"] for each in (await front.get(path(made)))["volumeAttachments"]] == ["/dev/vdd"]


async def test_what_is_shown_grows_with_the_version(front: Front) -> None:
    server_id, one = await front.boot(), volume(front)
    await attach(front, server_id, one)
    steps = ((1, {"id", "volumeId", "serverId", "device"}), (70, {"tag"}), (79, {"delete_on_termination"}))
    keys: set[str] = set()
    for minor, more in steps:
        keys |= more
        assert set((await front.get(path(server_id, one), minor=minor))["volumeAttachment"]) == keys
        [listed] = (await front.get(path(server_id), minor=minor))["volumeAttachments"]
        assert set(listed) == keys
    keys = (keys - {"id"}) | {"attachment_id", "bdm_uuid"}
    assert set((await front.get(path(server_id, one), minor=89))["volumeAttachment"]) == keys
    for query, found in (("limit=1", 1), ("limit=0", 0), ("offset=1", 0)):
        assert len((await front.get(f"{path(server_id)}?{query}"))["volumeAttachments"]) == found
    assert await front.get(f"{path(server_id)}?x=1", minor=74)
    fault(await front.ask("GET", f"{path(server_id)}?x=1", minor=75), "badRequest", 400)
    fault(await front.ask("GET", f"{path(server_id)}?limit=-1"), "badRequest", 400)


async def test_what_cannot_be_attached_is_refused_and_leaves_nothing(front: Front) -> None:
    server_id, other = await front.boot(), await front.boot("other")
    mine, used, shared = volume(front), volume(front), volume(front, is_multiattach=True)
    await attach(front, other, used)
    await attach(front, server_id, mine, device="/dev/vdd")

    async def no(code: int, name: str, *, minor: int = 100, **sent: Any) -> str:
        body = {"volumeAttachment": sent}
        return fault(await front.ask("POST", path(server_id), body, minor=minor), name, code)

    for minor in (100, 104):
        await no(404, "itemNotFound", minor=minor, volumeId=NOWHERE)
        await no(404, "itemNotFound", minor=minor, volumeId=volume(front, project_id=OTHER_PROJECT))
        assert "already attached" in await no(400, "badRequest", minor=minor, volumeId=mine)
    assert "in-use" in await no(400, "badRequest", volumeId=used)
    assert "2.60" in await no(400, "badRequest", volumeId=shared, minor=59)
    await no(400, "badRequest", volumeId="x")
    await no(400, "badRequest", volumeId=used, device="/etc/passwd")
    await no(400, "badRequest", volumeId=used, tag="t", minor=48)
    await no(400, "badRequest", volumeId=used, delete_on_termination=True, minor=78)
    assert [each["volumeId"] for each in (await front.get(path(server_id)))["volumeAttachments"]] == [mine]
    await attach(front, other, shared)
    await attach(front, server_id, shared)
    assert len(await attached(front, server_id)) == 2


async def test_from_2_101_on_a_refusal_comes_after_the_answer_and_is_shown_by_the_history(front: Front) -> None:
    server_id, other, used = await front.boot(), await front.boot("other"), volume(front)
    await attach(front, other, used)
    answer = await front.ask("POST", path(server_id), {"volumeAttachment": {"volumeId": used}}, minor=101)
    assert (answer.status_code, answer.content) == (202, b"")
    await front.settle()
    assert (await front.get(path(server_id)))["volumeAttachments"] == []
    assert await attached(front, server_id) == ()
    history = f"/servers/{server_id}/os-instance-actions"
    [attaching, _create] = (await front.get(history))["instanceActions"]
    assert attaching["message"] == "Error"
    told = (await front.get(f"{history}/{attaching['request_id']}", who="admin"))["instanceAction"]["events"]
    assert any("in-use" in (event["details"] or "") for event in told)
    assert (await front.show(server_id))["status"] == "ACTIVE"


APART = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, cross_az_attach=False)


@pytest.mark.cloud(APART)
async def test_a_volume_of_another_zone_is_refused_where_the_operator_says_so(front: Front) -> None:
    server_id, far = await front.boot(), volume(front, zone="north")
    body = {"volumeAttachment": {"volumeId": far}}
    assert "north" in fault(await front.ask("POST", path(server_id), body, minor=100), "badRequest", 400)
    assert (await front.ask("POST", path(server_id), body, minor=101)).status_code == 202
    await front.settle()
    assert (await front.get(path(server_id)))["volumeAttachments"] == []
    await attach(front, server_id, volume(front))


async def test_whether_a_volume_goes_with_its_server_can_be_changed(front: Front) -> None:
    server_id, one, two = await front.boot(), volume(front), volume(front)
    await attach(front, server_id, one, tag="t")

    async def put(minor: int = 85, volume_id: str = one, who: str = "member", **sent: Any) -> Any:
        body = {"volumeAttachment": {"volumeId": one, **sent}}
        return await front.ask("PUT", path(server_id, volume_id), body, minor=minor, who=who)

    answer = await put(delete_on_termination="yes", tag="t", device="/dev/vdb", id=one, serverId=server_id)
    assert (answer.status_code, answer.content) == (202, b"")
    assert (await front.get(path(server_id, one)))["volumeAttachment"]["delete_on_termination"] is True
    assert (await put()).status_code == 202
    for key, value in (("tag", "other"), ("device", "/dev/vdz"), ("id", two), ("serverId", NOWHERE)):
        assert key in fault(await put(**{key: value}), "badRequest", 400)
    fault(await put(84, delete_on_termination=True, who="admin"), "badRequest", 400)
    fault(await put(volumeId=two), "forbidden", 403)
    assert "not migrating" in fault(await put(volumeId=two, who="admin"), "conflictingRequest", 409)
    assert "not migrating" in fault(await put(84, who="admin"), "conflictingRequest", 409)
    fault(await put(volume_id=two, volumeId=two), "itemNotFound", 404)
    answer = await front.ask("DELETE", f"/servers/{server_id}")
    await front.settle()
    assert one not in {one.id for one in front.world.remains.volumes._volumes.values()}


async def test_the_root_stays_and_what_is_not_attached_is_not_found(front: Front) -> None:
    root = volume(front, is_bootable=True)
    device = {"source_type": "volume", "destination_type": "volume", "uuid": root, "boot_index": 0}
    server_id = await front.boot(imageRef="", block_device_mapping_v2=[device])
    assert "root" in fault(await front.ask("DELETE", path(server_id, root)), "forbidden", 403)
    for method in ("GET", "DELETE"):
        fault(await front.ask(method, path(server_id, NOWHERE)), "itemNotFound", 404)
    assert (await attach(front, server_id, volume(front)))["device"] == "/dev/vdb"


@pytest.mark.parametrize("state", ["error", "locked", "rebooting"])
async def test_a_server_in_another_state_keeps_its_volumes(front: Front, state: str) -> None:
    server_id, one, two = await front.boot(), volume(front), volume(front)
    await attach(front, server_id, one)
    if state == "error":
        await front.act(server_id, {"os-resetState": {"state": "error"}}, who="admin")
    if state == "locked":
        await front.act(server_id, {"lock": None})
    if state == "rebooting":
        await front.act(server_id, {"reboot": {"type": "HARD"}})
    body = {"volumeAttachment": {"volumeId": two}}
    fault(await front.ask("POST", path(server_id), body), "conflictingRequest", 409)
    fault(await front.ask("DELETE", path(server_id, one)), "conflictingRequest", 409)


@pytest.mark.parametrize("verdict", ["confirmResize", "revertResize"])
async def test_while_a_resize_waits_volumes_come_and_go_and_are_right_afterwards(front: Front, verdict: str) -> None:
    server_id, first, second = await front.boot(), volume(front), volume(front)
    await attach(front, server_id, first)
    await front.act(server_id, {"resize": {"flavorRef": "2"}})
    await front.settle()
    assert (await front.show(server_id))["status"] == "VERIFY_RESIZE"
    body = {"volumeAttachment": {"volumeId": second}}
    assert (await front.ask("POST", path(server_id), body)).status_code == 202
    for action in ({"confirmResize": None}, {"revertResize": None}):
        assert "under way" in fault(await front.act(server_id, action), "conflictingRequest", 409)
    assert (await front.ask("DELETE", path(server_id, first))).status_code == 202
    await front.settle()
    assert (await front.show(server_id))["status"] == "VERIFY_RESIZE"
    assert await attached(front, server_id) == (second,)
    assert await status(front, first) == "available"
    assert (await front.act(server_id, {verdict: None})).status_code in (202, 204)
    await front.settle()
    assert (await front.show(server_id))["status"] == "ACTIVE"
    assert await attached(front, server_id) == (second,)
    assert [each["volumeId"] for each in (await front.get(path(server_id)))["volumeAttachments"]] == [second]
    assert [await status(front, each) for each in (first, second)] == ["available", "in-use"]
    assert len(front.world.remains.volumes.everything()) == 1


async def test_a_delete_during_an_operation_beside_a_waiting_move_is_not_forgotten(front: Front) -> None:
    server_id, one = await front.boot(), volume(front)
    await front.act(server_id, {"resize": {"flavorRef": "2"}})
    await front.settle()
    assert (await front.ask("POST", path(server_id), {"volumeAttachment": {"volumeId": one}})).status_code == 202
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    for _ in range(3):
        await front.settle()
        await reconcile(front.world.cloud, front.engine)
    await front.settle()
    fault(await front.ask("GET", f"/servers/{server_id}"), "itemNotFound", 404)
    assert await status(front, one) == "available"


async def test_volumes_come_to_and_go_from_a_server_that_is_on_no_host(front: Front) -> None:
    server_id, first, second = await front.boot(), volume(front), volume(front)
    await attach(front, server_id, first)
    await front.act(server_id, {"shelve": None})
    await front.settle()
    assert (await front.show(server_id))["status"] == "SHELVED_OFFLOADED"
    body = {"volumeAttachment": {"volumeId": second}}
    fault(await front.ask("POST", path(server_id), body, minor=19), "conflictingRequest", 409)
    fault(await front.ask("DELETE", path(server_id, first), minor=19), "conflictingRequest", 409)
    assert (await attach(front, server_id, second))["device"] == "/dev/vdc"
    assert (await front.ask("DELETE", path(server_id, first))).status_code == 202
    await front.settle()
    assert [await status(front, each) for each in (first, second)] == ["available", "in-use"]
    await front.act(server_id, {"unshelve": None})
    await front.settle()
    assert (await front.show(server_id))["status"] == "ACTIVE"
    assert await attached(front, server_id) == (second,)
    assert await status(front, second) == "in-use"


@pytest.mark.parametrize("verdict", ["confirmResize", "revertResize"])
async def test_a_server_that_shares_a_volume_moves_alone(front: Front, verdict: str) -> None:
    mover, other, shared = await front.boot(), await front.boot("other"), volume(front, is_multiattach=True)
    for each in (mover, other):
        await attach(front, each, shared)
    kept = (await front.get(path(other, shared)))["volumeAttachment"]
    await front.act(mover, {"migrate": None}, who="admin")
    await front.settle()
    assert (await front.show(mover))["status"] == "VERIFY_RESIZE"
    await front.act(mover, {verdict: None})
    await front.settle()
    assert (await front.show(mover))["status"] == "ACTIVE"
    assert [await attached(front, each) for each in (mover, other)] == [(shared,), (shared,)]
    assert (await front.get(path(other, shared)))["volumeAttachment"] == kept
    assert len(front.world.remains.volumes.everything()) == 2
    await front.act(mover, {"shelve": None})
    await front.settle()
    body = {"volumeAttachment": {"volumeId": volume(front, is_multiattach=True)}}
    assert "multiattach" in fault(await front.ask("POST", path(mover), body), "badRequest", 400)
    await front.ask("DELETE", f"/servers/{mover}")
    await front.settle()
    assert (await attached(front, other), await status(front, shared)) == ((shared,), "in-use")
