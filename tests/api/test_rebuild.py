"""Rebuilds: what may be asked for, by microversion, and what is preserved."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from tests.api.front import Front, fault
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.images import Image
from whimbrel.ports.services.volumes import Volume
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT

NEW_IMAGE = "33333333-3333-4333-8333-333333333335"
NEW_VOLUME = "77777777-7777-4777-8777-777777777779"
SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFwWGPmAcKsCx1Zo7zQ1zcSGhl2MGVBNjVFGPTrPQv8t me"


async def add_image(front: Front, **fields: Any) -> None:
    """Add an active image."""

    async def chunks() -> Any:
        yield b"tock"

    image = Image(id=NEW_IMAGE, name="new", status="queued", disk_format="raw", size_bytes=0, checksum=None, **fields)
    await front.world.images.create(image)
    await front.world.images.write(NEW_IMAGE, chunks())


async def rebuild(front: Front, server_id: str, image: str = IMAGE, *, minor: int = 104, **requested: Any) -> Any:
    answer = await front.act(server_id, {"rebuild": {"imageRef": image, **requested}}, minor=minor)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"].endswith(f"/servers/{server_id}")
    return answer.json()["server"]


async def record(front: Front, server_id: str) -> Server:
    return await lookup.find(front.world.cloud, server_id)  # type: ignore[arg-type]


async def test_a_server_is_rebuilt_from_another_image(front: Front) -> None:
    await add_image(front, properties={"os_distro": "tock"})
    server_id = await front.boot(metadata={"a": "1"}, user_data="YQ==")
    before = await record(front, server_id)
    answered = await rebuild(front, server_id, NEW_IMAGE, name="two", metadata={"b": "2"}, adminPass="secret")
    assert (answered["status"], answered["image"]["id"], answered["name"]) == ("REBUILD", NEW_IMAGE, "two")
    assert (answered["metadata"], answered["adminPass"], answered["user_data"]) == ({"b": "2"}, "secret", "YQ==")
    assert (await front.show(server_id))["image"]["id"] == IMAGE, "the record changes with success"
    await front.settle()
    shown = await front.show(server_id, who="admin")
    assert (shown["status"], shown["image"]["id"], shown["name"]) == ("ACTIVE", NEW_IMAGE, "two")
    after = await record(front, server_id)
    assert after.host == before.host
    assert after.slot != before.slot
    changed = {"name", "image_id", "image_properties", "metadata", "admin_pass", "slot"}
    changed |= {"launched_at", "updated_at", "generation"}
    kept = [name for name in Server.__struct_fields__ if getattr(before, name) == getattr(after, name)]
    assert set(Server.__struct_fields__) - set(kept) <= changed
    actions = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    assert [action["action"] for action in actions] == ["rebuild", "create"]


async def test_a_stopped_server_stays_stopped(front: Front) -> None:
    server_id = await front.boot()
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    await rebuild(front, server_id)
    await front.settle()
    assert (await front.show(server_id))["status"] == "SHUTOFF"


async def test_key_user_data_and_hostname_are_set_reset_and_preserved(front: Front) -> None:
    await front.ask("POST", "/os-keypairs", {"keypair": {"name": "mine", "public_key": SSH, "type": "ssh"}})
    server_id = await front.boot(user_data="YQ==")
    fault(await front.act(server_id, {"rebuild": {"imageRef": IMAGE, "key_name": "no"}}), "badRequest", 400)
    answered = await rebuild(front, server_id, key_name="mine", hostname="other")
    assert (answered["key_name"], answered["user_data"]) == ("mine", "YQ==")
    await front.settle()
    kept = await rebuild(front, server_id)
    assert (kept["key_name"], kept["user_data"], kept["OS-EXT-SRV-ATTR:hostname"]) == ("mine", "YQ==", "other")
    await front.settle()
    reset = await rebuild(front, server_id, key_name=None, user_data=None)
    assert (reset["key_name"], reset["user_data"]) == (None, None)
    await front.settle()
    now = await record(front, server_id)
    assert (now.key_name, now.key_data, now.user_data, now.hostname) == (None, None, None, "other")


async def test_the_answer_has_user_data_once(front: Front) -> None:
    server_id = await front.boot(user_data="YQ==")
    for minor in (57, 74, 75, 104):
        body = {"rebuild": {"imageRef": IMAGE}}
        answer = (await front.act(server_id, body, who="admin", minor=minor)).json()["server"]
        assert (answer["user_data"], "OS-EXT-SRV-ATTR:user_data" in answer) == ("YQ==", False)
        assert ("OS-EXT-SRV-ATTR:host" in answer) == (minor >= 75)
        await front.settle()


@pytest.mark.parametrize(
    ("minor", "key", "value"),
    [
        (18, "description", "d"),
        (53, "key_name", None),
        (56, "user_data", None),
        (62, "trusted_image_certificates", None),
        (89, "hostname", "abc"),
        (93, "hostname", "abc.example"),
        (57, "personality", []),
        (104, "nothing", 1),
    ],
)
async def test_keys_of_other_versions_are_refused(front: Front, minor: int, key: str, value: Any) -> None:
    server_id = await front.boot()
    body = {"rebuild": {"imageRef": IMAGE, key: value}}
    fault(await front.act(server_id, body, minor=minor), "badRequest", 400)
    other = minor + 1 if key not in ("personality", "nothing") else 56
    if key != "nothing":
        assert (await front.act(server_id, body, minor=other)).status_code == 202


@pytest.mark.parametrize("image", ["", "x", f"http://cloud/images/{IMAGE}", None])
async def test_an_image_is_named_by_its_id(front: Front, image: str | None) -> None:
    nowhere = "33333333-3333-4333-8333-000000000000"
    fault(await front.act(nowhere, {"rebuild": {"imageRef": image}}), "badRequest", 400)
    fault(await front.act(nowhere, {"rebuild": {"imageRef": IMAGE}}), "itemNotFound", 404)


@pytest.mark.parametrize(
    "requested",
    [
        {"trusted_image_certificates": ["one"]},
        {"imageRef": "33333333-3333-4333-8333-000000000000"},
        {"imageRef": None},
    ],
)
async def test_what_cannot_be_had_is_refused(front: Front, requested: dict[str, Any]) -> None:
    server_id = await front.boot()
    before = await front.show(server_id)
    fault(await front.act(server_id, {"rebuild": {"imageRef": IMAGE, **requested}}), "badRequest", 400)
    assert await front.show(server_id) == before


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"hw_numa_nodes": "1"}, "NUMA topology"),
        ({"hw_cpu_policy": "dedicated"}, "NUMA topology|PCPU"),
        ({"trait:X": "forbidden"}, "can have a trait 'required' only"),
    ],
)
async def test_an_image_that_needs_another_claim_is_refused(
    front: Front, properties: dict[str, str], reason: str
) -> None:
    await add_image(front, properties=properties)
    server_id = await front.boot()
    said = fault(await front.act(server_id, {"rebuild": {"imageRef": NEW_IMAGE}}), "badRequest", 400)
    assert re.search(reason, said), said


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"hw_vm_mode": "xen"}, "ImagePropertiesFilter: the image is for guests of the mode xen"),
        ({"trait:CUSTOM_GOLD": "required"}, "it lacks the trait CUSTOM_GOLD"),
    ],
)
async def test_a_host_that_must_not_run_the_image_keeps_the_server_as_it_is(
    front: Front, properties: dict[str, str], reason: str
) -> None:
    await add_image(front, properties=properties)
    server_id = await front.boot()
    before = await record(front, server_id)
    await rebuild(front, server_id, NEW_IMAGE)
    await front.settle()
    after = await record(front, server_id)
    assert replace(after, generation=0, updated_at=0.0) == replace(before, generation=0, updated_at=0.0)
    [run] = await front.world.cloud.journal.find(RunFilter(subject=after.id, sagas=["rebuild"]))
    assert reason in (run.message or "")


async def test_an_ephemeral_disk_cannot_be_preserved(front: Front) -> None:
    await rebuild(front, await front.boot(), preserve_ephemeral=True)  # there is none
    flavor = {"id": "e", "name": "e", "vcpus": 1, "ram": 64, "disk": 1, "OS-FLV-EXT-DATA:ephemeral": 1}
    assert (await front.ask("POST", "/flavors", {"flavor": flavor}, who="admin")).is_success
    await front.settle()
    server_id = await front.boot("two", flavorRef="e")
    body = {"rebuild": {"imageRef": IMAGE, "preserve_ephemeral": True}}
    assert "cannot be preserved" in fault(await front.act(server_id, body), "badRequest", 400)


async def test_a_server_on_a_volume_gets_a_new_guest_and_keeps_the_volume(front: Front) -> None:
    await add_image(front)
    volume = Volume(
        id=NEW_VOLUME, project_id=PROJECT, name="root", status="available", size_gib=1, zone="nova", is_bootable=True,
        image_metadata={"image_id": IMAGE},
    )  # fmt: skip
    front.world.remains.volumes.add_volume(volume)
    root = {"uuid": NEW_VOLUME, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
    server_id = await front.boot(imageRef="", block_device_mapping_v2=[root])
    before = await record(front, server_id)
    said = fault(await front.act(server_id, {"rebuild": {"imageRef": NEW_IMAGE}}, minor=92), "badRequest", 400)
    assert "different image for a volume-backed server" in said
    await rebuild(front, server_id, minor=92)
    await front.settle()
    after = await record(front, server_id)
    assert (after.vm_state, after.volumes, after.image_id) == ("active", before.volumes, None)
    assert after.slot != before.slot


async def volume_backed(front: Front, **fields: Any) -> str:
    """Boot a server from a volume that was made of IMAGE."""
    volume = Volume(
        id=NEW_VOLUME, project_id=PROJECT, name="root", status="available", size_gib=1, zone="nova", is_bootable=True,
        image_metadata={"image_id": IMAGE}, **fields,
    )  # fmt: skip
    front.world.remains.volumes.add_volume(volume)
    root = {"uuid": NEW_VOLUME, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
    return await front.boot(imageRef="", block_device_mapping_v2=[root])


@pytest.mark.parametrize("image", [IMAGE, NEW_IMAGE])
async def test_from_2_93_a_root_volume_is_made_anew(front: Front, image: str) -> None:
    await add_image(front, properties={"os_distro": "tock"}, min_disk_gib=1)
    server_id = await volume_backed(front)
    before = await record(front, server_id)
    answered = await rebuild(front, server_id, image, minor=93)
    assert (answered["status"], answered["image"]) == ("REBUILD", "")
    await front.settle()
    after = await record(front, server_id)
    assert (after.vm_state, after.image_id, after.fault) == ("active", None, None)
    assert after.image_properties == ({"os_distro": "tock"} if image == NEW_IMAGE else {})
    [was], [now] = before.volumes, after.volumes
    assert now == replace(was, attachment_id=now.attachment_id)
    assert now.attachment_id != was.attachment_id
    volume = await front.world.remains.volumes.volume(NEW_VOLUME)
    assert (volume.status, volume.image_metadata["image_id"]) == ("in-use", image)


async def test_a_root_volume_that_cannot_be_made_anew_leaves_the_server_in_error(front: Front) -> None:
    await add_image(front)
    server_id = await volume_backed(front)
    front.world.remains.volumes.unreadable_images.add(NEW_IMAGE)
    await rebuild(front, server_id, NEW_IMAGE)
    await front.settle()
    shown = await front.show(server_id)
    assert shown["status"] == "ERROR"
    reason = f"Volume {NEW_VOLUME} could not be made anew from image {NEW_IMAGE}: it is in status error."
    assert reason in shown["fault"]["message"]
    assert [guest.power for _, guest in front.world.simulated.guests()] == ["stopped"]


@pytest.mark.parametrize(
    ("volume", "image", "reason"),
    [
        ({}, {"min_disk_gib": 2}, "disk is too small"),
        ({}, {"min_ram_mib": 1 << 20}, "memory is too small"),
        ({"is_multiattach": True}, {}, "several servers"),
        ({}, {"properties": {"block_device_mapping": "[]"}}, "has no content"),
    ],
)
async def test_a_root_volume_that_the_image_does_not_fit_is_refused(
    front: Front, volume: dict[str, Any], image: dict[str, Any], reason: str
) -> None:
    await add_image(front, **image)
    server_id = await volume_backed(front, **volume)
    said = fault(await front.act(server_id, {"rebuild": {"imageRef": NEW_IMAGE}}), "badRequest", 400)
    assert reason in said


async def test_states_locks_and_roles(front: Front) -> None:
    server_id = await front.boot()
    body = {"rebuild": {"imageRef": IMAGE}}
    fault(await front.act(server_id, body, who="reader"), "forbidden", 403)
    assert (await front.act(server_id, {"lock": None})).status_code == 202
    fault(await front.act(server_id, body), "conflictingRequest", 409)
    assert (await front.act(server_id, {"unlock": None})).status_code == 202
    await rebuild(front, server_id)
    said = fault(await front.act(server_id, body), "conflictingRequest", 409)
    assert "task_state rebuilding" in said
    await front.settle()
    assert (await front.act(server_id, {"resize": {"flavorRef": "2"}})).status_code == 202
    await front.settle()
    said = fault(await front.act(server_id, body), "conflictingRequest", 409)
    assert "vm_state resized" in said


STRICT = Rules(cpu_allocation_ratio=1.0, refuse_undelivered_guest_data=True)


@pytest.mark.cloud(STRICT)
async def test_guest_data_is_refused_where_a_rule_says_so(front: Front) -> None:
    server_id = await front.boot()
    body = {"rebuild": {"imageRef": IMAGE, "adminPass": "secret"}}
    fault(await front.act(server_id, body), "badRequest", 400)


async def test_a_delete_meanwhile_ends_it(front: Front) -> None:
    server_id = await front.boot()
    await rebuild(front, server_id)
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    for _ in range(3):
        await front.settle()
        await reconcile(front.world.cloud, front.engine)
    fault(await front.ask("GET", f"/servers/{server_id}"), "itemNotFound", 404)
    assert front.world.simulated.guests() == []


async def test_the_image_decides_on_the_disk_config(front: Front) -> None:
    await add_image(front, properties={"auto_disk_config": "True"})
    server_id = await front.boot(imageRef=NEW_IMAGE)
    assert (await front.show(server_id))["OS-DCF:diskConfig"] == "AUTO"
    assert (await rebuild(front, server_id))["OS-DCF:diskConfig"] == "MANUAL"
    await front.settle()
    assert (await rebuild(front, server_id, NEW_IMAGE))["OS-DCF:diskConfig"] == "AUTO"
    await front.settle()
    server = await rebuild(front, server_id, NEW_IMAGE, **{"OS-DCF:diskConfig": "MANUAL"})
    assert server["OS-DCF:diskConfig"] == "MANUAL"


async def test_an_image_forbids_the_automatic_disk_config(front: Front) -> None:
    await add_image(front, properties={"auto_disk_config": "Disabled"})
    server_id, automatic = await front.boot(imageRef=NEW_IMAGE), {"OS-DCF:diskConfig": "AUTO"}
    assert (await front.show(server_id))["OS-DCF:diskConfig"] == "MANUAL"
    requested = {"name": "two", "flavorRef": "1", "imageRef": NEW_IMAGE, "networks": "none", **automatic}
    for refused in (
        await front.ask("POST", "/servers", {"server": requested}),
        await front.act(server_id, {"rebuild": {"imageRef": NEW_IMAGE, **automatic}}),
        await front.act(server_id, {"resize": {"flavorRef": "2", **automatic}}),
    ):
        sentence = f"Requested image {NEW_IMAGE} has automatic disk resize disabled."
        assert fault(refused, "badRequest", 400) == sentence
