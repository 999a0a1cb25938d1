"""Volumes of the embedded service: made, listed, changed, enlarged, copied and deleted, as Cinder's clients expect."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.api.volume_cloud import IMAGE, VolumeCloud, volume_cloud
from whimbrel.embedded.volume.app import ROUTES
from whimbrel.embedded.volume.microversions import LEAST, MICROVERSIONS, MOST
from whimbrel.sim.world.images import MemoryImages

GIB = 1 << 30


def action(name: str, **fields: Any) -> dict[str, Any]:
    return {name: fields}


async def test_a_volume_is_made_shown_changed_and_deleted(cloud: VolumeCloud, tmp_path: Path) -> None:
    requested = {
        "size": 2,
        "name": "disk",
        "description": "of ours",
        "metadata": {"a": "b"},
        "availability_zone": "north",
    }
    answer = await cloud.ask("ann", "POST", "/volumes", {"volume": requested})
    assert answer.status_code == 202
    assert answer.headers["OpenStack-API-Version"] == "volume 3.70"
    made = answer.json()["volume"]
    assert (made["status"], made["size"], made["availability_zone"]) == ("creating", 2, "north")
    await cloud.worker.settle()
    shown = await cloud.show(made["id"])
    assert shown["status"] == "available"
    assert shown["metadata"] == {"a": "b"}
    assert (shown["bootable"], shown["volume_type"], shown["attachments"]) == ("false", "__DEFAULT__", [])
    file = cloud.service.files.volume(made["id"])
    assert file.stat().st_size == 2 * GIB
    assert file.stat().st_blocks < 100  # it is sparse
    changed = {"volume": {"name": "ünïcode \U0001f980", "description": None}}
    renamed = (await cloud.done("root", "PUT", f"/volumes/{made['id']}", changed))["volume"]
    assert renamed["name"] == changed["volume"]["name"]
    assert not any(name.startswith("os-vol-") for name in renamed)
    assert (await cloud.ask("ann", "DELETE", f"/volumes/{made['id']}")).status_code == 202
    assert await cloud.status(made["id"]) == "deleting"
    await cloud.worker.settle()
    await cloud.refused(404, "ann", "GET", f"/volumes/{made['id']}")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "requested",
    [
        {},
        {"size": 0},
        {"size": -1},
        {"size": "two"},
        {"size": 1.5},
        {"size": True},
        {"size": 2**31},
        {"size": 10**30},
        {"size": 1, "name": "n" * 256},
        {"size": 1, "description": 5},
        {"size": 1, "metadata": {"a": 1}},
        {"size": 1, "metadata": {"": "b"}},
        {"size": 1, "metadata": {"a": "b" * 256}},
        {"size": 1, "availability_zone": "nowhere"},
        {"size": 1, "snapshot_id": "no id"},
        {"size": 1, "imageRef": "no image"},
        {"size": 1, "multiattach": True},
        {"size": 1, "backup_id": "b"},
        {"size": 1, "name": "a\x00b"},
        {"size": 1, "unknown": 1},
    ],
)
async def test_a_volume_that_cannot_be_is_refused(cloud: VolumeCloud, requested: dict[str, Any]) -> None:
    assert await cloud.refused(400, "ann", "POST", "/volumes", {"volume": requested})
    assert (await cloud.done("ann", "GET", "/volumes"))["volumes"] == []


async def test_the_first_volumes_of_a_new_cloud_may_come_all_at_once(cloud: VolumeCloud) -> None:
    requested = {"volume": {"size": 1}}
    answers = await asyncio.gather(*(cloud.ask("ann", "POST", "/volumes", requested) for _ in range(8)))
    assert [answer.status_code for answer in answers] == [202] * 8
    [kind] = {answer.json()["volume"]["volume_type"] for answer in answers}
    assert kind == "__DEFAULT__"


async def test_size_may_be_written_as_text_and_unknown_fields_are_old(cloud: VolumeCloud) -> None:
    requested = {"volume": {"size": "1", "unknown": 1}}
    assert (await cloud.done("ann", "POST", "/volumes", requested, version="3.52"))["volume"]["size"] == 1
    await cloud.refused(404, "ann", "POST", "/volumes", {"volume": {"size": 1, "volume_type": "none"}})


async def test_everybody_sees_his_own_and_an_administrator_all(cloud: VolumeCloud) -> None:
    anns, bobs = await cloud.volume("ann", name="a"), await cloud.volume("bob", name="b")

    async def names(who: str, **query: str) -> list[str]:
        return sorted(each["name"] for each in (await cloud.done(who, "GET", "/volumes", **query))["volumes"])

    assert await names("ann", all_tenants="1") == ["a"]
    assert await names("eve") == ["a"]
    assert await names("root") == []
    assert await names("root", all_tenants="1") == ["a", "b"]
    assert await names("root", all_tenants="True", project_id="p2") == ["b"]
    await cloud.refused(404, "ann", "GET", f"/volumes/{bobs}")
    await cloud.refused(404, "ann", "DELETE", f"/volumes/{bobs}")
    await cloud.refused(403, "eve", "DELETE", f"/volumes/{anns}")
    assert "os-vol-host-attr:host" in await cloud.show(anns, "root")
    assert "os-vol-host-attr:host" not in await cloud.show(anns)
    answer = await cloud.ask("nobody", "GET", "/volumes")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, 401)


async def test_a_project_may_stand_in_the_path(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    assert (await cloud.done("ann", "GET", f"/p1/volumes/{volume}"))["volume"]["id"] == volume
    assert "another project" in await cloud.refused(400, "ann", "GET", f"/p2/volumes/{volume}")
    made = (await cloud.done("nova", "POST", "/p1/volumes", {"volume": {"size": 1}}))["volume"]
    assert not [name for name in made if name.startswith("os-vol-")]  # as in Cinder
    assert (await cloud.show(made["id"]))["os-vol-tenant-attr:tenant_id"] == "p1"


async def test_lists_are_narrowed_sorted_and_paged(cloud: VolumeCloud) -> None:
    for name, size, metadata in (("b", 3, {"k": "1"}), ("a", 2, {"k": "1", "l": "2"}), ("c", 1, {})):
        await cloud.volume(name=name, size=size, metadata=metadata)

    async def names(**query: str) -> list[str]:
        found = await cloud.done("ann", "GET", "/volumes/detail", **query)
        return [each["name"] for each in found["volumes"]]

    assert await names(sort="name:asc") == ["a", "b", "c"]
    assert await names(sort_key="size", sort_dir="asc") == ["c", "a", "b"]
    assert await names(name="a") == ["a"]
    assert await names(status="available", sort="name:desc") == ["c", "b", "a"]
    assert await names(status="error") == []
    assert await names(bootable="false", sort="name") == ["c", "b", "a"]
    assert await names(metadata="{'k': '1'}", sort="name:asc") == ["a", "b"]
    assert await names(metadata="{'k': '1', 'l': '2'}") == ["a"]
    page = await cloud.done("ann", "GET", "/volumes", sort="name:asc", limit="2", with_count="true")
    assert [each["name"] for each in page["volumes"]] == ["a", "b"]
    assert page["count"] == 3
    [following] = page["volumes_links"]
    headers = {"X-Auth-Token": "ann"}
    rest = (await cloud.client.get(following["href"], headers=headers)).json()
    assert [each["name"] for each in rest["volumes"]] == ["c"]
    assert "volumes_links" not in rest
    summary = (await cloud.done("ann", "GET", "/volumes/summary"))["volume-summary"]
    assert summary == {"total_count": 3, "total_size": 6, "metadata": {"k": ["1"], "l": ["2"]}}
    for bad in (
        {"limit": "-1"},
        {"limit": "x"},
        {"sort": "shoe:asc"},
        {"sort": "name:up"},
        {"metadata": "{"},
        {"bootable": "?"},
    ):
        await cloud.refused(400, "ann", "GET", "/volumes", **bad)
    await cloud.refused(404, "ann", "GET", "/volumes", marker="nothing")
    await cloud.refused(400, "ann", "GET", "/volumes", **{"name~": "a"})
    assert (await cloud.done("ann", "GET", "/volumes", **{"version": "3.30", "name~": "a"}))["volumes"]


async def test_what_a_volume_shows_follows_the_version(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()

    async def shown(version: str, who: str = "root") -> Any:
        return (await cloud.done(who, "GET", f"/volumes/{volume}", version=version))["volume"]

    assert "shared_targets" not in await shown("3.47")
    assert (await shown("3.48"))["shared_targets"] is False
    assert (await shown("3.69"))["shared_targets"] is None
    assert "cluster_name" not in await shown("3.60")
    assert (await shown("3.61"))["cluster_name"] is None
    assert "cluster_name" not in await shown("3.61", "ann")
    assert "consumes_quota" not in await shown("3.64")
    assert (await shown("3.65"))["consumes_quota"] is True


async def test_versions_are_negotiated(cloud: VolumeCloud) -> None:
    answer = await cloud.client.get("/v3/volumes", headers={"X-Auth-Token": "ann"})
    assert answer.headers["OpenStack-API-Version"] == "volume 3.0"
    both = {"X-Auth-Token": "ann", "OpenStack-API-Version": "compute 2.90, volume 3.27"}
    assert (await cloud.client.get("/v3/volumes", headers=both)).headers["OpenStack-API-Version"] == "volume 3.27"
    assert "3.70" in await cloud.refused(406, "ann", "GET", "/volumes", version="3.71")
    await cloud.refused(400, "ann", "GET", "/volumes", version="three")
    assert (await cloud.client.get("/")).status_code == 300
    [v3] = (await cloud.client.get("/v3/")).json()["versions"]
    assert (v3["id"], v3["version"], v3["min_version"]) == ("v3.0", "3.70", "3.0")
    await cloud.refused(404, "ann", "GET", "/attachments", version="3.26")


async def test_what_is_not_served_is_not_there(cloud: VolumeCloud) -> None:
    for path in ("/backups/1", "/os-volume-transfer/1", "/nothing"):
        answer = await cloud.ask("root", "GET", path)
        assert answer.status_code == 404


@pytest.mark.parametrize(
    ("path", "kind", "what"),
    [
        ("os-volume-transfer", "transfers", "Transfers of volumes"),
        ("volume-transfers", "transfers", "Transfers of volumes"),
        ("groups", "groups", "Groups of volumes"),
        ("group_types", "group_types", "Groups of volumes"),
        ("group_snapshots", "group_snapshots", "Groups of volumes"),
        ("backups", "backups", "Backups of volumes"),
        ("qos-specs", "qos_specs", "QoS specifications of volume types"),
        ("messages", "messages", "Messages"),
    ],
)
async def test_what_is_not_supported_is_listed_and_refused_by_name(
    cloud: VolumeCloud, path: str, kind: str, what: str
) -> None:
    for detail in ("", "/detail"):
        answer = await cloud.ask("ann", "GET", f"/{path}{detail}", version="3.55")
        assert (answer.status_code, answer.json()) == (200, {kind: []})
    said = await cloud.refused(400, "ann", "POST", f"/{path}", {kind[:-1]: {}})
    assert said == f"{what} are not supported by this volume service."


async def test_transfers_with_snapshots_have_a_version(cloud: VolumeCloud) -> None:
    await cloud.refused(404, "ann", "GET", "/volume-transfers", version="3.54")


async def test_no_type_is_encrypted_and_no_project_has_its_own_default(cloud: VolumeCloud) -> None:
    [kind] = (await cloud.done("ann", "GET", "/types"))["volume_types"]
    path = f"/types/{kind['id']}/encryption"
    assert await cloud.done("root", "GET", path) == {}
    assert "Encrypted volumes" in await cloud.refused(400, "root", "POST", path, {"encryption": {}})
    await cloud.refused(404, "root", "GET", "/types/x/encryption")
    assert await cloud.done("root", "GET", "/default-types") == {"default_types": []}
    wanted = {"default_type": {"volume_type": kind["id"]}}
    assert "single projects" in await cloud.refused(400, "root", "PUT", "/default-types/p1", wanted)


async def test_filters_of_lists_are_listed_as_they_are(cloud: VolumeCloud) -> None:
    found = (await cloud.done("ann", "GET", "/resource_filters"))["resource_filters"]
    assert [each["resource"] for each in found] == ["volume", "snapshot", "attachment"]
    for name in found[0]["filters"]:
        value = "{}" if name == "metadata" else "1"
        await cloud.done("ann", "GET", "/volumes", **{name: value})
    assert (await cloud.done("ann", "GET", "/resource_filters", resource="snapshot"))["resource_filters"] == [found[1]]


async def test_a_host_shows_what_it_can_do(cloud: VolumeCloud) -> None:
    shown = await cloud.done("root", "GET", "/capabilities/nova@files")
    assert (shown["storage_protocol"], shown["vendor_name"], shown["properties"]) == ("nbd", "Whimbrel", {})
    await cloud.refused(404, "root", "GET", "/capabilities/other@files")


async def test_a_volume_of_an_image_has_its_bytes(cloud: VolumeCloud) -> None:
    volume = await cloud.volume(imageRef=IMAGE)
    shown = await cloud.show(volume)
    assert (shown["status"], shown["bootable"]) == ("available", "true")
    assert shown["volume_image_metadata"]["image_id"] == IMAGE
    assert cloud.content(volume).startswith(b"ticktick")
    assert cloud.service.files.volume(volume).stat().st_size == GIB
    copy = (await cloud.ask("ann", "POST", "/volumes", {"volume": {"source_volid": volume, "size": 2}})).json()
    assert "being made" in await cloud.refused(400, "ann", "DELETE", f"/volumes/{volume}")
    copy = copy["volume"]["id"]
    await cloud.worker.settle()
    cloud.write(volume, b"changed!")
    assert cloud.content(copy).startswith(b"ticktick")
    assert (await cloud.show(copy))["bootable"] == "true"
    await cloud.refused(400, "ann", "POST", "/volumes", {"volume": {"source_volid": copy, "size": 1}})


async def test_a_snapshot_keeps_what_was(cloud: VolumeCloud, tmp_path: Path) -> None:
    volume = await cloud.volume()
    cloud.write(volume, b"first")
    requested = {"volume_id": volume, "name": "then", "metadata": {"a": "b"}}
    answer = await cloud.ask("ann", "POST", "/snapshots", {"snapshot": requested})
    assert answer.status_code == 202
    snapshot = answer.json()["snapshot"]["id"]
    await cloud.worker.settle()
    shown = (await cloud.done("ann", "GET", f"/snapshots/{snapshot}"))["snapshot"]
    assert (shown["status"], shown["size"], shown["metadata"]) == ("available", 1, {"a": "b"})
    cloud.write(volume, b"second")
    again = await cloud.volume(snapshot_id=snapshot, size=None)
    assert cloud.content(again).startswith(b"first")
    assert "snapshots" in await cloud.refused(400, "ann", "DELETE", f"/volumes/{volume}")
    await cloud.refused(404, "bob", "GET", f"/snapshots/{snapshot}")
    [listed] = (await cloud.done("ann", "GET", "/snapshots", volume_id=volume))["snapshots"]
    assert listed["id"] == snapshot
    assert (await cloud.done("ann", "GET", "/snapshots/detail", status="error"))["snapshots"] == []
    await cloud.done("ann", "PUT", f"/snapshots/{snapshot}", {"snapshot": {"name": "before"}})
    await cloud.done("ann", "POST", f"/snapshots/{snapshot}/metadata", {"metadata": {"c": "d"}})
    assert (await cloud.done("ann", "GET", f"/snapshots/{snapshot}/metadata"))["metadata"] == {"a": "b", "c": "d"}
    await cloud.done("ann", "DELETE", f"/volumes/{volume}", cascade="true")
    for gone in (f"/volumes/{volume}", f"/snapshots/{snapshot}"):
        await cloud.refused(404, "ann", "GET", gone)
    assert os.listdir(tmp_path) == [f"volume-{again}"]


async def test_a_snapshot_is_one_of_a_volume(cloud: VolumeCloud) -> None:
    await cloud.refused(404, "ann", "POST", "/snapshots", {"snapshot": {"volume_id": None}})
    for nothing in ({}, {"volume_id": ""}, {"volume_id": 1}):
        await cloud.refused(400, "ann", "POST", "/snapshots", {"snapshot": nothing})


async def test_a_snapshot_is_deleted(cloud: VolumeCloud, tmp_path: Path) -> None:
    volume = await cloud.volume()
    made = await cloud.done("ann", "POST", "/snapshots", {"snapshot": {"volume_id": volume}})
    assert (await cloud.ask("ann", "DELETE", f"/snapshots/{made['snapshot']['id']}")).status_code == 202
    await cloud.worker.settle()
    await cloud.done("ann", "DELETE", f"/volumes/{volume}")
    assert os.listdir(tmp_path) == []
    await cloud.refused(404, "ann", "POST", "/snapshots", {"snapshot": {"volume_id": volume}})


async def test_a_volume_is_enlarged_and_never_made_smaller(cloud: VolumeCloud) -> None:
    volume = await cloud.volume(size=2)
    cloud.write(volume, b"kept")
    path = f"/volumes/{volume}/action"
    for size in (2, 1):
        await cloud.refused(400, "ann", "POST", path, action("os-extend", new_size=size))
    for size, said in (
        (0, "0 is less than the minimum of 1"),
        ("-1", "-1 is less than the minimum of 1"),
        ("x", "no whole"),
    ):
        refusal = await cloud.refused(400, "ann", "POST", path, action("os-extend", new_size=size))
        assert refusal.startswith(
            f"Invalid input for field/attribute new_size. Value: {size}. "
        )  # cinderclient shows it
        assert said in refusal
    for size in (True, 2**31, "9" * 30, 1.5, "٣", None):
        await cloud.refused(400, "ann", "POST", path, action("os-extend", new_size=size))
    await cloud.refused(413, "ann", "POST", path, action("os-extend", new_size=5000))
    await cloud.done("ann", "POST", path, action("os-extend", new_size="3"))  # digits, too
    assert ((await cloud.show(volume))["size"], await cloud.status(volume)) == (3, "available")
    assert cloud.service.files.volume(volume).stat().st_size == 3 * GIB
    assert cloud.content(volume).startswith(b"kept")
    assert cloud.events == [], "no server has it"


async def test_actions(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    path = f"/volumes/{volume}/action"
    await cloud.done("ann", "POST", path, action("os-reserve"))
    assert await cloud.status(volume) == "attaching"
    await cloud.refused(400, "ann", "POST", path, action("os-reserve"))
    await cloud.refused(400, "ann", "DELETE", f"/volumes/{volume}")
    await cloud.done("ann", "POST", path, {"os-unreserve": None})
    await cloud.done("ann", "POST", path, action("os-set_bootable", bootable=True))
    assert (await cloud.show(volume))["bootable"] == "true"
    await cloud.done("ann", "POST", path, action("os-update_readonly_flag", readonly="true"))
    assert (await cloud.show(volume))["metadata"] == {"readonly": "True"}
    await cloud.done("ann", "POST", path, action("os-update_readonly_flag", readonly=False))
    assert (await cloud.show(volume))["metadata"] == {"readonly": "False"}
    await cloud.done("ann", "POST", path, action("os-update_readonly_flag", readonly=True))
    await cloud.done("ann", "PUT", f"/volumes/{volume}/metadata", {"metadata": {"a": "b"}})
    assert (await cloud.show(volume))["metadata"] == {"a": "b", "readonly": "True"}
    await cloud.refused(403, "ann", "POST", path, action("os-reset_status", status="error"))
    await cloud.done("root", "POST", path, action("os-reset_status", status="error"))
    assert await cloud.status(volume) == "error"
    for status in ("fine", "deleting", "creating"):  # the latter two would order a work
        await cloud.refused(400, "root", "POST", path, action("os-reset_status", status=status))
    for gone in ("os-attach", "os-detach", "os-initialize_connection"):
        assert "attachments" in await cloud.refused(400, "ann", "POST", path, action(gone))
        await cloud.refused(404, "ann", "POST", "/volumes/none/action", action(gone))
    await cloud.refused(400, "ann", "POST", path, action("os-dance"))
    await cloud.refused(400, "ann", "POST", path, {})
    await cloud.done("root", "POST", path, action("os-force_delete"))
    await cloud.refused(404, "ann", "GET", f"/volumes/{volume}")


@pytest.mark.long
async def test_a_volume_becomes_an_image(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    cloud.write(volume, b"a disk")
    path = f"/volumes/{volume}/action"
    requested = {"image_name": "taken", "disk_format": "raw", "container_format": "bare"}
    made = (await cloud.done("ann", "POST", path, {"os-volume_upload_image": requested}))["os-volume_upload_image"]
    assert made["status"] == "uploading"
    image = await cloud.service.images.show(made["image_id"])
    assert (image.status, image.size_bytes, image.name) == ("active", GIB, "taken")
    assert await cloud.status(volume) == "available"
    await cloud.refused(400, "ann", "POST", path, {"os-volume_upload_image": {**requested, "disk_format": "vmdk"}})


async def test_image_metadata_is_changed(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    path = f"/volumes/{volume}/action"
    await cloud.done("ann", "POST", path, {"os-set_image_metadata": {"metadata": {"os": "tick", "x": "y"}}})
    await cloud.done("ann", "POST", path, {"os-unset_image_metadata": {"key": "x"}})
    assert (await cloud.show(volume))["volume_image_metadata"] == {"os": "tick"}
    shown = await cloud.done("eve", "POST", path, {"os-show_image_metadata": {}})
    assert shown == {"metadata": {"os": "tick"}}
    await cloud.refused(404, "ann", "POST", path, {"os-unset_image_metadata": {"key": "x"}})


async def test_metadata(cloud: VolumeCloud) -> None:
    volume = await cloud.volume(metadata={"a": "1"})
    path = f"/volumes/{volume}/metadata"
    assert (await cloud.done("ann", "POST", path, {"metadata": {"b": "2"}}))["metadata"] == {"a": "1", "b": "2"}
    assert await cloud.done("ann", "PUT", f"{path}/b", {"meta": {"b": "3"}}) == {"meta": {"b": "3"}}
    assert await cloud.done("ann", "GET", f"{path}/b") == {"meta": {"b": "3"}}
    await cloud.refused(400, "ann", "PUT", f"{path}/b", {"meta": {"c": "3"}})
    await cloud.done("ann", "DELETE", f"{path}/a")
    await cloud.refused(404, "ann", "DELETE", f"{path}/a")
    assert (await cloud.done("ann", "PUT", path, {"metadata": {"z": "é"}}))["metadata"] == {"z": "é"}
    assert (await cloud.show(volume))["metadata"] == {"z": "é"}
    await cloud.refused(403, "eve", "POST", path, {"metadata": {"b": "2"}})
    await cloud.refused(413, "ann", "POST", path, {"metadata": {str(n): "" for n in range(200)}})


async def test_quotas_hold(cloud: VolumeCloud) -> None:
    await cloud.refused(403, "ann", "PUT", "/os-quota-sets/p1", {"quota_set": {"volumes": 5}})
    await cloud.done("root", "PUT", "/os-quota-sets/p1", {"quota_set": {"volumes": 2, "gigabytes": 5, "snapshots": 1}})
    others = {"backups": 1, "backup_gigabytes": 9, "groups": 2}
    kept = (await cloud.done("root", "PUT", "/os-quota-sets/p1", {"quota_set": others}))["quota_set"]
    assert {name: kept[name] for name in others} == others
    await cloud.refused(400, "root", "PUT", "/os-quota-sets/p1", {"quota_set": {"volumes_fast": 1}})
    await cloud.refused(400, "root", "PUT", "/os-quota-sets/p1", {"quota_set": {"volumes": -2}})
    first = await cloud.volume(size=2)
    assert "VolumeSizeExceedsAvailableQuota: " in await cloud.refused(
        413, "ann", "POST", "/volumes", {"volume": {"size": 4}}
    )
    await cloud.volume(size=1)
    assert "2 volumes" in await cloud.refused(413, "ann", "POST", "/volumes", {"volume": {"size": 1}})
    await cloud.done("ann", "POST", "/snapshots", {"snapshot": {"volume_id": first}})
    await cloud.refused(413, "ann", "POST", "/snapshots", {"snapshot": {"volume_id": first}})
    used = (await cloud.done("ann", "GET", "/os-quota-sets/p1", usage="true"))["quota_set"]
    assert used["volumes"] == {"limit": 2, "in_use": 2, "reserved": 0}
    assert used["gigabytes"] == {"limit": 5, "in_use": 5, "reserved": 0}
    await cloud.refused(403, "ann", "GET", "/os-quota-sets/p2")
    assert used["backups"] == {"limit": 1, "in_use": 0, "reserved": 0}  # clients read these although there are none
    absolute = (await cloud.done("ann", "GET", "/limits"))["limits"]["absolute"]
    assert (absolute["maxTotalBackups"], absolute["totalBackupGigabytesUsed"]) == (1, 0)
    assert (absolute["maxTotalVolumes"], absolute["totalGigabytesUsed"]) == (2, 5)
    await cloud.done("root", "DELETE", "/os-quota-sets/p1")
    assert (await cloud.done("ann", "GET", "/os-quota-sets/p1"))["quota_set"]["volumes"] == 20
    defaults = (await cloud.done("ann", "GET", "/os-quota-sets/p1/defaults"))["quota_set"]
    assert (defaults["snapshots"], defaults["groups"]) == (10, 0)
    assert (await cloud.done("root", "GET", "/os-quota-class-sets/default"))["quota_class_set"]["volumes"] == 20


async def test_limits_of_the_default_class_are_those_of_all_projects(cloud: VolumeCloud) -> None:
    path = "/os-quota-class-sets/default"
    changed = await cloud.done("root", "PUT", path, {"quota_class_set": {"volumes": "1", "groups": 4}})
    assert "id" not in changed["quota_class_set"]  # as in Cinder
    assert (await cloud.done("root", "GET", path))["quota_class_set"] == {"id": "default"} | changed["quota_class_set"]
    for shown in ("/os-quota-sets/p1", "/os-quota-sets/p1/defaults"):
        limits = (await cloud.done("ann", "GET", shown))["quota_set"]
        assert (limits["volumes"], limits["groups"], limits["snapshots"]) == (1, 4, 10)
    await cloud.volume(size=1)
    await cloud.refused(413, "ann", "POST", "/volumes", {"volume": {"size": 1}})
    await cloud.done("root", "PUT", "/os-quota-sets/p1", {"quota_set": {"volumes": 2}})
    await cloud.volume(size=1)
    other = await cloud.done("root", "PUT", "/os-quota-class-sets/gold", {"quota_class_set": {"volumes": 9}})
    assert (other["quota_class_set"]["volumes"], other["quota_class_set"]["groups"]) == (9, 4)
    assert (await cloud.done("ann", "GET", "/os-quota-sets/p1"))["quota_set"]["volumes"] == 2
    for wrong in ({"volumes": -2}, {"volumes_fast": 1}, 1):
        await cloud.refused(400, "root", "PUT", path, {"quota_class_set": wrong})


async def test_types(cloud: VolumeCloud) -> None:
    many = {"name": "many", "extra_specs": {"multiattach": "<is> True", "hidden": "x"}}
    await cloud.refused(403, "ann", "POST", "/types", {"volume_type": many})
    made = (await cloud.done("root", "POST", "/types", {"volume_type": many}))["volume_type"]
    await cloud.refused(409, "root", "POST", "/types", {"volume_type": many})
    names = [each["name"] for each in (await cloud.done("ann", "GET", "/types"))["volume_types"]]
    assert names == ["__DEFAULT__", "many"]
    assert (await cloud.done("ann", "GET", f"/types/{made['id']}"))["volume_type"]["extra_specs"] == {
        "multiattach": "<is> True"
    }
    volume = await cloud.volume(volume_type="many")
    assert (await cloud.show(volume))["multiattach"] is True
    await cloud.refused(400, "root", "DELETE", f"/types/{made['id']}")
    specs = f"/types/{made['id']}/extra_specs"
    sent = {"extra_specs": {"speed": "high"}}
    assert await cloud.done("root", "POST", specs, sent) == sent
    changed = await cloud.done("root", "PUT", f"/types/{made['id']}", {"volume_type": {"description": "text"}})
    assert sorted(changed["volume_type"]) == ["description", "extra_specs", "id", "is_public", "name"]
    assert (await cloud.done("root", "PUT", f"{specs}/speed", {"speed": "low"})) == {"speed": "low"}
    await cloud.done("root", "DELETE", f"{specs}/hidden")
    assert (await cloud.done("root", "GET", specs))["extra_specs"] == {"multiattach": "<is> True", "speed": "low"}
    await cloud.done("ann", "DELETE", f"/volumes/{volume}")
    await cloud.done("root", "DELETE", f"/types/{made['id']}")
    assert (await cloud.done("ann", "GET", "/types/default"))["volume_type"]["name"] == "__DEFAULT__"


async def test_a_type_may_be_some_projects_only(cloud: VolumeCloud) -> None:
    private = {"name": "private", "os-volume-type-access:is_public": False}
    made = (await cloud.done("root", "POST", "/types", {"volume_type": private}))["volume_type"]
    path = f"/types/{made['id']}"
    await cloud.refused(404, "ann", "POST", "/volumes", {"volume": {"size": 1, "volume_type": "private"}})
    await cloud.done("root", "POST", f"{path}/action", {"addProjectAccess": {"project": "p1"}})
    await cloud.refused(409, "root", "POST", f"{path}/action", {"addProjectAccess": {"project": "p1"}})
    await cloud.volume(volume_type="private")
    [access] = (await cloud.done("root", "GET", f"{path}/os-volume-type-access"))["volume_type_access"]
    assert access["project_id"] == "p1"
    await cloud.refused(404, "bob", "GET", path)
    await cloud.done("root", "POST", f"{path}/action", {"removeProjectAccess": {"project": "p1"}})
    await cloud.refused(404, "ann", "GET", path)


async def test_places(cloud: VolumeCloud) -> None:
    zones = (await cloud.done("ann", "GET", "/os-availability-zone"))["availabilityZoneInfo"]
    assert [zone["zoneName"] for zone in zones] == ["nova", "north"]
    await cloud.refused(403, "ann", "GET", "/os-services")
    services = (await cloud.done("root", "GET", "/os-services"))["services"]
    assert [(each["host"], each["state"]) for each in services] == [("nova@files", "up"), ("north@files", "up")]
    for host in ("north@files", "north"):
        [found] = (await cloud.done("root", "GET", "/os-services", host=host))["services"]
        assert found["host"] == "north@files"
    for action_of_host in ("disable", "disable-log-reason", "freeze", "failover_host"):
        said = await cloud.refused(400, "root", "PUT", f"/os-services/{action_of_host}", {"host": "nova@files"})
        assert action_of_host in said
    for missing in ({"host": "none", "binary": "cinder-volume"}, {"host": "nova@files", "binary": "none"}):
        await cloud.refused(404, "root", "PUT", "/os-services/enable", missing)
    pools = (await cloud.done("root", "GET", "/scheduler-stats/get_pools", detail="true"))["pools"]
    assert pools[0]["capabilities"]["total_capacity_gb"] > 0
    aliases = {each["alias"] for each in (await cloud.done("ann", "GET", "/extensions"))["extensions"]}
    assert "os-volume-actions" in aliases


@pytest.mark.parametrize("row", [row for row in ROUTES if row[0] != "GET"], ids=lambda row: f"{row[0]} {row[1]}")
async def test_who_only_reads_changes_nothing(cloud: VolumeCloud, row: tuple[Any, ...]) -> None:
    method, path, *_ = row
    url = "/".join("x" if "{" in part else part for part in path.split("/"))
    body = {"os-set_bootable": {"bootable": True}} if url == "/volumes/x/action" else {}
    await cloud.refused(403, "eve", method, url, body)


async def test_a_path_without_an_id_is_not_that_of_the_list(cloud: VolumeCloud) -> None:
    for method in ("GET", "PUT", "DELETE"):
        await cloud.refused(404, "ann", method, "/volumes/", {"volume": {}})


ADMINS_ONLY = [
    ("POST", "/types"), ("PUT", "/types/x"), ("DELETE", "/types/x"), ("POST", "/types/x/action"),
    ("GET", "/types/x/os-volume-type-access"), ("POST", "/types/x/extra_specs"), ("DELETE", "/types/x/extra_specs/y"),
    ("PUT", "/os-quota-sets/p1"), ("DELETE", "/os-quota-sets/p1"), ("GET", "/os-quota-class-sets/default"),
    ("PUT", "/os-quota-class-sets/default"),
    ("GET", "/os-services"), ("PUT", "/os-services/disable"), ("GET", "/scheduler-stats/get_pools"),
    ("GET", "/capabilities/nova@files"), ("GET", "/types/x/encryption"), ("POST", "/types/x/encryption"),
    ("GET", "/default-types"), ("PUT", "/default-types/p1"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), ADMINS_ONLY)
async def test_some_things_are_for_administrators(cloud: VolumeCloud, method: str, path: str) -> None:
    await cloud.refused(403, "ann", method, path, {})
    assert (await cloud.ask("root", method, path, {})).status_code != 403


async def test_an_image_of_somebody_else_s_is_not_there(tmp_path: Path) -> None:
    images = MemoryImages({IMAGE: b"tick"})
    async with volume_cloud(tmp_path, images=images) as cloud:
        mine = await images.show(IMAGE)
        for owner, visibility, status in (
            ("p2", "private", 400),
            ("p2", "shared", 400),
            ("p2", "public", 202),
            ("p1", "private", 202),
        ):
            images._images[IMAGE] = msgspec.structs.replace(mine, owner=owner, visibility=visibility)
            answer = await cloud.ask("ann", "POST", "/volumes", {"volume": {"size": 1, "imageRef": IMAGE}})
            assert answer.status_code == status, (owner, visibility)


def test_the_microversions_are_in_order_and_served() -> None:
    assert list(MICROVERSIONS) == sorted(MICROVERSIONS)
    assert min(MICROVERSIONS) == LEAST
    assert max(MICROVERSIONS) <= MOST
    assert {since for *_, since in ROUTES} <= set(MICROVERSIONS)
