"""Servers: creating, listing, showing, changing, deleting, as Nova's clients see it."""

from typing import Any

import pytest

from tests.api.front import IMAGE, OTHER_PROJECT, PROJECT, Front, fault
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName

# Creating


async def test_a_server_is_accepted_and_then_runs(front: Front) -> None:
    requested = {"name": "web", "flavorRef": "1", "imageRef": IMAGE, "networks": "auto"}
    answer = await front.ask("POST", "/servers", {"server": requested})
    assert answer.status_code == 202
    server = answer.json()["server"]
    assert set(server) == {"id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"}
    assert answer.headers["Location"] == server["links"][0]["href"]
    before = await front.show(server["id"])
    assert (before["status"], before["OS-EXT-STS:task_state"]) == ("BUILD", "scheduling")
    await front.settle()
    after = await front.show(server["id"])
    assert (after["status"], after["OS-EXT-STS:power_state"], after["hostId"] != "") == ("ACTIVE", 1, True)


async def test_everything_that_is_said_is_kept(front: Front) -> None:
    requested = {
        "description": "for tests",
        "metadata": {"a": "b"},
        "tags": ["x", "y"],
        "hostname": "web-1",
        "config_drive": True,
        "user_data": "aGVsbG8=",
        "accessIPv4": "10.0.0.1",
        "availability_zone": "nova",
        "adminPass": "secret",
    }
    server = await front.show(await front.boot(**requested), who="admin")
    assert server["description"] == "for tests"
    assert server["metadata"] == {"a": "b"}
    assert server["tags"] == ["x", "y"]
    assert server["OS-EXT-SRV-ATTR:hostname"] == "web-1"
    assert server["config_drive"] == "True"
    assert server["OS-EXT-SRV-ATTR:user_data"] == "aGVsbG8="
    assert server["accessIPv4"] == "10.0.0.1"
    assert server["pinned_availability_zone"] == "nova"


async def test_hints_are_kept_and_shown(front: Front) -> None:
    requested = {"name": "web", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    other = "5d3c8dc1-5b9f-4f8e-9c43-8a4e6b5b1f0a"
    hints = {"colour": "blue", "different_host": [other], "weight": 3, "deep": [["a", True], None], "query": {"a": 1}}
    body = {"server": requested, "os:scheduler_hints": hints}
    server_id = (await front.ask("POST", "/servers", body)).json()["server"]["id"]
    assert (await front.show(server_id))["scheduler_hints"] == {
        "colour": ["blue"],
        "different_host": [other],
        "weight": ["3"],
        "deep": ['["a",true]', "null"],
        "query": ['{"a":1}'],
    }


async def test_several_are_numbered_and_share_a_reservation(front: Front) -> None:
    requested = {
        "name": "web",
        "flavorRef": "1",
        "imageRef": IMAGE,
        "networks": "none",
        "min_count": 2,
        "max_count": "3",
    }
    answer = await front.ask("POST", "/servers", {"server": requested | {"return_reservation_id": True}})
    assert "Location" not in answer.headers
    reservation = answer.json()["reservation_id"]
    fault(await front.ask("POST", "/servers", {"server": requested | {"hostname": "web"}}), "badRequest", 400)
    await front.settle()
    servers = (await front.get(f"/servers/detail?reservation_id={reservation}&sort_key=display_name&sort_dir=asc"))[
        "servers"
    ]
    assert [server["name"] for server in servers] == ["web-1", "web-2", "web-3"]
    assert [server["OS-EXT-SRV-ATTR:hostname"] for server in servers] == ["web-1", "web-2", "web-3"]


async def test_as_many_as_the_quota_allows(front: Front) -> None:
    await front.world.cloud.quotas.set_limits(PROJECT, {"instances": 2})
    requested = {"name": "web", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    answer = await front.ask("POST", "/servers", {"server": requested | {"min_count": 1, "max_count": 5}})
    assert answer.status_code == 202
    assert len((await front.get("/servers"))["servers"]) == 2
    fault(await front.ask("POST", "/servers", {"server": requested}), "forbidden", 403)
    fault(await front.ask("POST", "/servers", {"server": requested | {"max_count": 2}}), "forbidden", 403)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": ""}, "attribute name."),
        ({"name": " web"}, "attribute name."),
        ({"name": "x" * 256}, "attribute name."),
        ({"name": 7}, "attribute name."),
        ({"flavorRef": "nothing"}, "Flavor nothing"),
        ({"flavorRef": "x" * 5000}, "flavorRef"),
        ({"imageRef": "nothing"}, "attribute imageRef."),
        ({"imageRef": ""}, "Invalid imageRef"),
        ({"imageRef": "33333333-3333-4333-8333-333333333334"}, "could not be found"),
        ({"networks": [{"uuid": IMAGE}]}, "could not be found"),
        ({"networks": "some"}, "networks"),
        ({"networks": []}, ""),
        ({"unknown": 1}, "unknown"),
        ({"key_name": "nobody's"}, "Invalid key_name"),
        ({"availability_zone": "atlantis"}, "availability zone is not available"),
        ({"availability_zone": "a:b:c:d"}, "Unable to parse"),
        ({"min_count": 3, "max_count": 2}, "min_count must be <= max_count"),
        ({"min_count": 0}, "min_count"),
        ({"max_count": 10**19}, "max_count"),
        ({"user_data": "a"}, "base64"),
        ({"tags": ["a,b"]}, "attribute 0."),
        ({"tags": [str(number) for number in range(51)]}, "tags"),
        ({"metadata": {"a": 1}}, "attribute a."),
        ({"metadata": {"k" * 256: "v"}}, "metadata"),
        ({"accessIPv4": "somewhere"}, "accessIPv4"),
        ({"trusted_image_certificates": ["x"]}, "Image signatures"),
        ({"block_device_mapping": [{"volume_id": IMAGE}]}, "failed to get volume"),
        ({"personality": []}, "personality"),
        ({"description": "x" * 256}, "description"),
        ({"hostname": "no blanks"}, "hostname"),
    ],
)
async def test_a_wrong_request_is_400_and_nothing_is_made(front: Front, change: dict[str, Any], sentence: str) -> None:
    requested = {"name": "web", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"} | change
    answer = await front.ask("POST", "/servers", {"server": requested})
    if not sentence:
        assert answer.status_code == 202
        return
    assert sentence in fault(answer, "badRequest", 400)
    assert (await front.get("/servers"))["servers"] == []


async def test_networks_must_be_said_from_2_37_on(front: Front) -> None:
    requested = {"name": "web", "flavorRef": "1", "imageRef": IMAGE}
    assert "networks" in fault(await front.ask("POST", "/servers", {"server": requested}, minor=37), "badRequest", 400)
    assert (await front.ask("POST", "/servers", {"server": requested}, minor=36)).status_code == 202


@pytest.mark.parametrize(
    "device",
    [
        {"uuid": IMAGE, "source_type": "image", "destination_type": "local", "boot_index": 0},
        {"uuid": IMAGE, "source_type": "image", "destination_type": "local", "boot_index": "0"}
        | {"delete_on_termination": True},
    ],
)
async def test_the_device_that_clients_send_for_a_plain_boot_is_understood(
    front: Front, device: dict[str, Any]
) -> None:
    assert (await front.show(await front.boot(block_device_mapping_v2=[device])))["image"]["id"] == IMAGE
    assert (await front.show(await front.boot(block_device_mapping_v2=[device], imageRef="")))["image"]["id"] == IMAGE


async def test_the_reference_of_a_flavor_may_be_a_url(front: Front) -> None:
    server_id = await front.boot(flavorRef="http://cloud/flavors/1")
    assert (await front.show(server_id))["flavor"]["original_name"] == "small"


async def test_the_image_must_fit_the_flavor(front: Front) -> None:
    cloud = front.world.cloud
    for flavor in (
        Flavor(flavor_id="off", name="off", vcpus=1, memory_mib=512, root_gib=1, disabled=True),
        Flavor(flavor_id="zero", name="zero", vcpus=1, memory_mib=512, root_gib=0),
        Flavor(flavor_id="hidden", name="hidden", vcpus=1, memory_mib=512, root_gib=1, is_public=False),
    ):
        await cloud.flavors.create(flavor, cloud.clock.now())
    requested = {"name": "web", "imageRef": IMAGE, "networks": "none"}

    async def boot(flavor: str, who: str) -> Any:
        return await front.ask("POST", "/servers", {"server": requested | {"flavorRef": flavor}}, who=who)

    fault(await boot("off", "member"), "badRequest", 400)
    fault(await boot("hidden", "member"), "badRequest", 400)
    fault(await boot("zero", "member"), "forbidden", 403)
    assert (await boot("hidden", "admin")).status_code == 202
    await cloud.flavors.grant("hidden", PROJECT)
    assert (await boot("hidden", "member")).status_code == 202


async def test_only_administrators_choose_the_host(front: Front) -> None:
    requested = {"name": "web", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    for choice in ({"host": "h2"}, {"availability_zone": "nova:h2"}, {"hypervisor_hostname": "h2"}):
        fault(await front.ask("POST", "/servers", {"server": requested | choice}), "forbidden", 403)
        server_id = await front.boot(who="admin", **choice)
        assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"] == "h2"
    for wrong in ({"host": "h9"}, {"availability_zone": "nova:h9"}, {"host": "h1", "availability_zone": "nova:h2"}):
        fault(await front.ask("POST", "/servers", {"server": requested | wrong}, who="admin"), "badRequest", 400)


async def test_a_flavor_larger_than_any_host_ends_in_error_with_the_reason(front: Front) -> None:
    cloud = front.world.cloud
    await cloud.flavors.create(Flavor(flavor_id="9", name="huge", vcpus=20, memory_mib=512, root_gib=1), 0.0)
    server = await front.show(await front.boot(flavorRef="9"))
    assert server["status"] == "ERROR"
    assert "No valid host" in server["fault"]["message"]


# Showing

ALWAYS = {
    *("id", "name", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created", "updated"),
    *("addresses", "accessIPv4", "accessIPv6", "links", "OS-DCF:diskConfig", "progress"),
    *("OS-EXT-AZ:availability_zone", "config_drive", "key_name", "OS-SRV-USG:launched_at"),
    *("OS-SRV-USG:terminated_at", "OS-EXT-STS:task_state", "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state"),
    "os-extended-volumes:volumes_attached",
}
SINCE = {
    "locked": 9,
    "description": 19,
    "tags": 26,
    "trusted_image_certificates": 63,
    "server_groups": 71,
    "locked_reason": 73,
    "OS-EXT-SRV-ATTR:hostname": 90,
    "pinned_availability_zone": 96,
    "scheduler_hints": 100,
}


async def test_fields_come_with_their_version(front: Front) -> None:
    server_id = await front.boot()
    for minor in range(1, 105):
        server = await front.show(server_id, minor=minor)
        assert set(server) == ALWAYS | {key for key, since in SINCE.items() if minor >= since}, minor
        [listed] = (await front.get("/servers/detail", minor=minor))["servers"]
        assert set(listed) == set(server) - {"server_groups"}, minor


async def test_administrators_see_more(front: Front) -> None:
    server_id = await front.boot()
    old, new = [await front.show(server_id, who="admin", minor=minor) for minor in (1, 104)]
    assert {key for key in old if key.startswith("OS-EXT-SRV")} == {
        *("OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:instance_name", "OS-EXT-SRV-ATTR:hypervisor_hostname")
    }
    assert len([key for key in new if key.startswith("OS-EXT-SRV")]) == 10
    assert new["OS-EXT-SRV-ATTR:instance_name"] == f"whimbrel-{server_id}"  # what virsh knows its guest by
    assert new["host_status"] == "UP"
    await front.world.cloud.cells["c1"].hosts.set_service(
        HostName(new["OS-EXT-SRV-ATTR:host"]), enabled=False, disabled_reason=None, forced_down=False
    )
    assert (await front.show(server_id, who="admin"))["host_status"] == "MAINTENANCE"


async def test_a_flavor_is_shown_as_its_version_has_it(front: Front) -> None:
    server_id = await front.boot()
    assert (await front.show(server_id, minor=46))["flavor"]["id"] == "1"
    assert (await front.show(server_id, minor=47))["flavor"] == {
        "vcpus": 1,
        "ram": 512,
        "disk": 1,
        "ephemeral": 0,
        "swap": 0,
        "original_name": "small",
        "extra_specs": {},
    }
    assert set((await front.show(server_id, minor=97))["image"]) == {"id", "links"}
    assert set((await front.show(server_id, minor=98))["image"]) == {"id", "links", "properties"}


async def test_another_projects_server_is_not_found(front: Front) -> None:
    server_id = await front.boot()
    who = f"member@{OTHER_PROJECT}"
    fault(await front.ask("GET", f"/servers/{server_id}", who=who), "itemNotFound", 404)
    fault(await front.ask("DELETE", f"/servers/{server_id}", who=who), "itemNotFound", 404)
    fault(await front.act(server_id, {"os-stop": None}, who=who), "itemNotFound", 404)
    assert (await front.ask("GET", f"/servers/{server_id}", who=f"admin@{OTHER_PROJECT}")).status_code == 200
    fault(await front.ask("GET", f"/servers/{OTHER_PROJECT}"), "itemNotFound", 404)


async def test_readers_read_and_members_write(front: Front) -> None:
    server_id = await front.boot()
    await front.show(server_id, who="reader")
    fault(await front.ask("DELETE", f"/servers/{server_id}", who="reader"), "forbidden", 403)
    fault(await front.ask("PUT", f"/servers/{server_id}", {"server": {"name": "x"}}, who="reader"), "forbidden", 403)
    fault(await front.ask("GET", f"/servers/{server_id}", who="nobody"), "forbidden", 403)
    requested = {"name": "web", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    fault(await front.ask("POST", "/servers", {"server": requested}, who="reader"), "forbidden", 403)


# Changing and deleting


async def test_an_update_changes_what_it_names(front: Front) -> None:
    server_id = await front.boot()
    change = {"name": "two", "description": None, "accessIPv6": "::1", "hostname": "two.example.org"}
    answer = await front.ask("PUT", f"/servers/{server_id}", {"server": change})
    assert answer.status_code == 200
    server = answer.json()["server"]
    assert (server["name"], server["accessIPv6"], server["OS-EXT-SRV-ATTR:hostname"]) == (
        *("two", "::1", "two.example.org"),
    )
    assert (await front.show(server_id))["name"] == "two"
    change = {"accessIPv6": "2001:DB8:0::0:1"}
    changed = (await front.ask("PUT", f"/servers/{server_id}", {"server": change})).json()["server"]
    assert (changed["accessIPv4"], changed["accessIPv6"]) == ("", "2001:db8::1")
    for bad in ({"accessIPv4": ""}, {"accessIPv6": ""}, {"accessIPv4": "::1"}, {"accessIPv6": "10.0.0.1"}):
        fault(await front.ask("PUT", f"/servers/{server_id}", {"server": bad}), "badRequest", 400)
    rebuilt = await front.act(server_id, {"rebuild": {"imageRef": IMAGE, "accessIPv6": "FD00:0::2"}})
    assert rebuilt.json()["server"]["accessIPv6"] == "fd00::2"
    await front.settle()
    old = (await front.ask("PUT", f"/servers/{server_id}", {"server": {"name": "three"}}, minor=74)).json()["server"]
    assert "OS-EXT-STS:vm_state" not in old
    fault(await front.ask("PUT", f"/servers/{server_id}", {"server": {"nothing": 1}}), "badRequest", 400)
    fault(await front.ask("PUT", f"/servers/{server_id}", {"server": {"hostname": "a-b"}}, minor=89), "badRequest", 400)


async def test_a_server_is_pinned_only_to_where_it_is(front: Front) -> None:
    server_id = await front.boot()

    async def pin(zone: str | None) -> Any:
        return await front.ask("PUT", f"/servers/{server_id}", {"server": {"pinned_availability_zone": zone}})

    assert "can be pinned only there" in fault(await pin("nowhere"), "conflictingRequest", 409)
    aggregate = {"name": "elsewhere", "availability_zone": "elsewhere"}
    await front.ask("POST", "/os-aggregates", {"aggregate": aggregate}, who="admin")
    fault(await pin("elsewhere"), "conflictingRequest", 409)
    assert (await pin("nova")).json()["server"]["pinned_availability_zone"] == "nova"
    assert (await pin("nova")).status_code == 200
    for other in ("elsewhere", "nowhere"):
        fault(await pin(other), "conflictingRequest", 409)
    assert (await pin(None)).json()["server"]["pinned_availability_zone"] is None
    assert (await pin(None)).status_code == 200


async def test_a_deleted_server_is_gone(front: Front) -> None:
    server_id = await front.boot()
    answer = await front.ask("DELETE", f"/servers/{server_id}")
    assert (answer.status_code, answer.content) == (204, b"")
    await front.settle()
    fault(await front.ask("GET", f"/servers/{server_id}"), "itemNotFound", 404)
    fault(await front.ask("DELETE", f"/servers/{server_id}"), "itemNotFound", 404)


async def test_a_server_can_be_deleted_while_it_is_built(front: Front) -> None:
    server_id = await front.boot(settle=False)
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204


# Listing


async def names(front: Front, query: str, **more: Any) -> list[str]:
    return sorted(server["name"] for server in (await front.get(f"/servers{query}", **more))["servers"])


async def test_lists_are_filtered(front: Front) -> None:
    await front.boot("alpha", tags=["red", "warm"], metadata={"a": "b"}, description="first")
    await front.boot("beta", flavorRef="2", tags=["red"], config_drive=True)
    stopped = await front.boot("gamma", hostname="the-third")
    await front.act(stopped, {"os-stop": None})
    await front.settle()
    await front.act(stopped, {"lock": None})
    for query, wanted in {
        "": ["alpha", "beta", "gamma"],
        "?name=^.a": ["gamma"],
        "?name=a$": ["alpha", "beta", "gamma"],
        "?status=ACTIVE": ["alpha", "beta"],
        "?status=shutoff&status=ERROR": ["gamma"],
        "?flavor=2": ["beta"],
        "?flavor=none": [],
        f"?image={IMAGE}": ["alpha", "beta", "gamma"],
        "?tags=red": ["alpha", "beta"],
        "?tags=red,warm": ["alpha"],
        "?tags-any=warm,cold": ["alpha"],
        "?not-tags=red": ["gamma"],
        "?not-tags-any=warm,cold": ["beta", "gamma"],
        "?locked=true": ["gamma"],
        "?locked=False": ["alpha", "beta"],
        "?hostname=third": ["gamma"],
        "?config_drive=True": ["beta"],
        "?vm_state=stopped": ["gamma"],
        "?power_state=4": ["gamma"],
        "?availability_zone=nova": ["alpha", "beta", "gamma"],
        "?ip=10": [],
        "?changes-since=2100-01-01T00:00:00Z": [],
        "?changes-before=2100-01-01T00:00:00Z": ["alpha", "beta", "gamma"],
    }.items():
        assert await names(front, query) == wanted, query


async def test_a_server_is_among_those_changed_until_the_time_that_it_shows(front: Front) -> None:
    await front.world.cloud.clock.sleep(0.25)
    server_id = await front.boot("one")
    shown = await front.show(server_id)
    for query in (f"?changes-before={shown['updated']}", f"?changes-since={shown['updated']}"):
        assert await names(front, query) == ["one"]


@pytest.mark.parametrize(
    "query",
    [
        *("?status=purple", "?name=(", "?name=*", "?limit=-1", "?limit=x", "?marker=nobody", "?sort_key=colour"),
        *("?sort_dir=up", "?changes-since=yesterday", "?locked=perhaps", "?all_tenants=maybe", "?metadata=1", "?_x=1"),
        "?changes-since=2020-01-02T00:00:00Z&changes-before=2020-01-01T00:00:00Z",
    ],
)
async def test_a_wrong_filter_is_400(front: Front, query: str) -> None:
    fault(await front.ask("GET", f"/servers{query}"), "badRequest", 400)


async def test_what_users_may_not_ask_is_ignored_or_refused(front: Front) -> None:
    await front.boot("mine")
    await front.boot("other's", who=f"member@{OTHER_PROJECT}")
    assert await names(front, "?host=h9") == ["mine"]
    assert await names(front, f"?tenant_id={OTHER_PROJECT}") == ["mine"]
    assert await names(front, "?status=purple", minor=37) == []
    fault(await front.ask("GET", "/servers?all_tenants=1"), "forbidden", 403)
    fault(await front.ask("GET", "/servers?status=deleted"), "forbidden", 403)
    fault(await front.ask("GET", "/servers?sort_key=host"), "forbidden", 403)
    assert await names(front, "", who="admin") == ["mine"]
    assert await names(front, "?all_tenants=1", who="admin") == ["mine", "other's"]
    for key in ("tenant_id", "project_id"):  # without all_tenants it is ignored
        assert await names(front, f"?{key}={OTHER_PROJECT}", who="admin") == ["mine"]
        assert await names(front, f"?{key}={OTHER_PROJECT}&all_tenants=1", who="admin") == ["other's"]
    assert await names(front, "?all_tenants=True&host=h9", who="admin") == []


async def test_lists_go_on_page_by_page(front: Front) -> None:
    for name in ("a", "b", "c"):
        await front.boot(name)
        await front.world.cloud.clock.sleep(1)
    seen, path = [], "/servers?limit=2&sort_key=display_name&sort_dir=asc"
    while path:
        page = await front.get(path)
        seen.append([server["name"] for server in page["servers"]])
        links = page.get("servers_links", [])
        path = links[0]["href"].removeprefix("http://cloud:8774/compute/v2.1") if links else ""
    assert seen == [["a", "b"], ["c"]]
    assert [server["name"] for server in (await front.get("/servers"))["servers"]] == ["c", "b", "a"]
    assert await names(front, "?limit=0") == []
    assert (await front.get("/servers/detail?limit=1"))["servers_links"][0]["href"].startswith(
        "http://cloud:8774/compute/v2.1/servers/detail?limit=1&marker="
    )


async def test_deleted_servers_are_shown_to_who_asks_what_changed(front: Front) -> None:
    server_id = await front.boot("gone")
    await front.ask("DELETE", f"/servers/{server_id}")
    await front.settle()
    assert await names(front, "") == []
    assert await names(front, "?changes-since=1970-01-01T00:00:00Z") == ["gone"]
    assert await names(front, "?deleted=true", who="admin") == ["gone"]
    assert await names(front, "?status=DELETED", who="admin") == ["gone"]
    [server] = (await front.get("/servers/detail?changes-since=1970-01-01T00:00:00Z"))["servers"]
    assert server["status"] == "DELETED"


async def test_hostnames_differ_and_are_never_empty(front: Front) -> None:
    requested = {"flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    for name in ("x" * 80, "北京"):
        body = {"server": requested | {"name": name, "max_count": 2}}
        assert (await front.ask("POST", "/servers", body)).status_code == 202
    for server in (await front.get("/servers/detail"))["servers"]:
        number = server["name"][-2:]
        expected = "x" * 63 + number if server["name"].startswith("x") else f"Server-{server['id']}"
        assert server["OS-EXT-SRV-ATTR:hostname"] == expected
