"""Where servers may use volumes of their own zone only (cross_az_attach = false), they stay with their volumes.

Nova was seen to do otherwise: reference, probes C2v, C2b and C2-control of Appendix E.
"""

import pytest

from tests.api.devices import volume
from tests.api.front import Front, fault
from tests.api.moving import boot, has_volume, migrate, move, pin, resize, stands, why
from tests.api.test_zones import put_into_zone
from whimbrel.ports.cloud import Rules
from whimbrel.sim.cloud.cloud import IMAGE

APART = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, cross_az_attach=False, az_on_move="free")


@pytest.mark.cloud(APART)
async def test_c2v_a_volume_that_was_attached_later_keeps_its_server_in_its_zone(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1")
    await has_volume(front, server_id, volume(front, zone="zone1"))
    await resize(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "zone1", None, "small")
    assert "its volumes are in zone zone1" in await why(front, server_id)


@pytest.mark.cloud(APART)
async def test_c2b_a_volume_to_boot_from_keeps_its_server_in_its_zone(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    root = volume(front, zone="zone1", is_bootable=True)
    device = {"uuid": root, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
    server_id = await front.boot(imageRef="", block_device_mapping_v2=[device])
    await resize(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    await pin(front, server_id, None)
    await resize(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "zone1", None, "small")
    assert "its volumes are in zone zone1" in await why(front, server_id)


@pytest.mark.cloud(APART)
async def test_a_volume_that_is_made_for_a_server_is_made_in_its_zone_and_keeps_it_there(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    device = {"source_type": "image", "destination_type": "volume", "uuid": IMAGE, "boot_index": 0, "volume_size": 1}
    server_id = await boot(front, "zone1", imageRef="", block_device_mapping_v2=[device])
    [one] = front.world.remains.volumes.ids()
    assert (await front.world.cloud.volumes.volume(one)).zone == "zone1"
    assert (await stands(front, server_id))[:3] == ("ACTIVE", "zone1", None)
    answer = await move(front, server_id, availability_zone="nova")
    assert "its volumes are in zone zone1" in fault(answer, "badRequest", 400)
    assert "cross_az_attach" in fault(await move(front, server_id, host="h2", leave_zone=True), "badRequest", 400)


@pytest.mark.cloud(APART)
async def test_c2_control_a_volume_of_another_zone_is_not_attached_and_the_action_says_so(front: Front) -> None:
    await put_into_zone(front, "zone2", "h1", "h2", "h3")
    server_id, far = await front.boot(), volume(front, zone="zone1")
    path, body = f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": far}}
    said = fault(await front.ask("POST", path, body, minor=100), "badRequest", 400)
    assert "the server is in zone2, the volume in zone1" in said
    assert (await front.ask("POST", path, body, minor=104)).status_code == 202
    await front.settle()
    assert (await front.get(path))["volumeAttachments"] == []
    [last, *_] = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    assert (last["action"], last["message"]) == ("attach_volume", "Error")


@pytest.mark.cloud(APART)
async def test_demands_that_exclude_each_other_are_an_error(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1", "h2")
    server_id, one, two = await boot(front, "zone1"), volume(front, zone="zone1"), volume(front, zone="zone1")
    for each in (one, two):
        await has_volume(front, server_id, each)
    volume(front, id=two, zone="nova")  # it was moved behind our back
    await migrate(front, server_id)
    assert "its volumes are in the zones nova and zone1" in await why(front, server_id)
    volume(front, id=one, zone="nova")
    await pin(front, server_id, "zone1")
    await migrate(front, server_id)
    said = await why(front, server_id)
    assert "it is pinned to zone zone1, but its volumes are in zone nova" in said
    assert (await stands(front, server_id))[:3] == ("ACTIVE", "zone1", "zone1")


@pytest.mark.cloud(APART)
async def test_zones_of_servers_and_volumes_belong_together_by_their_names(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1", "h2")
    server_id = await boot(front, "zone1")
    await has_volume(front, server_id, volume(front, zone="zone1"))
    [zone1] = [
        one["id"] for one in (await front.get("/whimbrel/zones", who="admin"))["zones"] if one["hosts"][:1] == ["h1"]
    ]
    for name in ("north", "zone1"):
        await front.ask("PUT", f"/whimbrel/zones/{zone1}", {"zone": {"name": name}}, who="admin")
        await migrate(front, server_id)
        if name == "north":
            assert "in zone zone1, and no availability zone of servers has that name" in await why(front, server_id)
    assert (await stands(front, server_id))[:2] == ("VERIFY_RESIZE", "zone1")


@pytest.mark.parametrize("zone", [None, "nova"])
@pytest.mark.cloud(APART)
async def test_a_volume_of_a_snapshot_is_made_beside_it_unless_another_zone_is_asked_for(
    front: Front, zone: str | None
) -> None:
    await put_into_zone(front, "zone1", "h1")
    front.world.remains.volumes.add_snapshot("snap", volume(front, zone="zone1", is_bootable=True))
    device = {"source_type": "snapshot", "destination_type": "volume", "uuid": "snap", "boot_index": 0}
    requested = {"imageRef": "", "block_device_mapping_v2": [device]} | ({"availability_zone": zone} if zone else {})
    server_id = await front.boot(**requested)
    assert (await stands(front, server_id))[:3] == ("ACTIVE", zone or "zone1", zone or "zone1")
    [shown] = (await front.show(server_id))["os-extended-volumes:volumes_attached"]
    assert (await front.world.cloud.volumes.volume(shown["id"])).zone == (zone or "zone1")


@pytest.mark.cloud(APART)
async def test_a_host_outside_the_zone_of_the_volumes_is_refused(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    device = {"source_type": "volume", "destination_type": "volume", "boot_index": 0}
    device["uuid"] = volume(front, zone="zone1", is_bootable=True)
    requested = {
        "name": "one",
        "flavorRef": "1",
        "imageRef": "",
        "networks": "none",
        "block_device_mapping_v2": [device],
    }
    for more in ({"host": "h2"}, {"availability_zone": ":h2"}):
        answer = await front.ask("POST", "/servers", {"server": requested | more}, who="admin")
        assert "zone zone1, compute host h2 is not" in fault(answer, "badRequest", 400)
    more = {"host": "h1", "availability_zone": "nova"}
    answer = await front.ask("POST", "/servers", {"server": requested | more}, who="admin")
    assert "Compute host h1 is in the availability zone zone1" in fault(answer, "badRequest", 400)


@pytest.mark.cloud(APART)
async def test_volumes_in_a_zone_without_servers_are_an_error(front: Front) -> None:
    device = {"source_type": "volume", "destination_type": "volume", "boot_index": 0}
    requested = {"name": "one", "flavorRef": "1", "imageRef": "", "networks": "none"}
    far = {**device, "uuid": volume(front, zone="moon", is_bootable=True)}
    answer = await front.ask("POST", "/servers", {"server": {**requested, "block_device_mapping_v2": [far]}})
    assert "zone moon, in which no server can be" in fault(answer, "badRequest", 400)
