"""Shelve, offload and unshelve: who, in what state, with which answer, and what is left where."""

from typing import Any

import pytest

from tests.api import moving
from tests.api.devices import network, volume
from tests.api.front import OTHER_PROJECT, Front, fault
from tests.api.test_actions import do, status
from tests.api.test_zones import disable, put_into_zone
from whimbrel.api.http.policy import DEFAULTS
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.http.policy import Policy
from whimbrel.ports.cloud import Rules
from whimbrel.proof.proof import prove
from whimbrel.reconcilers.rounds import reconcile_slowly
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT

RULES = {"cpu_allocation_ratio": 1.0, "step_timeout_s": 20.0}
KEPT = Rules(**RULES, shelved_offload_time_s=-1)
LATER = Rules(**RULES, shelved_offload_time_s=600)
BESIDE = Rules(**RULES, cross_az_attach=False)
TWO_CELLS = {"c1": ("h1",), "c2": ("h2",)}
ANYWHERE = Policy.load({**DEFAULTS, "compute:servers:resize:cross_cell": "rule:project_member_or_admin"})


async def images(front: Front) -> list[str]:
    """Return the names of the images besides the one of the cloud."""
    found = [await front.world.images.show(one) for one in front.world.images.ids() if one != IMAGE]
    return sorted(f"{image.name} {image.status}" for image in found)


async def guests(front: Front, server_id: str) -> list[tuple[str, str]]:
    return [(host, one.power) for host, one in front.world.simulated.guests() if one.key.server == server_id]


async def events(front: Front, server_id: str) -> list[tuple[str, list[str], str | None]]:
    """Return its actions, the newest first: name, events, message."""
    listed = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    found = []
    for one in listed:
        path = f"/servers/{server_id}/os-instance-actions/{one['request_id']}"
        action = (await front.get(path))["instanceAction"]
        found.append((action["action"], [event["event"] for event in action["events"]], action["message"]))
    return found


async def test_a_server_is_shelved_and_offloaded_and_comes_back(front: Front) -> None:
    server_id = await front.boot()
    await do(front, server_id, {"shelve": None})
    server = await front.show(server_id, who="admin")
    assert (server["status"], server["OS-EXT-STS:vm_state"]) == ("SHELVED_OFFLOADED", "shelved_offloaded")
    assert (server["OS-EXT-STS:power_state"], server["OS-EXT-SRV-ATTR:host"]) == (0, None)
    assert server["OS-EXT-SRV-ATTR:hypervisor_hostname"] is None
    assert (server["host_status"], server["hostId"]) == ("", "")
    assert await images(front) == ["one-shelved active"]
    assert await guests(front, server_id) == []
    assert await front.world.cloud.placement.allocations() == []
    await do(front, server_id, {"unshelve": None})
    assert await status(front, server_id) == "ACTIVE"
    assert await images(front) == []
    assert [power for _, power in await guests(front, server_id)] == ["running"]
    assert await events(front, server_id) == [
        (
            "unshelve",
            ["get_image_info", "schedule_instances", "compute_unshelve_instance"],
            "3 of 3 hosts fit.",
        ),
        ("shelve", ["compute_shelve_instance", "compute_shelve_offload_instance"], None),
        (
            "create",
            ["conductor_schedule_and_build_instances", "compute__do_build_and_run_instance"],
            "3 of 3 hosts fit.",
        ),
    ]
    assert (await front.get("/os-migrations", who="admin"))["migrations"] == []


async def shelved(front: Front, **requested: Any) -> str:
    server_id = await front.boot(**requested)
    await do(front, server_id, {"shelve": None})
    return server_id


async def host_of(front: Front, server_id: str) -> Any:
    return (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"]


async def why(front: Front, server_id: str) -> str:
    """Return the message of its last action."""
    [(action, _, message), *_] = await events(front, server_id)
    assert action == "unshelve"
    return str(message)


async def test_ports_and_volumes_are_kept_and_come_back(front: Front) -> None:
    net, vol = network(front), volume(front)
    server_id = await front.boot(networks=[{"uuid": net}])
    attached = {"volumeAttachment": {"volumeId": vol}}
    assert (await front.ask("POST", f"/servers/{server_id}/os-volume_attachments", attached)).status_code < 300
    await front.settle()
    await do(front, server_id, {"shelve": None})
    [port] = await front.world.remains.network.ports_of([ServerId(server_id)])
    assert (port.host, port.device_owner) == ("", "compute:nova")
    [attachment] = await front.world.remains.volumes.attachments(ServerId(server_id))
    assert attachment.status == "reserved"
    assert (await front.show(server_id))["addresses"]["private"][0]["addr"]
    await do(front, server_id, {"unshelve": None})
    host = await host_of(front, server_id)
    [port] = await front.world.remains.network.ports_of([ServerId(server_id)])
    assert port.host == host
    [(attachment, at)] = front.world.remains.volumes.everything()
    assert (attachment.status, at) == ("attached", host)


async def test_a_stopped_server_runs_after_unshelving(front: Front) -> None:
    """As in Nova."""
    server_id = await front.boot()
    await do(front, server_id, {"os-stop": None})
    await do(front, server_id, {"shelve": None})
    await do(front, server_id, {"unshelve": None})
    assert await status(front, server_id) == "ACTIVE"


@pytest.mark.cloud(rules=KEPT)
async def test_a_server_that_stays_on_its_host_starts_there(front: Front) -> None:
    server_id = await shelved(front)
    host = await host_of(front, server_id)
    assert await status(front, server_id) == "SHELVED"
    assert await guests(front, server_id) == [(host, "stopped")]
    await do(front, server_id, {"unshelve": None})
    assert await status(front, server_id) == "ACTIVE"
    assert await guests(front, server_id) == [(host, "running")]
    assert await images(front) == []


@pytest.mark.cloud(rules=KEPT)
async def test_an_administrator_offloads_it(front: Front) -> None:
    server_id = await shelved(front)
    fault(await front.act(server_id, {"shelveOffload": None}), "forbidden", 403)
    await do(front, server_id, {"shelveOffload": None}, who="admin@" + PROJECT)
    assert await status(front, server_id) == "SHELVED_OFFLOADED"
    fault(await front.act(server_id, {"shelveOffload": None}, who="admin"), "conflictingRequest", 409)
    assert (await events(front, server_id))[0][:2] == ("shelveOffload", ["compute_shelve_offload_instance"])


@pytest.mark.cloud(rules=LATER)
async def test_it_is_offloaded_when_its_time_is_over(front: Front) -> None:
    server_id, cloud = await shelved(front), front.world.cloud
    await reconcile_slowly(cloud, front.engine)
    await front.settle()
    assert await status(front, server_id) == "SHELVED"
    await cloud.clock.sleep(601)
    await reconcile_slowly(cloud, front.engine)
    await front.settle()
    assert await status(front, server_id) == "SHELVED_OFFLOADED"


async def test_one_on_a_volume_is_offloaded_without_an_image(front: Front) -> None:
    root = {
        "boot_index": 0,
        "uuid": volume(front, is_bootable=True),
        "source_type": "volume",
        "destination_type": "volume",
    }
    server_id = await shelved(front, imageRef="", block_device_mapping_v2=[root])
    assert await status(front, server_id) == "SHELVED_OFFLOADED"
    assert await images(front) == []
    await do(front, server_id, {"unshelve": None})
    assert await status(front, server_id) == "ACTIVE"


async def test_other_actions_refuse_a_shelved_server(front: Front) -> None:
    server_id = await shelved(front)
    actions = ("os-start", "os-stop", "shelve", "confirmResize")
    bodies: list[dict[str, Any]] = [{name: None} for name in actions]
    bodies += [
        {"os-getConsoleOutput": {}},
        {"reboot": {"type": "HARD"}},
        {"resize": {"flavorRef": "2"}},
        {"createImage": {"name": "x"}},
    ]
    for body in bodies:
        fault(await front.act(server_id, body), "conflictingRequest", 409)
    fault(await front.act(server_id, {"migrate": None}, who="admin"), "conflictingRequest", 409)
    attached = {"volumeAttachment": {"volumeId": volume(front)}}
    path = f"/servers/{server_id}/os-volume_attachments"
    fault(await front.ask("POST", path, attached, minor=19), "conflictingRequest", 409)
    plugged = {"interfaceAttachment": {"net_id": network(front)}}
    fault(await front.ask("POST", f"/servers/{server_id}/os-interface", plugged), "conflictingRequest", 409)


async def test_who_may_and_in_what_state(front: Front) -> None:
    server_id = await front.boot()
    blank = {"unshelve": {"availability_zone": " "}}
    nowhere = "33333333-3333-4333-8333-000000000000"
    fault(await front.act(nowhere, blank, minor=77), "badRequest", 400)
    said = fault(await front.act(server_id, {"unshelve": None}), "conflictingRequest", 409)
    assert said == f"Cannot 'unshelve' instance {server_id} while it is in vm_state active"
    fault(await front.act(server_id, {"shelveOffload": None}, who="admin"), "conflictingRequest", 409)
    fault(await front.act(server_id, {"shelve": None}, who="reader"), "forbidden", 403)
    fault(await front.act(server_id, {"shelve": None}, who="member@" + OTHER_PROJECT), "itemNotFound", 404)
    await do(front, server_id, {"lock": None}, who="admin")
    assert fault(await front.act(server_id, {"shelve": None}), "conflictingRequest", 409).endswith("is locked")


async def test_a_deleted_shelved_server_leaves_nothing(front: Front) -> None:
    server_id = await shelved(front, networks=[{"uuid": network(front)}])
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await front.settle()
    assert (await front.ask("GET", f"/servers/{server_id}")).status_code == 404
    assert await images(front) == []
    assert front.world.remains.network.everything() == []


async def test_it_is_found_by_its_status(front: Front) -> None:
    server_id = await shelved(front)
    for name in ("SHELVED_OFFLOADED", "shelved_offloaded"):
        assert [one["id"] for one in (await front.get(f"/servers?status={name}"))["servers"]] == [server_id]
    assert (await front.get("/servers?status=SHELVED"))["servers"] == []


async def test_it_counts_in_the_quota(front: Front) -> None:
    await shelved(front)
    absolute = (await front.get("/limits"))["limits"]["absolute"]
    assert (absolute["totalInstancesUsed"], absolute["totalCoresUsed"]) == (1, 1)


# The body


@pytest.mark.parametrize(
    ("minor", "body", "is_good"),
    [
        (1, "anything", True),
        (76, {"availability_zone": "nowhere"}, True),
        (77, None, True),
        (77, {}, False),
        (77, {"availability_zone": None}, False),
        (77, {"availability_zone": "nova", "host": "h1"}, False),
        (90, {"host": "h1"}, False),
        (91, {"availability_zone": None}, True),
        (91, {"availability_zone": None, "host": "h2"}, True),
        (91, {"host": ""}, False),
        (91, {"zone": "nova"}, False),
    ],
)
async def test_the_body_of_each_version(front: Front, minor: int, body: Any, is_good: bool) -> None:
    server_id = await shelved(front)
    answer = await front.act(server_id, {"unshelve": body}, minor=minor, who="admin@" + PROJECT)
    assert answer.status_code == (202 if is_good else 400), answer.text


@pytest.mark.cloud(rules=KEPT)
async def test_a_zone_or_a_host_is_only_for_offloaded_servers(front: Front) -> None:
    server_id = await shelved(front)
    for body in ({"availability_zone": "nova"}, {"availability_zone": None}, {"host": "h2"}):
        answer = await front.act(server_id, {"unshelve": body}, who="admin")
        assert 'must be "shelved_offloaded"' in fault(answer, "conflictingRequest", 409)


# Zones and hosts


async def in_two_zones(front: Front, **requested: Any) -> str:
    """Return an offloaded server of zone1, in a cloud with two zones."""
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2", "h3")
    return await shelved(front, **requested)


async def unshelve(front: Front, server_id: str, **wanted: Any) -> None:
    await do(front, server_id, {"unshelve": wanted or None}, who="admin@" + PROJECT)


@pytest.mark.parametrize("minor", [77, 91, 104])
async def test_a_requested_zone_becomes_its_pin(front: Front, minor: int) -> None:
    server_id = await in_two_zones(front, availability_zone="zone1")
    await do(front, server_id, {"unshelve": {"availability_zone": "zone2"}}, minor=minor)
    assert await moving.stands(front, server_id) == ("ACTIVE", "zone2", "zone2", "small")


async def test_a_pin_holds_until_it_is_dropped(front: Front) -> None:
    server_id = await in_two_zones(front, availability_zone="zone1")
    await unshelve(front, server_id)
    assert await moving.stands(front, server_id) == ("ACTIVE", "zone1", "zone1", "small")
    await do(front, server_id, {"shelve": None})
    await unshelve(front, server_id, availability_zone=None, host="h3")
    assert await moving.stands(front, server_id) == ("ACTIVE", "zone2", None, "small")
    assert await host_of(front, server_id) == "h3"


async def test_h_an_unshelve_that_finds_no_host_changes_nothing(front: Front) -> None:
    """Nova 34 keeps the new pin: reference, probe H."""
    server_id = await in_two_zones(front, availability_zone="zone1", networks=[{"uuid": network(front)}])
    before = await books(front.world)
    for host in ("h2", "h3"):
        front.world.hypervisors[HostName(host)].refusing.add("start")
    await unshelve(front, server_id, availability_zone="zone2")
    assert await moving.stands(front, server_id) == ("SHELVED_OFFLOADED", "zone1", "zone1", "small")
    assert await books(front.world) == before
    assert await why(front, server_id) == "Error"
    [move, *_] = (await front.get("/whimbrel/moves", who="admin"))["moves"]
    assert (move["saga"], move["state"], move["turned"]) == ("unshelve", "undone", "refused")
    assert "start" in move["message"]


async def test_the_reason_is_shown_where_there_is_no_room(front: Front) -> None:
    server_id = await shelved(front)
    for host in ("h1", "h2", "h3"):
        await disable(front, host)
    await unshelve(front, server_id)
    assert await status(front, server_id) == "SHELVED_OFFLOADED"
    assert "No valid host was found. Of 3 hosts considered, 3: its service is disabled" in await why(front, server_id)
    [move, *_] = (await front.get(f"/whimbrel/moves?server={server_id}", who="admin"))["moves"]
    [decision] = (await front.get(f"/whimbrel/moves/{move['id']}/decisions", who="admin"))["decisions"]
    assert "3: its service is disabled" in decision["summary"]


async def test_zones_and_hosts_that_cannot_be(front: Front) -> None:
    server_id = await in_two_zones(front, availability_zone="zone1")

    async def refused(name: str, code: int, **wanted: Any) -> str:
        return fault(await front.act(server_id, {"unshelve": wanted}, who="admin"), name, code)

    assert (
        await refused("badRequest", 400, availability_zone="moon") == "The requested availability zone is not available"
    )
    assert "could not be found" in await refused("badRequest", 400, host="nowhere")
    said = 'Host "h2" is not in the availability zone "zone1".'
    assert await refused("conflictingRequest", 409, host="h2") == said
    assert await refused("conflictingRequest", 409, host="h2", availability_zone="zone1") == said
    fault(await front.act(server_id, {"unshelve": {"host": "h1"}}), "forbidden", 403)


@pytest.mark.cloud(rules=BESIDE)
async def test_a_zone_without_its_volumes_is_refused(front: Front) -> None:
    await put_into_zone(front, "zone1", "h1")
    await put_into_zone(front, "zone2", "h2", "h3")
    server_id, vol = await front.boot(availability_zone="zone1"), volume(front, zone="zone1")
    attached = {"volumeAttachment": {"volumeId": vol}}
    assert (await front.ask("POST", f"/servers/{server_id}/os-volume_attachments", attached)).status_code < 300
    await front.settle()
    await do(front, server_id, {"shelve": None})
    answer = await front.act(server_id, {"unshelve": {"availability_zone": "zone2"}})
    assert "its volumes are in zone zone1" in fault(answer, "conflictingRequest", 409)


# Cells


@pytest.mark.cloud(cells=TWO_CELLS)
async def test_it_stays_in_its_cell(front: Front) -> None:
    server_id = await shelved(front, availability_zone="nova:h1", who="admin@" + PROJECT)
    await disable(front, "h1")
    await unshelve(front, server_id)
    assert await status(front, server_id) == "SHELVED_OFFLOADED"
    assert "1: in another cell" in await why(front, server_id)
    answer = await front.act(server_id, {"unshelve": {"host": "h2"}}, who="admin")
    assert "is in another cell" in fault(answer, "badRequest", 400)


@pytest.mark.cloud(cells=TWO_CELLS, policy=ANYWHERE)
async def test_it_leaves_its_cell_where_the_policy_permits_it(front: Front) -> None:
    """Nova unshelves in the server's cell only."""
    server_id = await shelved(
        front, availability_zone="nova:h1", who="admin@" + PROJECT, networks=[{"uuid": network(front)}]
    )
    await unshelve(front, server_id, host="h2")
    assert await status(front, server_id) == "ACTIVE"
    assert await host_of(front, server_id) == "h2"
    assert (await front.world.cloud.directory.entry(ServerId(server_id))).cell == "c2"
    assert (await prove(front.world.cloud)).violations == ()
