"""Unmodified clients of OpenStack, each a process of its own, against a running cloud: they notice no difference."""

import time
from collections.abc import Callable
from typing import Any

from tests.live.running_cloud import ADMIN, RunningCloud
from tests.processes import HANG_S


def boot(cloud: RunningCloud, name: str, *more: str) -> Any:
    words = ("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--no-network", "--wait", *more, name)
    server = cloud.openstack(*words)
    assert server["status"] == "ACTIVE"
    return server


def until(look: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + HANG_S
    while not enough(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    return seen


def until_status(cloud: RunningCloud, server: str, status: str) -> Any:
    return until(lambda: cloud.openstack("server", "show", server), lambda seen: seen["status"] == status)


def test_a_server_is_booted_listed_switched_and_deleted(cloud: RunningCloud) -> None:
    server = boot(cloud, "life", "--property", "a=b", "--availability-zone", "south")
    assert server["OS-EXT-AZ:availability_zone"] == "south"
    assert server["properties"] == {"a": "b"}
    [listed] = cloud.openstack("server", "list", "--name", "^life$", "--long")
    assert listed["Status"] == "ACTIVE"
    assert listed["Flavor"] == "m1.tiny" or "m1.tiny" in listed["Flavor Name"]
    cloud.say("server", "stop", "life")
    until_status(cloud, "life", "SHUTOFF")
    cloud.say("server", "start", "life")
    until_status(cloud, "life", "ACTIVE")
    cloud.say("server", "reboot", "--wait", "life")
    cloud.say("server", "set", "--property", "c=d", "--name", "life2", "life")
    assert cloud.openstack("server", "show", "life2")["properties"] == {"a": "b", "c": "d"}
    cloud.say("console", "log", "show", "life2")
    events = cloud.openstack("server", "event", "list", "life2")
    assert {"create", "stop", "start", "reboot"} <= {event["Action"] for event in events}
    shown = cloud.openstack("server", "event", "show", "life2", events[-1]["Request ID"])
    assert shown["action"] == "create"
    cloud.say("server", "delete", "--wait", "life2")
    assert cloud.openstack("server", "list", "--name", "^life") == []
    assert "No Server found for life2" in cloud.refusal("server", "show", "life2")


def test_a_server_is_resized_confirmed_reverted_and_migrated(cloud: RunningCloud) -> None:
    server = boot(cloud, "mover")["id"]
    host = cloud.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"]
    cloud.say("server", "resize", "--flavor", "m1.small", "--wait", server)
    assert cloud.openstack("server", "show", server)["status"] == "VERIFY_RESIZE"
    assert "409" in cloud.refusal("server", "resize", "--flavor", "m1.tiny", server)
    cloud.say("server", "resize", "confirm", server)
    moved = until_status(cloud, server, "ACTIVE")
    assert "m1.small" in str(moved["flavor"])
    home = cloud.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"]
    assert home != host

    cloud.say("server", "resize", "--flavor", "m1.medium", "--wait", server)
    cloud.say("server", "resize", "revert", server)
    back = until_status(cloud, server, "ACTIVE")
    assert "m1.small" in str(back["flavor"])
    assert cloud.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"] == home

    target = {"n1": "n2", "n2": "n1", "s1": "s2", "s2": "s1"}[home]  # a server stays in its zone
    assert "403" in cloud.refusal("server", "migrate", server)
    cloud.say("server", "migrate", "--host", target, "--wait", server, cloud=ADMIN)
    assert cloud.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"] == target
    cloud.say("server", "migration", "confirm", server, cloud=ADMIN)
    until_status(cloud, server, "ACTIVE")

    words = ("server", "migration", "list", "--server", server)
    migrations = until(  # the server is ACTIVE before the journal has the end of the move
        lambda: cloud.openstack(*words, cloud=ADMIN),
        lambda seen: "confirming" not in {each["Status"] for each in seen},
    )
    assert [(each["Type"], each["Status"]) for each in migrations] == [
        ("migration", "confirmed"),
        ("resize", "reverted"),
        ("resize", "confirmed"),
    ]
    actions = [event["Action"] for event in cloud.openstack("server", "event", "list", server)]
    assert sorted(actions) == sorted(
        ["create", "resize", "confirmResize", "resize", "revertResize", "migrate", "confirmResize"]
    )
    assert "409" in cloud.refusal("server", "resize", "confirm", server)
    cloud.say("server", "delete", "--wait", server)


def test_what_surrounds_servers_is_listed_and_changed(cloud: RunningCloud) -> None:
    assert {flavor["Name"] for flavor in cloud.openstack("flavor", "list")} >= {"m1.tiny", "m1.small"}
    cloud.say("flavor", "create", "--vcpus", "1", "--ram", "64", "--disk", "1", "--private", "mine", cloud=ADMIN)
    cloud.say("flavor", "set", "--property", "hw:cpu_policy=shared", "mine", cloud=ADMIN)
    assert cloud.openstack("flavor", "show", "mine", cloud=ADMIN)["properties"] == {"hw:cpu_policy": "shared"}
    assert "mine" not in {flavor["Name"] for flavor in cloud.openstack("flavor", "list")}
    cloud.say("flavor", "set", "--project", "demo", "mine", cloud=ADMIN)
    assert "mine" in {flavor["Name"] for flavor in cloud.openstack("flavor", "list", "--all")}
    cloud.say("flavor", "delete", "mine", cloud=ADMIN)

    assert {host["Hypervisor Hostname"] for host in cloud.openstack("hypervisor", "list", cloud=ADMIN)} == {
        *("n1", "n2", "s1", "s2")
    }
    services = cloud.openstack("compute", "service", "list", "--service", "nova-compute", cloud=ADMIN)
    assert {service["State"] for service in services} == {"up"}
    assert {zone["Zone Name"] for zone in cloud.openstack("availability", "zone", "list", "--compute")} >= {
        *("north", "south")
    }
    assert cloud.openstack("limits", "show", "--absolute")
    assert "403" in cloud.refusal("hypervisor", "list")


def test_keypairs_and_quotas(cloud: RunningCloud) -> None:
    assert "PRIVATE KEY" in cloud.say("keypair", "create", "mykey")
    assert [key["Name"] for key in cloud.openstack("keypair", "list")] == ["mykey"]
    server = boot(cloud, "keyed", "--key-name", "mykey")
    assert server["key_name"] == "mykey"
    cloud.say("keypair", "delete", "mykey")
    cloud.say("quota", "set", "--instances", "7", "demo", cloud=ADMIN)
    too_many = ("--flavor", "m1.tiny", "--image", "tick", "--no-network", "--min", "20", "--max", "20", "many")
    assert "403" in cloud.refusal("server", "create", *too_many)
    shown = cloud.openstack("quota", "show", "--compute", "demo", cloud=ADMIN)
    assert {line["Resource"]: line["Limit"] for line in shown}["instances"] == 7
    cloud.say("quota", "delete", "--compute", "demo", cloud=ADMIN)
    cloud.say("server", "delete", "--wait", "keyed")


def test_aggregates(cloud: RunningCloud) -> None:
    cloud.say("aggregate", "create", "--property", "ssd=true", "fast", cloud=ADMIN)
    cloud.say("aggregate", "add", "host", "fast", "n1", cloud=ADMIN)
    shown = cloud.openstack("aggregate", "show", "fast", cloud=ADMIN)
    assert (shown["hosts"], shown["properties"]) == (["n1"], {"ssd": "true"})
    cloud.say("aggregate", "remove", "host", "fast", "n1", cloud=ADMIN)
    cloud.say("aggregate", "delete", "fast", cloud=ADMIN)
    assert "fast" not in {each["Name"] for each in cloud.openstack("aggregate", "list", cloud=ADMIN)}


def test_images_are_uploaded_saved_and_made_of_servers(cloud: RunningCloud, tmp_path: Any) -> None:
    file = tmp_path / "disk.raw"
    file.write_bytes(b"\x55" * 2_000_000)
    made = cloud.openstack("image", "create", "--disk-format", "raw", "--file", str(file), "mine")
    assert made["name"] == "mine"
    saved = tmp_path / "saved.raw"
    cloud.say("image", "save", "--file", str(saved), "mine")
    assert saved.read_bytes() == file.read_bytes()
    boot(cloud, "pictured")
    cloud.say("server", "image", "create", "--name", "picture", "--wait", "pictured")
    assert {image["Name"] for image in cloud.openstack("image", "list")} >= {"mine", "picture", "tick"}
    cloud.say("image", "delete", "mine", "picture")
    cloud.say("server", "delete", "--wait", "pictured")


def test_a_revoked_token_opens_nothing(cloud: RunningCloud) -> None:
    token = cloud.openstack("token", "issue")["id"]
    url = cloud.home.running().url
    with_token = ("openstack", "--os-auth-type", "token", "--os-auth-url", f"{url}/identity/v3", "--os-token", token)
    # The token's project: a scope has to be named again.
    scope = ("--os-project-name", "demo", "--os-project-domain-id", "default", "--os-region-name", "RegionOne")
    assert cloud.run(*with_token, *scope, "server", "list").returncode == 0
    cloud.say("token", "revoke", token)
    refused = cloud.run(*with_token, *scope, "server", "list")
    assert refused.returncode != 0
    assert "401" in refused.stderr


def test_placement_is_read_by_its_own_client(cloud: RunningCloud) -> None:
    server = boot(cloud, "placed")["id"]
    host = cloud.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"]
    providers = {each["name"]: each["uuid"] for each in cloud.openstack("resource", "provider", "list", cloud=ADMIN)}
    assert set(providers) == {"n1", "n2", "s1", "s2"}
    inventory = cloud.openstack("resource", "provider", "inventory", "list", providers[host], cloud=ADMIN)
    assert {each["resource_class"]: each["total"] for each in inventory} == {
        "VCPU": 8,
        "MEMORY_MB": 16384,
        "DISK_GB": 200,
    }
    assert cloud.openstack("resource", "provider", "usage", "show", providers[host], cloud=ADMIN)
    [allocation] = cloud.openstack("resource", "provider", "allocation", "show", server, cloud=ADMIN)
    assert allocation["resource_provider"] == providers[host]
    assert allocation["resources"] == {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
    candidates = ("allocation", "candidate", "list", "--resource", "VCPU=1", "--resource", "MEMORY_MB=64")
    assert cloud.openstack(*candidates, "--os-placement-api-version", "1.29", cloud=ADMIN)
    cloud.say("server", "delete", "--wait", server)
    assert cloud.openstack("resource", "provider", "allocation", "show", server, cloud=ADMIN) == []


SDK_STORY = """
import openstack

mine, admins = openstack.connect(cloud="whimbrel"), openstack.connect(cloud="whimbrel-admin")
image, flavor, larger = mine.image.find_image("tick"), *map(mine.compute.find_flavor, ("m1.tiny", "m1.small"))
server = mine.compute.create_server(name="sdk", image_id=image.id, flavor_id=flavor.id, networks="none")
server = mine.compute.wait_for_server(server, wait=None)
mine.compute.resize_server(server, larger)
server = mine.compute.wait_for_server(server, status="VERIFY_RESIZE", wait=None)
mine.compute.confirm_server_resize(server)
server = mine.compute.wait_for_server(server, wait=None)
assert server.flavor.name == "m1.small", server.flavor
admins.compute.migrate_server(server)
server = mine.compute.wait_for_server(server, status="VERIFY_RESIZE", wait=None)
mine.compute.revert_server_resize(server)
server = mine.compute.wait_for_server(server, wait=None)
assert sorted(each.status for each in admins.compute.migrations(instance_uuid=server.id)) == ["confirmed", "reverted"]
assert {each.action for each in mine.compute.server_actions(server)} >= {"create", "resize", "migrate"}
mine.compute.set_server_metadata(server, a="b")
assert mine.compute.get_server_metadata(server).metadata == {"a": "b"}
mine.compute.add_tag_to_server(server, "t") if hasattr(mine.compute, "add_tag_to_server") else None
assert [each.name for each in mine.compute.servers()].count("sdk") == 1
mine.compute.delete_server(server)
mine.compute.wait_for_delete(server, wait=None)
print("well")
"""


def test_the_sdk_tells_the_same_story(cloud: RunningCloud) -> None:
    assert cloud.python(SDK_STORY).strip() == "well"


def test_a_project_is_cleaned_up(cloud: RunningCloud) -> None:
    cloud.openstack("project", "create", "left", cloud=ADMIN)
    cloud.say("role", "add", "--project", "left", "--user", "admin", "admin", cloud=ADMIN)
    there = ("--os-project-name", "left")

    def make(*words: str) -> Any:
        return cloud.openstack(*there, *words, cloud=ADMIN)

    make("network", "create", "net")
    make("subnet", "create", "--network", "net", "--subnet-range", "10.9.0.0/24", "subnet")
    make("router", "create", "router")
    cloud.say(*there, "router", "add", "subnet", "router", "subnet", cloud=ADMIN)
    make("volume", "create", "--size", "1", "volume")
    kept = make("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--network", "net", "--wait", "one")
    assert kept["status"] == "ACTIVE"
    cloud.say(*there, "project", "cleanup", "--auto-approve", "--auth-project", cloud=ADMIN)
    project = cloud.openstack("project", "show", "left", cloud=ADMIN)["id"]
    for kind in ("server", "volume"):
        assert cloud.openstack(*there, kind, "list", cloud=ADMIN) == []
    for kind in ("network", "router", "port"):
        assert cloud.openstack(*there, kind, "list", "--project", project, cloud=ADMIN) == []
