"""In which availability zone a server is after a move: probes that Nova 34 was put to, with the right outcome.

Nova was seen to do otherwise in all of them but the controls: reference, Appendix E.
"""

from typing import Any

import pytest

from tests.api.devices import volume
from tests.api.front import POLICY, Front, fault, with_cloud
from tests.api.test_zones import put_into_zone
from whimbrel.api.policy import DEFAULTS
from whimbrel.domain.ids import HostName
from whimbrel.policy import Policy
from whimbrel.ports.cloud import Rules
from whimbrel.sim.world import IMAGE, PROJECT

FREE = Rules(cpu_allocation_ratio=1.0, patience_s=20.0, az_on_move="free")
APART = Rules(cpu_allocation_ratio=1.0, patience_s=20.0, cross_az_attach=False, az_on_move="free")
KEEP = Rules(cpu_allocation_ratio=1.0, patience_s=20.0)
PREFER = Rules(cpu_allocation_ratio=1.0, patience_s=20.0, az_on_move="prefer")
OF_PROJECT = Rules(cpu_allocation_ratio=1.0, patience_s=20.0, az_on_move_of_projects={PROJECT: "free"})


async def boot(front: Front, zone: str, *, pinned: bool = False, **wish: Any) -> str:
    """Have a server in a zone, pinned to it or not."""
    server_id = await front.boot(availability_zone=zone, **wish)
    assert (await front.show(server_id))["status"] == "ACTIVE"
    if not pinned:
        await pin(front, server_id, None)
    return server_id


async def pin(front: Front, server_id: str, zone: str | None) -> None:
    answer = await front.ask("PUT", f"/servers/{server_id}", {"server": {"pinned_availability_zone": zone}})
    assert answer.status_code == 200, answer.text


async def resize(front: Front, server_id: str) -> None:
    assert (await front.act(server_id, {"resize": {"flavorRef": "2"}})).status_code == 202
    await front.settle()


async def migrate(front: Front, server_id: str, **to: str) -> None:
    answer = await front.act(server_id, {"migrate": to or None}, who="admin")
    assert answer.status_code == 202, answer.text
    await front.settle()


async def move(front: Front, server_id: str, *, who: str = "admin", **wish: Any) -> Any:
    answer = await front.ask("POST", f"/whimbrel/servers/{server_id}/move", {"move": wish}, who=who)
    await front.settle()
    return answer


async def confirm(front: Front, server_id: str) -> None:
    assert (await front.act(server_id, {"confirmResize": None})).status_code == 204
    await front.settle()


async def stands(front: Front, server_id: str) -> tuple[str, str, str | None, str]:
    """Give its status, the zone where it is, the one that it is pinned to, and its flavor."""
    server = await front.show(server_id)
    return (
        *(server["status"], server["OS-EXT-AZ:availability_zone"]),
        *(server["pinned_availability_zone"], server["flavor"]["original_name"]),
    )


async def why(front: Front, server_id: str) -> str:
    """Give the reason for which its last move was undone."""
    [last, *_] = (await front.get(f"/whimbrel/moves?server={server_id}", who="admin"))["moves"]
    assert (last["state"], last["turned"]) == ("undone", "refused")
    reason: str = last["message"]
    return reason


# Pins


@with_cloud(FREE)
async def test_c1_a_pin_to_the_default_zone_holds(front: Front) -> None:
    await put_into_zone(front, "zone2", "h2", "h3")
    server_id = await boot(front, "nova")
    await pin(front, server_id, "nova")
    await migrate(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "nova", "nova", "small")
    assert "it is pinned to zone nova" in await why(front, server_id)


@with_cloud(FREE)
async def test_c1_control_a_pin_to_another_zone_holds(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2", "h3")
    server_id = await boot(front, "zone1", pinned=True)
    await resize(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    assert "it is pinned to zone zone1" in await why(front, server_id)
    await pin(front, server_id, None)
    await resize(front, server_id)
    assert await stands(front, server_id) == ("VERIFY_RESIZE", "zone2", None, "large")


@with_cloud(FREE)
async def test_a_pin_to_a_zone_that_has_no_hosts_any_more_is_an_error(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1", pinned=True)
    [aggregate] = await front.world.cloud.aggregates.all()
    await front.world.cloud.aggregates.remove_host(aggregate.id, HostName("h1"), 1.0)
    await migrate(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    assert "zone zone1, where there is no host any more" in await why(front, server_id)


@with_cloud(FREE)
async def test_a_zone_is_renamed_and_every_pin_holds(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1", "h2")
    server_id = await boot(front, "zone1", pinned=True)
    zones = {zone["name"]: zone for zone in (await front.get("/whimbrel/zones", who="admin"))["zones"]}
    body = {"zone": {"name": "north"}}
    answer = await front.ask("PUT", f"/whimbrel/zones/{zones['zone1']['id']}", body, who="admin")
    assert answer.json()["zone"] == zones["zone1"] | {"name": "north"}
    assert (await stands(front, server_id))[1:3] == ("north", "north")
    await migrate(front, server_id)
    assert (await stands(front, server_id))[:3] == ("VERIFY_RESIZE", "north", "north")


# Where nobody said: the policy


@with_cloud(KEEP)
async def test_c2_a_server_without_a_pin_stays_in_its_zone(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2", "h3")
    server_id = await boot(front, "zone1")
    await resize(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "zone1", None, "small")
    assert "it stays in zone zone1 (az_on_move = keep)" in await why(front, server_id)


@pytest.mark.parametrize("hosts", [("h1", "h2"), ("h1",)])
@with_cloud(PREFER)
async def test_a_server_stays_in_its_zone_if_there_is_room(front: Front, hosts: tuple[str, ...]) -> None:
    await put_into_zone(front, "zone1", *hosts)
    server_id = await boot(front, "zone1")
    await resize(front, server_id)
    assert (await stands(front, server_id))[:2] == ("VERIFY_RESIZE", "zone1" if len(hosts) > 1 else "nova")


@with_cloud(OF_PROJECT)
async def test_a_project_may_have_a_policy_of_its_own(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1")
    await resize(front, server_id)
    assert (await stands(front, server_id))[:2] == ("VERIFY_RESIZE", "nova")


@with_cloud(KEEP)
async def test_an_aggregate_may_have_a_policy_of_its_own_and_a_flavor_has_the_last_word(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1")
    [aggregate] = await front.world.cloud.aggregates.all()

    async def say(policy: str) -> Any:
        body = {"set_metadata": {"metadata": {"az_on_move": policy}}}
        return await front.ask("POST", f"/os-aggregates/{aggregate.id}/action", body, who="admin")

    assert "keep, prefer or free" in fault(await say("stay"), "badRequest", 400)
    assert (await say("free")).status_code == 200
    cloud = front.world.cloud
    await cloud.flavors.change_extra_specs("2", {"whimbrel:az_on_move": "keep"})
    await resize(front, server_id)
    assert (await stands(front, server_id))[:2] == ("ACTIVE", "zone1")
    assert "(whimbrel:az_on_move = keep of its flavor)" in await why(front, server_id)
    await cloud.flavors.change_extra_specs("2", {"whimbrel:az_on_move": "always"})
    await resize(front, server_id)
    assert "flavor large is 'always'; it must be keep, prefer or free" in await why(front, server_id)
    await cloud.flavors.change_extra_specs("2", {"whimbrel:az_on_move": None})
    await resize(front, server_id)
    assert (await stands(front, server_id))[:2] == ("VERIFY_RESIZE", "nova")


# Volumes


@with_cloud(APART)
async def test_c2v_a_volume_that_was_attached_later_keeps_its_server_in_its_zone(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1")
    body = {"volumeAttachment": {"volumeId": volume(front, zone="zone1")}}
    assert (await front.ask("POST", f"/servers/{server_id}/os-volume_attachments", body, minor=100)).status_code == 200
    await front.settle()
    await resize(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "zone1", None, "small")
    assert "its volumes are in zone zone1" in await why(front, server_id)


@with_cloud(APART)
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


@with_cloud(APART)
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


@with_cloud(APART)
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


@with_cloud(APART)
async def test_volumes_in_a_zone_without_servers_are_an_error(front: Front) -> None:
    device = {"source_type": "volume", "destination_type": "volume", "boot_index": 0}
    wish = {"name": "one", "flavorRef": "1", "imageRef": "", "networks": "none"}
    far = {**device, "uuid": volume(front, zone="moon", is_bootable=True)}
    answer = await front.ask("POST", "/servers", {"server": {**wish, "block_device_mapping_v2": [far]}})
    assert "zone moon, in which no server can be" in fault(answer, "badRequest", 400)


# What an administrator says


@with_cloud(KEEP)
async def test_a_host_outside_the_zone_is_refused_unless_one_may_and_says_so(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1")
    to_h2 = {"migrate": {"host": "h2"}}
    said = fault(await front.act(server_id, to_h2, who="admin"), "badRequest", 400)
    assert said == (
        "Compute host h2 is in zone nova, where the server cannot go: it stays in zone zone1 (az_on_move = keep)."
    )
    fault(await move(front, server_id, host="h2"), "badRequest", 400)
    assert (await move(front, server_id, host="h2", leave_zone=True)).status_code == 202
    assert (await stands(front, server_id))[:3] == ("VERIFY_RESIZE", "nova", None)
    await confirm(front, server_id)
    assert (await stands(front, server_id))[:3] == ("ACTIVE", "nova", None)


OWNERS = Policy.load({**DEFAULTS, "whimbrel:servers:move": "rule:project_member_or_admin"})


@with_cloud(KEEP, OWNERS)
async def test_an_owner_moves_between_zones_where_the_policy_says_so_but_chooses_no_host(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1")
    fault(await move(front, server_id, who="member", host="h2"), "forbidden", 403)
    fault(await move(front, server_id, who="member", leave_zone=True), "forbidden", 403)
    answer = await move(front, server_id, who="member", availability_zone="nova", flavor="2")
    assert (answer.status_code, answer.json()["move"]["saga"]) == (202, "resize")
    assert await stands(front, server_id) == ("VERIFY_RESIZE", "nova", None, "large")


@with_cloud(KEEP, POLICY)
async def test_bad_moves_are_refused_at_the_door(front: Front) -> None:
    server_id = await front.boot()
    fault(await move(front, server_id, who="manager", availability_zone="nova"), "forbidden", 403)
    assert "zone moon is not there" in fault(await move(front, server_id, availability_zone="moon"), "badRequest", 400)
    fault(await move(front, server_id, host="h9"), "badRequest", 400)
    fault(await move(front, server_id, zone="nova"), "badRequest", 400)
    await put_into_zone(front, "empty")
    said = fault(await move(front, server_id, availability_zone="empty"), "badRequest", 400)
    assert "zone empty, where there is no host" in said


# Moving to a zone


@pytest.mark.parametrize("verdict", ["confirmResize", "revertResize"])
@with_cloud(KEEP)
async def test_a_pin_moves_with_its_server_when_the_move_is_confirmed(front: Front, verdict: str) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2")
    server_id = await boot(front, "zone1", pinned=True)
    assert (await move(front, server_id, availability_zone="zone2")).status_code == 202
    assert await stands(front, server_id) == ("VERIFY_RESIZE", "zone2", "zone1", "small")
    body = {"server": {"pinned_availability_zone": None}}
    fault(await front.ask("PUT", f"/servers/{server_id}", body), "conflictingRequest", 409)
    await front.act(server_id, {verdict: None})
    await front.settle()
    zone = "zone2" if verdict == "confirmResize" else "zone1"
    assert await stands(front, server_id) == ("ACTIVE", zone, zone, "small")


@with_cloud(KEEP)
async def test_d_a_move_that_fails_at_its_target_changes_no_intent(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2")
    server_id = await boot(front, "zone1", pinned=True)
    front.world.hypervisors[HostName("h2")].refusing.add("start")
    assert (await move(front, server_id, availability_zone="zone2", flavor="2")).status_code == 202
    assert await stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    [run] = (await front.get(f"/whimbrel/moves?server={server_id}", who="admin"))["moves"]
    assert (run["state"], run["target"]) == ("undone", "h2")  # it had come so far


@with_cloud(KEEP)
async def test_h_a_move_to_a_zone_that_has_no_room_changes_no_intent(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2")
    server_id = await boot(front, "zone1", pinned=True)
    for _ in range(4):
        await boot(front, "zone2")
    assert (await move(front, server_id, availability_zone="zone2")).status_code == 202
    assert await stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    assert "No valid host" in await why(front, server_id)
