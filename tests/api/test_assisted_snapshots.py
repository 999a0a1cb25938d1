"""os-assisted-volume-snapshots: a volume service asks for the host's part in a snapshot, and is told how it went."""

import json
from typing import Any
from uuid import uuid4

import pytest

from tests.api.devices import volume
from tests.api.front import Front, fault
from tests.api.test_create_devices import device
from tests.api.test_volume_attachments import NOWHERE, attach, path
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.servers import lookup
from whimbrel.sim.world.volumes import SimulatedVolumes, file_of

ASSISTED = "/os-assisted-volume-snapshots"


def service(front: Front) -> SimulatedVolumes:
    return front.world.remains.volumes


def begun(front: Front, volume_id: str) -> str:
    snapshot_id = str(uuid4())
    service(front).begin_snapshot(snapshot_id, volume_id)
    return snapshot_id


async def post(front: Front, volume_id: str, snapshot_id: str, *, who: str = "admin", **more: Any) -> Any:
    info = {"snapshot_id": snapshot_id, "type": "qcow2", "new_file": file_of(volume_id, snapshot_id), **more}
    return await front.ask("POST", ASSISTED, {"snapshot": {"volume_id": volume_id, "create_info": info}}, who=who)


async def delete(front: Front, volume_id: str, snapshot_id: str, *, who: str = "admin", **more: Any) -> Any:
    info = {"volume_id": volume_id, "type": "qcow2", "file_to_merge": None, "merge_target_file": None, **more}
    return await front.ask("DELETE", f"{ASSISTED}/{snapshot_id}?delete_info={json.dumps(info)}", who=who)


async def taken(front: Front, volume_id: str) -> str:
    """Make a snapshot of an attached volume. Return its id."""
    snapshot_id = begun(front, volume_id)
    assert (await post(front, volume_id, snapshot_id)).status_code == 200
    await front.settle()
    assert statuses(front)[snapshot_id] == "available"
    return snapshot_id


def statuses(front: Front) -> dict[str, str]:
    return {one.id: one.status for one in service(front).snapshots()}


async def files(front: Front, server_id: str, volume_id: str) -> tuple[str, ...]:
    """Return the files that the guest uses, from the active one down."""
    record = await lookup.find(front.world.cloud, ServerId(server_id))
    host = front.world.hypervisors[HostName(record.host or "")]
    return await host.files_of(GuestKey(record.id, Slot(record.slot or "")), volume_id)


async def with_volume(front: Front) -> tuple[str, str]:
    server_id, one = await front.boot(), volume(front)
    await attach(front, server_id, one)
    return server_id, one


async def newest_action(front: Front, server_id: str) -> tuple[str, str | None]:
    found = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"][0]
    return found["action"], found["message"]


async def test_the_guest_writes_to_the_new_file_and_the_service_is_told(front: Front) -> None:
    server_id, one = await with_volume(front)
    snapshot_id = begun(front, one)
    answer = await post(front, one, snapshot_id, id=NOWHERE)
    assert (answer.status_code, answer.json()) == (200, {"snapshot": {"id": NOWHERE, "volumeId": one}})
    await front.settle()
    assert statuses(front) == {snapshot_id: "available"}
    assert await files(front, server_id, one) == (file_of(one, snapshot_id), one)
    assert await newest_action(front, server_id) == ("volume_snapshot_create", None)
    assert (await front.show(server_id))["OS-EXT-STS:task_state"] is None
    second = begun(front, one)
    assert (await post(front, one, second)).json()["snapshot"]["id"] is None
    await front.settle()
    assert await files(front, server_id, one) == (file_of(one, second), file_of(one, snapshot_id), one)


async def test_a_moved_guest_has_the_new_file(front: Front) -> None:
    server_id, one = await with_volume(front)
    snapshot_id = await taken(front, one)
    for action in ({"migrate": None}, {"revertResize": None}, {"reboot": {"type": "HARD"}}):
        assert (await front.act(server_id, action, who="admin")).status_code == 202
        await front.settle()
        assert (await files(front, server_id, one))[0] == file_of(one, snapshot_id)


async def test_a_snapshot_between_a_move_and_its_revert_is_kept(front: Front) -> None:
    server_id, one = await with_volume(front)
    assert (await front.act(server_id, {"migrate": None}, who="admin")).status_code == 202
    await front.settle()
    snapshot_id = await taken(front, one)
    assert (await front.act(server_id, {"revertResize": None}, who="admin")).status_code == 202
    await front.settle()
    assert (await front.show(server_id))["status"] == "ACTIVE"
    assert (await files(front, server_id, one))[0] == file_of(one, snapshot_id)


async def test_files_are_merged_and_the_service_is_told(front: Front) -> None:
    server_id, one = await with_volume(front)
    ids = [await taken(front, one) for _ in "abc"]
    a, b, c = (file_of(one, each) for each in ids)
    service(front).begin_deletion(ids[0])
    answer = await delete(front, one, ids[0], file_to_merge=a, merge_target_file=one)
    assert (answer.status_code, answer.content) == (204, b"")
    await front.settle()
    assert await files(front, server_id, one) == (c, b, one)
    service(front).begin_deletion(ids[2])
    assert (await delete(front, one, ids[2], file_to_merge=one)).status_code == 204
    await front.settle()
    assert await files(front, server_id, one) == (c, one)
    assert statuses(front) == {ids[1]: "available"}
    service(front).begin_deletion(ids[1])
    assert (await delete(front, one, ids[1])).status_code == 204
    await front.settle()
    assert await files(front, server_id, one) == (c,)
    assert statuses(front) == {}
    assert await newest_action(front, server_id) == ("volume_snapshot_delete", None)


@pytest.mark.parametrize("verb", ["take_volume_snapshot", "merge_volume_files"])
async def test_a_host_that_refuses_is_reported(front: Front, verb: str) -> None:
    server_id, one = await with_volume(front)
    first = await taken(front, one)
    before = await files(front, server_id, one)
    record = await lookup.find(front.world.cloud, ServerId(server_id))
    front.world.hypervisors[HostName(record.host or "")].refusing.add(verb)
    if verb == "take_volume_snapshot":
        snapshot_id, wanted = begun(front, one), "error"
        assert (await post(front, one, snapshot_id)).status_code == 200
    else:
        snapshot_id, wanted = first, "error_deleting"
        service(front).begin_deletion(first)
        assert (await delete(front, one, first)).status_code == 204
    await front.settle()
    assert statuses(front)[snapshot_id] == wanted
    assert await files(front, server_id, one) == before
    assert (await newest_action(front, server_id))[1] == "Error"
    assert (await front.show(server_id))["status"] == "ACTIVE"


async def test_what_the_service_has_given_up_is_not_done(front: Front) -> None:
    server_id, one = await with_volume(front)
    snapshot_id = begun(front, one)
    await service(front).report_snapshot(snapshot_id, "creating", "error")
    assert (await post(front, one, snapshot_id)).status_code == 200
    assert (await delete(front, one, snapshot_id)).status_code == 204
    await front.settle()
    assert statuses(front) == {snapshot_id: "error"}
    assert await files(front, server_id, one) == (one,)


async def test_an_agent_that_lacks_the_order_is_reported(front: Front) -> None:
    server_id, one = await with_volume(front)
    await front.make_its_agent_old(server_id)
    snapshot_id = begun(front, one)
    said = (await post(front, one, snapshot_id)).text
    assert "0.1.9" in said
    assert "upgrade" in said
    await front.settle()
    assert statuses(front) == {snapshot_id: "error"}
    assert await files(front, server_id, one) == (one,)


async def test_the_snapshots_of_an_image_are_taken_while_it_is_made(front: Front) -> None:
    root, data = volume(front, is_bootable=True), volume(front)
    service(front).taken_by_hosts |= {root, data}
    devices = [device("volume", root, "volume", boot_index=0), device("volume", data, "volume")]
    server_id = await front.boot(imageRef="", block_device_mapping_v2=devices)
    image_id = (await front.act(server_id, {"createImage": {"name": "of files"}})).json()["image_id"]
    made = {one.volume_id: one.id for one in service(front).snapshots()}
    for volume_id, snapshot_id in made.items():
        assert (await post(front, volume_id, snapshot_id)).status_code == 200
    await front.settle()
    assert set(statuses(front).values()) == {"available"}
    assert (await front.world.images.show(image_id)).status == "active"
    for volume_id in (root, data):
        assert await files(front, server_id, volume_id) == (file_of(volume_id, made[volume_id]), volume_id)
    actions = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    assert [(one["action"], one["message"]) for one in actions[:3]] == [
        ("volume_snapshot_create", None), ("volume_snapshot_create", None), ("createImage", None),
    ]  # fmt: skip


async def test_an_image_fails_when_a_host_refuses(front: Front) -> None:
    root = volume(front, is_bootable=True)
    service(front).taken_by_hosts.add(root)
    devices = [device("volume", root, "volume", boot_index=0)]
    server_id = await front.boot(imageRef="", block_device_mapping_v2=devices)
    record = await lookup.find(front.world.cloud, ServerId(server_id))
    front.world.hypervisors[HostName(record.host or "")].refusing.add("take_volume_snapshot")
    assert (await front.act(server_id, {"createImage": {"name": "of files"}})).status_code == 202
    [snapshot_id] = statuses(front)
    assert (await post(front, root, snapshot_id)).status_code == 200
    await front.settle()
    assert statuses(front) == {}
    assert await files(front, server_id, root) == (root,)
    assert (await front.show(server_id))["OS-EXT-STS:task_state"] is None


async def test_a_detach_before_it_is_reported(front: Front) -> None:
    server_id, one = await with_volume(front)
    snapshot_id = begun(front, one)
    assert (await front.ask("DELETE", path(server_id, one))).status_code == 202
    assert (await post(front, one, snapshot_id)).status_code == 200
    await front.settle()
    assert statuses(front) == {snapshot_id: "error"}


async def test_only_services_and_administrators_ask(front: Front) -> None:
    _, one = await with_volume(front)
    snapshot_id = begun(front, one)
    fault(await post(front, one, snapshot_id, who="member"), "forbidden", 403)
    fault(await delete(front, one, snapshot_id, who="member"), "forbidden", 403)
    assert statuses(front) == {snapshot_id: "creating"}


async def test_a_deletion_that_no_host_can_do_is_accepted_and_fails(front: Front) -> None:
    server_id, one = await with_volume(front)
    top_is_missing = {"type": "qcow2", "file_to_merge": None, "merge_target_file": "b"}
    for info in ({}, {"type": "raw", "file_to_merge": "a", "merge_target_file": "b"}, top_is_missing):
        snapshot_id = await taken(front, one)
        service(front).begin_deletion(snapshot_id)
        before = await files(front, server_id, one)
        sent = json.dumps({"volume_id": one, **info})
        path = f"{ASSISTED}/{snapshot_id}?delete_info={sent}"
        assert (await front.ask("DELETE", path, who="admin")).status_code == 204
        await front.settle()
        assert statuses(front)[snapshot_id] == "error_deleting"
        assert await files(front, server_id, one) == before
    path = f'{ASSISTED}/None?delete_info={{"volume_id":"{one}"}}'
    assert (await front.ask("DELETE", path, who="admin")).status_code == 204


async def test_what_is_not_attached_or_not_meant_is_refused(front: Front) -> None:
    server_id, one = await with_volume(front)
    snapshot_id = begun(front, one)
    for nothing in (NOWHERE, volume(front), "../volumes/x"):
        assert nothing in fault(await post(front, nothing, snapshot_id), "badRequest", 400)
        fault(await delete(front, nothing, snapshot_id), "badRequest", 400)
    fault(await post(front, one, snapshot_id, type="raw"), "badRequest", 400)
    for query in ("", "?delete_info=x", "?delete_info={}"):
        fault(await front.ask("DELETE", f"{ASSISTED}/{snapshot_id}{query}", who="admin"), "badRequest", 400)
    assert (await front.act(server_id, {"os-stop": None})).status_code == 202
    fault(await post(front, one, snapshot_id), "badRequest", 400)  # it is being stopped
    await front.settle()
    committing = {"file_to_merge": "a", "merge_target_file": "b"}
    assert "stopped" in fault(await delete(front, one, snapshot_id, **committing), "badRequest", 400)
    assert statuses(front) == {snapshot_id: "creating"}
