"""In which availability zone a server is after a move: probes that Nova 34 was put to, with the right outcome.

Nova was seen to do otherwise in all of them but the controls: reference, Appendix E.
"""

from typing import Any

import pytest

from tests.api.front import POLICY, Front, fault
from tests.api.moving import boot, confirm, migrate, move, pin, resize, stands, why
from tests.api.test_zones import put_into_zone
from whimbrel.api.http.policy import DEFAULTS
from whimbrel.domain.ids import HostName
from whimbrel.http.policy import Policy
from whimbrel.ports.cloud import Rules
from whimbrel.sim.cloud.cloud import PROJECT

FREE = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, az_on_move="free")
KEEP = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0)
PREFER = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, az_on_move="prefer")
OF_PROJECT = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, az_on_move_of_projects={PROJECT: "free"})


# Pins


@pytest.mark.cloud(FREE)
async def test_c1_a_pin_to_the_default_zone_holds(front: Front) -> None:
    await put_into_zone(front, "zone2", "h2", "h3")
    server_id = await boot(front, "nova")
    await pin(front, server_id, "nova")
    await migrate(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "nova", "nova", "small")
    assert "it is pinned to zone nova" in await why(front, server_id)


@pytest.mark.cloud(FREE)
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


@pytest.mark.cloud(FREE)
async def test_a_pin_to_a_zone_that_has_no_hosts_any_more_is_an_error(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1", pinned=True)
    [aggregate] = await front.world.cloud.aggregates.all()
    await front.world.cloud.aggregates.remove_host(aggregate.id, HostName("h1"), 1.0)
    await migrate(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    assert "zone zone1, where there is no host any more" in await why(front, server_id)


@pytest.mark.cloud(FREE)
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


@pytest.mark.cloud(KEEP)
async def test_c2_a_server_without_a_pin_stays_in_its_zone(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2", "h3")
    server_id = await boot(front, "zone1")
    await resize(front, server_id)
    assert await stands(front, server_id) == ("ACTIVE", "zone1", None, "small")
    assert "it stays in zone zone1 (az_on_move = keep)" in await why(front, server_id)


@pytest.mark.parametrize("hosts", [("h1", "h2"), ("h1",)])
@pytest.mark.cloud(PREFER)
async def test_a_server_stays_in_its_zone_if_there_is_room(front: Front, hosts: tuple[str, ...]) -> None:
    await put_into_zone(front, "zone1", *hosts)
    server_id = await boot(front, "zone1")
    await resize(front, server_id)
    assert (await stands(front, server_id))[:2] == ("VERIFY_RESIZE", "zone1" if len(hosts) > 1 else "nova")


@pytest.mark.cloud(OF_PROJECT)
async def test_a_project_may_have_a_policy_of_its_own(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1")
    await resize(front, server_id)
    assert (await stands(front, server_id))[:2] == ("VERIFY_RESIZE", "nova")


@pytest.mark.cloud(KEEP)
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


# What an administrator says


@pytest.mark.cloud(KEEP)
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


@pytest.mark.cloud(KEEP, OWNERS)
async def test_an_owner_moves_between_zones_where_the_policy_says_so_but_chooses_no_host(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1")
    fault(await move(front, server_id, who="member", host="h2"), "forbidden", 403)
    fault(await move(front, server_id, who="member", leave_zone=True), "forbidden", 403)
    answer = await move(front, server_id, who="member", availability_zone="nova", flavor="2")
    assert (answer.status_code, answer.json()["move"]["saga"]) == (202, "resize")
    assert await stands(front, server_id) == ("VERIFY_RESIZE", "nova", None, "large")


@pytest.mark.cloud(KEEP, POLICY)
async def test_bad_moves_are_refused_by_the_app(front: Front) -> None:
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
@pytest.mark.cloud(KEEP)
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


@pytest.mark.cloud(KEEP)
async def test_d_a_move_that_fails_at_its_target_changes_no_intent(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2")
    server_id = await boot(front, "zone1", pinned=True)
    front.world.hypervisors[HostName("h2")].refusing.add("start")
    assert (await move(front, server_id, availability_zone="zone2", flavor="2")).status_code == 202
    assert await stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    [run] = (await front.get(f"/whimbrel/moves?server={server_id}", who="admin"))["moves"]
    assert (run["state"], run["target"]) == ("undone", "h2")  # it had come so far


@pytest.mark.cloud(KEEP)
async def test_h_a_move_to_a_zone_that_has_no_room_changes_no_intent(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2")
    server_id = await boot(front, "zone1", pinned=True)
    for _ in range(4):
        await boot(front, "zone2")
    assert (await move(front, server_id, availability_zone="zone2")).status_code == 202
    assert await stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    assert "No valid host" in await why(front, server_id)


# Live moves to a zone


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "unpinned"])
@pytest.mark.cloud(KEEP)
async def test_a_server_moves_live_to_a_zone_and_its_pin_with_it(front: Front, pinned: bool) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2")
    server_id = await boot(front, "zone1", pinned=pinned)
    assert (await move(front, server_id, live=True, availability_zone="zone2")).status_code == 202
    assert await stands(front, server_id) == ("ACTIVE", "zone2", "zone2" if pinned else None, "small")


@pytest.mark.cloud(KEEP)
async def test_a_live_move_to_a_host_of_another_zone_needs_leave_zone(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    server_id = await boot(front, "zone1", pinned=True)
    said = fault(await move(front, server_id, live=True, host="h2"), "badRequest", 400)
    assert "it is pinned to zone zone1" in said
    assert (await move(front, server_id, live=True, host="h2", leave_zone=True)).status_code == 202
    assert await stands(front, server_id) == ("ACTIVE", "nova", "nova", "small")


@pytest.mark.cloud(KEEP)
async def test_a_live_move_to_a_zone_that_fails_changes_no_pin(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2")
    await put_into_zone(front, "empty")
    server_id = await boot(front, "zone1", pinned=True)
    for zone, reason in (("empty", "where there is no host"), ("moon", "is not there")):
        said = fault(await move(front, server_id, live=True, availability_zone=zone), "badRequest", 400)
        assert reason in said
    front.world.hypervisors[HostName("h2")].refusing.add("receive")
    assert (await move(front, server_id, live=True, availability_zone="zone2")).status_code == 202
    assert await stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    [run] = (await front.get(f"/whimbrel/moves?server={server_id}", who="admin"))["moves"]
    assert (run["state"], run["target"]) == ("undone", "h2")  # it had come so far
