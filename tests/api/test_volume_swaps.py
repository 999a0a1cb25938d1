"""PUT os-volume_attachments with another volume: Cinder swaps the volume under a server, and nobody else."""

from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from tests.api.devices import volume
from tests.api.front import Front, fault
from tests.api.test_volume_attachments import NOWHERE, attach, attached, path, status
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.servers import lookup

COMPLETED = "compute_swap_volume"


async def put(
    front: Front, server_id: str, old: str, new: str, *, minor: int = 1, who: str = "admin", **more: Any
) -> Any:
    body = {"volumeAttachment": {"volumeId": new, **more}}
    return await front.ask("PUT", path(server_id, old), body, minor=minor, who=who)


async def migrating(front: Front, server_id: str, **fields: Any) -> tuple[str, str]:
    """Attach a volume that is migrated to another one. Return both; fields: of the new one."""
    old, new = volume(front), str(uuid4())
    await attach(front, server_id, old)
    begin(front, old, new, **fields)
    return old, new


def begin(front: Front, old: str, new: str, **fields: Any) -> None:
    volumes = front.world.remains.volumes
    volumes.begin_migration(old, new)
    volumes.add_volume(replace(volumes._volumes[new], **fields))


async def reached(front: Front, server_id: str, volume_id: str) -> tuple[str, str]:
    """Return the attachment by which the guest uses a volume, and the volume behind it."""
    record = await lookup.find(front.world.cloud, ServerId(server_id))
    key = GuestKey(record.id, Slot(record.slot or ""))
    used = front.world.hypervisors[HostName(record.host or "")].volumes_of(key)
    return next((one.attachment_id, one.connection["data"]["volume_id"]) for one in used if one.volume_id == volume_id)


async def migration(front: Front, volume_id: str) -> str:
    return (await front.world.cloud.volumes.volume(volume_id)).migration_status


@pytest.mark.parametrize("minor", [1, 84, 85, 100])
async def test_the_guest_uses_the_new_volume_under_the_id_of_the_old_one(front: Front, minor: int) -> None:
    server_id, kept = await front.boot(), volume(front)
    old, new = await migrating(front, server_id)
    await attach(front, server_id, kept)
    before = (await front.get(path(server_id, old)))["volumeAttachment"]
    answer = await put(front, server_id, old, new, minor=minor)
    assert (answer.status_code, answer.content) == (202, b"")
    await front.settle()
    shown = (await front.get(path(server_id, old)))["volumeAttachment"]
    assert shown == before | {"attachment_id": shown["attachment_id"]}
    assert shown["attachment_id"] != before["attachment_id"]
    assert await reached(front, server_id, old) == (shown["attachment_id"], new)
    assert await attached(front, server_id) == (old, kept)
    held = await front.world.cloud.volumes.attachments(ServerId(server_id), old)
    assert [one.id for one in held] == [shown["attachment_id"]]
    assert (await status(front, old), await migration(front, old)) == ("in-use", "success")
    assert new not in front.world.remains.volumes.ids()
    history = f"/servers/{server_id}/os-instance-actions"
    action = (await front.get(history))["instanceActions"][0]
    assert (action["action"], action["message"]) == ("swap_volume", None)
    events = (await front.get(f"{history}/{action['request_id']}", who="admin"))["instanceAction"]["events"]
    assert {(event["event"], event["result"]) for event in events} == {(COMPLETED, "Success")}
    assert (await front.ask("DELETE", path(server_id, old))).status_code == 202
    await front.settle()
    assert await status(front, old) == "available"


async def test_both_a_swap_and_a_change(front: Front) -> None:
    server_id = await front.boot()
    old, new = await migrating(front, server_id)
    answer = await put(front, server_id, old, new, minor=85, delete_on_termination=True, device="/dev/vdb")
    assert answer.status_code == 202
    await front.settle()
    assert (await front.get(path(server_id, old)))["volumeAttachment"]["delete_on_termination"] is True
    assert (await reached(front, server_id, old))[1] == new


async def test_only_services_and_administrators_swap_volumes(front: Front) -> None:
    server_id = await front.boot()
    old, new = await migrating(front, server_id)
    for minor in (1, 85):
        fault(await put(front, server_id, old, new, minor=minor, who="member"), "forbidden", 403)
    assert await migration(front, old) == "migrating"


async def test_what_cannot_be_swapped_is_refused(front: Front) -> None:
    server_id, other = await front.boot(), await front.boot("other")
    old, new = await migrating(front, server_id)
    small = replace(await front.world.cloud.volumes.volume(new), id=str(uuid4()), size_gib=0)
    stray = replace(small, id=str(uuid4()), size_gib=9, migration_status="")
    for more in (small, stray):
        front.world.remains.volumes.add_volume(more)
    used = volume(front)
    await attach(front, other, used)

    async def no(code: int, name: str, *what: str, minor: int = 1, **more: Any) -> str:
        return fault(await put(front, *what, minor=minor, **more), name, code)

    for minor in (1, 100):
        assert "not migrating" in await no(409, "conflictingRequest", other, used, new, minor=minor)
        await no(400, "badRequest", server_id, old, NOWHERE, minor=minor)
        assert "detached" in await no(400, "badRequest", server_id, old, used, minor=minor)
        assert "same size or larger" in await no(400, "badRequest", server_id, old, small.id, minor=minor)
        assert "not the target" in await no(400, "badRequest", server_id, old, stray.id, minor=minor)
        await no(404, "itemNotFound", server_id, NOWHERE, new, minor=minor)
    assert "different instance" in await no(400, "badRequest", other, old, new)
    await no(404, "itemNotFound", other, old, new, minor=85)
    assert "detached" in await no(400, "badRequest", server_id, old, old)
    await no(400, "badRequest", server_id, old, new, minor=85, tag="t")
    assert (await reached(front, server_id, old))[1] == old
    assert await migration(front, old) == "migrating"


async def test_a_volume_with_two_writers_is_not_swapped(front: Front) -> None:
    server_id, other, old, new = (
        await front.boot(),
        await front.boot("other"),
        volume(front, is_multiattach=True),
        str(uuid4()),
    )
    for each in (server_id, other):
        await attach(front, each, old)
    begin(front, old, new)
    assert "multi-attach" in fault(await put(front, server_id, old, new), "badRequest", 400)
    held = front.world.remains.volumes._attachments
    [theirs] = await front.world.cloud.volumes.attachments(ServerId(other), old)
    held[theirs.id] = replace(held[theirs.id], is_read_only=True)
    assert (await put(front, server_id, old, new)).status_code == 202


async def test_a_failed_swap_leaves_the_old_volume_and_is_reported(front: Front) -> None:
    server_id = await front.boot()
    old, new = await migrating(front, server_id)
    record = await lookup.find(front.world.cloud, ServerId(server_id))
    before = await reached(front, server_id, old)
    front.world.hypervisors[HostName(record.host or "")].refusing.add("swap_volume")
    assert (await put(front, server_id, old, new)).status_code == 202
    await front.settle()
    assert await reached(front, server_id, old) == before
    assert (await status(front, old), await migration(front, old)) == ("in-use", "error")
    assert new not in front.world.remains.volumes.ids()
    action = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"][0]
    assert (action["action"], action["message"]) == ("swap_volume", "Error")
    assert (await front.show(server_id))["status"] == "ACTIVE"


async def test_a_server_is_not_moved_during_a_swap_and_other_devices_wait(front: Front) -> None:
    server_id, one = await front.boot(), volume(front)
    old, new = await migrating(front, server_id)
    assert (await put(front, server_id, old, new)).status_code == 202
    assert (await front.ask("POST", path(server_id), {"volumeAttachment": {"volumeId": one}})).status_code == 202
    for action in ({"migrate": None}, {"reboot": {"type": "HARD"}}):
        fault(await front.act(server_id, action, who="admin"), "conflictingRequest", 409)
    await front.settle()
    assert await attached(front, server_id) == (old, one)
    assert (await reached(front, server_id, old))[1] == new


async def test_a_swap_waits_for_other_operations_on_devices(front: Front) -> None:
    server_id, one = await front.boot(), volume(front)
    old, new = await migrating(front, server_id)
    assert (await front.ask("POST", path(server_id), {"volumeAttachment": {"volumeId": one}})).status_code == 202
    assert (await put(front, server_id, old, new)).status_code == 202
    await front.settle()
    assert await attached(front, server_id) == (old, one)
    assert (await reached(front, server_id, old))[1] == new


async def test_a_swap_of_what_is_detached_meanwhile_is_reported_as_failed(front: Front) -> None:
    server_id = await front.boot()
    old, new = await migrating(front, server_id)
    assert (await front.ask("DELETE", path(server_id, old))).status_code == 202
    assert (await put(front, server_id, old, new)).status_code == 202
    await front.settle()
    assert await attached(front, server_id) == ()
    assert await migration(front, old) == "error"
    assert new not in front.world.remains.volumes.ids()


async def test_an_agent_that_cannot_swap_volumes_is_refused_by_name(front: Front) -> None:
    server_id = await front.boot()
    old, new = await migrating(front, server_id)
    await front.make_its_agent_old(server_id)
    before = await reached(front, server_id, old)
    said = (await put(front, server_id, old, new)).text
    assert "0.1.9" in said
    assert "upgrade" in said
    await front.settle()
    assert await reached(front, server_id, old) == before
    assert await migration(front, old) == "error"
    assert (await front.show(server_id))["status"] == "ACTIVE"
