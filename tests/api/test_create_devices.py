"""Servers created with networks, ports, security groups and volumes: what is understood, and what is refused why."""

from typing import Any

import pytest

from tests.api.devices import network, port, volume
from tests.api.front import OTHER_PROJECT, Front, fault
from tests.api.test_rebuild import NEW_IMAGE, add_image
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import RequestedNic, RequestedVolume
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.network import PortRequest
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT

REQUESTED = {"name": "web", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
NOWHERE = "99999999-9999-4999-8999-999999999999"


async def made(front: Front, *, minor: int = 104, **requested: Any) -> Server:
    """Create a server and give its record as it was recorded, before anything was done for it."""
    return await lookup.find(front.world.cloud, ServerId(await front.boot(settle=False, minor=minor, **requested)))


async def refused(front: Front, change: dict[str, Any], name: str, code: int, *, minor: int = 104) -> str:
    requested = {key: value for key, value in (REQUESTED | change).items() if value is not None}
    sentence = fault(await front.ask("POST", "/servers", {"server": requested}, minor=minor), name, code)
    assert (await front.get("/servers"))["servers"] == []
    return sentence


# Networks


async def test_a_network_a_port_and_an_address_are_what_the_server_is_made_with(front: Front) -> None:
    a, b = network(front), network(front, "other", "10.1.0.0/24", is_shared=True, project_id=OTHER_PROJECT)
    mine = port(front, a)
    requested = [
        {"uuid": a, "fixed_ip": "10.0.0.7", "tag": "t"},
        {"port": mine.id},
        {"uuid": b},
        {"port": None, "uuid": b},
    ]
    server = await made(front, networks=requested)
    assert server.requested_nics == (
        RequestedNic(network_id=a, fixed_ip="10.0.0.7", tag="t"),
        RequestedNic(network_id=a, port_id=mine.id),
        RequestedNic(network_id=b),
        RequestedNic(network_id=b),
    )
    await front.settle()
    shown = await front.show(server.id)
    assert [len(shown["addresses"][label]) for label in ("private", "other")] == [2, 2]
    assert shown["addresses"]["private"][0]["addr"] == "10.0.0.7"
    assert shown["security_groups"] == [{"name": "default"}]


async def test_an_address_on_a_network_of_others_is_not_chosen(front: Front) -> None:
    shared = network(front, is_shared=True, project_id=OTHER_PROJECT)
    gateway = [{"uuid": shared, "fixed_ip": "10.0.0.1"}]
    assert "choose an address" in await refused(front, {"networks": gateway}, "forbidden", 403)


async def test_without_a_word_it_is_the_one_network_that_there_is(front: Front) -> None:
    async def chosen(minor: int = 104, **requested: Any) -> list[str | None]:
        return [nic.network_id for nic in (await made(front, minor=minor, **requested)).requested_nics]

    assert await chosen(networks="auto") == []
    network(front, "bare", is_shared=True, subnets=())
    network(front, "outside", is_external=True)
    network(front, "theirs", project_id=OTHER_PROJECT)
    assert await chosen(networks="auto") == []
    shared = network(front, "shared", is_shared=True, project_id=OTHER_PROJECT)
    assert await chosen(networks="auto") == [shared]
    own = network(front)
    assert await chosen(networks="auto") == [own]
    assert await chosen(networks=[]) == [own]
    assert await chosen(networks="none") == []
    before = {"name": "web", "flavorRef": "1", "imageRef": IMAGE}
    answer = await front.ask("POST", "/servers", {"server": before}, minor=36)
    assert len((await lookup.find(front.world.cloud, answer.json()["server"]["id"])).requested_nics) == 1


async def test_of_several_networks_one_must_be_named(front: Front) -> None:
    network(front)
    network(front, "second")
    for networks, minor in (("auto", 37), ([], 104), ([], 1)):
        sentence = await refused(front, {"networks": networks}, "conflictingRequest", 409, minor=minor)
        assert sentence.startswith("Multiple possible networks found")


REQUEST = (PortRequest(id="r", resources={"NET_BW_EGR_KILOBIT_PER_SEC": 1}),)


async def test_networks_that_cannot_be_had_are_refused_with_the_reason(front: Front) -> None:
    a = network(front)
    bare, outside = network(front, "bare", subnets=()), network(front, "outside", is_external=True)
    theirs = network(front, "theirs", project_id=OTHER_PROJECT)
    mine, foreign = port(front, a), port(front, theirs, project_id=OTHER_PROJECT)
    wide = port(front, a, REQUEST)

    async def bad(networks: Any, sentence: str, minor: int = 104, **more: Any) -> None:
        assert sentence in await refused(front, {"networks": networks, **more}, "badRequest", 400, minor=minor)

    await bad([{"uuid": NOWHERE}], "Network 9999")
    await bad([{"uuid": theirs}], "could not be found")
    await bad([{"uuid": bare}], "requires a subnet")
    await bad([{"port": NOWHERE}], "Port")
    await bad([{"port": foreign.id}], "could not be found")
    await bad([{"port": mine.id}] * 2, "twice")
    await bad([{"port": mine.id, "fixed_ip": "10.0.0.9"}], "10.0.0.9")
    await bad([{"port": None}], "Bad network format")
    await bad([{"uuid": a, "tag": "t"}], "tag", minor=37)
    await bad([{"port": wide.id}], "2.72", minor=71)
    await bad([{"uuid": "none"}], "networks")
    await bad([{"port": mine.id}], "multiple instances", max_count=2)
    await bad([{"uuid": a, "fixed_ip": "10.0.0.9"}], "max_count", min_count=2)
    assert outside in await refused(front, {"networks": [{"uuid": outside}]}, "forbidden", 403)
    assert (await made(front, networks=[{"uuid": outside}], who="admin")).requested_nics[0].network_id == outside


async def test_a_port_that_is_in_use_is_a_conflict(front: Front) -> None:
    busy = port(front, network(front), device_id="somebody")
    sentence = await refused(front, {"networks": [{"port": busy.id}]}, "conflictingRequest", 409)
    assert sentence == f"Port {busy.id} is still in use."


# Security groups


async def test_security_groups_are_found_by_name_and_by_id(front: Front) -> None:
    service = front.world.remains.network
    web, twin, other = (
        service.add_security_group(PROJECT, "web"),
        *(service.add_security_group(PROJECT, "twin") for _ in range(2)),
    )
    a = network(front)
    groups = [{"name": "web"}, {"name": twin}, {"name": "web"}]
    server = await made(front, networks=[{"uuid": a}], security_groups=groups)
    assert server.security_groups == (web, twin)
    assert "security_groups" not in await front.show(server.id)  # no port has them yet: clients show what they sent
    await front.settle()
    assert (await front.show(server.id))["security_groups"] == [{"name": "web"}, {"name": "twin"}]
    [made_port] = await front.world.cloud.network.ports_of([server.id])
    assert made_port.security_groups == (web, twin)
    for none in ([{"name": "default"}], [{}]):
        assert (await made(front, security_groups=none)).security_groups == ()
    requested = REQUESTED | {"security_groups": [{"name": "twin"}]}
    assert "Multiple" in fault(await front.ask("POST", "/servers", {"server": requested}), "conflictingRequest", 409)
    requested = REQUESTED | {"security_groups": [{"name": "nothing"}]}
    assert "nothing" in fault(await front.ask("POST", "/servers", {"server": requested}), "badRequest", 400)
    assert other


# Volumes


def device(source: str, id: str | None = None, to: str | None = None, **more: Any) -> dict[str, Any]:
    return {"source_type": source, **({"uuid": id} if id else {}), **({"destination_type": to} if to else {}), **more}


def swap(size_mib: int | None) -> dict[str, Any]:
    return device("blank", None, "local", guest_format="swap", volume_size=size_mib)


LOCAL = device("image", IMAGE, "local", boot_index=0, delete_on_termination=True)


async def test_volumes_beside_a_local_root(front: Front) -> None:
    there, source = volume(front), volume(front, size_gib=5)
    front.world.remains.volumes.add_snapshot(NOWHERE, source)
    front.world.remains.volumes.types.add("fast")
    devices = [
        LOCAL,
        device("volume", there, "volume", tag="t", device_name="vdq", delete_on_termination="true"),
        device("blank", None, "volume", volume_size="3", boot_index=-1, volume_type="fast"),
        device("image", IMAGE, "volume", volume_size=4, boot_index=1),
        device("snapshot", NOWHERE, boot_index=None),
        {"no_device": True, "device_name": "vdz"},
    ]
    server = await made(front, block_device_mapping_v2=devices)
    assert (server.image_id, server.has_local_root) == (IMAGE, True)
    assert server.requested_volumes == (
        RequestedVolume(volume_id=there, size_gib=2, device="/dev/vdq", delete_on_termination=True, tag="t"),
        RequestedVolume(is_blank=True, size_gib=3, volume_type="fast"),
        RequestedVolume(image_id=IMAGE, size_gib=4, boot_index=1),
        RequestedVolume(snapshot_id=NOWHERE, size_gib=5),
    )


async def test_a_private_volume_type_is_for_its_projects(front: Front) -> None:
    front.world.remains.volumes.private_types["private"] = {OTHER_PROJECT}
    devices = [LOCAL, device("blank", None, "volume", volume_size=1, volume_type="private")]
    request = {"block_device_mapping_v2": devices}
    assert await refused(front, request, "badRequest", 400) == "Volume type private could not be found."
    for who in ("admin", f"member@{OTHER_PROJECT}"):
        answer = await front.ask("POST", "/servers", {"server": REQUESTED | request}, who=who)
        assert answer.status_code == 202, answer.text


ROOTS = (
    {"imageRef": ""},
    {"imageRef": None},
)


@pytest.mark.parametrize("change", ROOTS, ids=str)
async def test_a_server_that_boots_from_a_volume_has_no_image_and_needs_no_disk(
    front: Front, change: dict[str, Any]
) -> None:
    await front.world.cloud.flavors.create(Flavor(flavor_id="0", name="none", vcpus=1, memory_mib=512, root_gib=0), 0.0)
    root = volume(front, is_bootable=True, image_metadata={"min_disk": "1", "min_ram": "", "os": "x"})
    requested = {"name": "web", "flavorRef": "0", "networks": "none", **change}
    for devices in (
        {"block_device_mapping_v2": [device("volume", root, "volume", boot_index=0)]},
        {"block_device_mapping_v2": [device("image", IMAGE, "volume", boot_index="0", volume_size=1)]},
        {"block_device_mapping": [{"volume_id": root, "device_name": "vda"}]},
        {"imageRef": IMAGE, "block_device_mapping_v2": [device("blank", None, "volume", boot_index=0, volume_size=1)]},
    ):
        sent = {key: value for key, value in (requested | devices).items() if value is not None}
        answer = await front.ask("POST", "/servers", {"server": sent})
        assert answer.status_code == 202, answer.text
        record = await lookup.find(front.world.cloud, answer.json()["server"]["id"])
        assert not record.has_local_root
        image = (await front.show(record.id))["image"]
        assert (image and image["id"]) == (IMAGE if sent.get("imageRef") else "")


async def test_an_image_beside_a_root_volume_describes_the_server(front: Front) -> None:
    await add_image(front, properties={"hw_vif_model": "e1000"}, min_disk_gib=9)
    small = {
        "imageRef": NEW_IMAGE,
        "block_device_mapping_v2": [device("blank", None, "volume", boot_index=0, volume_size=1)],
    }
    assert "Volume is smaller" in await refused(front, small, "badRequest", 400)
    root = volume(front, image_metadata={"min_ram": "4096", "hw_vif_model": "ne2k_pci"})
    devices = [device("volume", root, "volume", boot_index=0)]
    server = await made(front, imageRef=NEW_IMAGE, block_device_mapping_v2=devices)
    assert server.image_properties == {"hw_vif_model": "e1000"}
    assert not server.has_local_root
    [listed] = (await front.get(f"/servers/detail?image={NEW_IMAGE}"))["servers"]
    assert listed["image"]["id"] == NEW_IMAGE


async def test_the_first_form_says_volumes_and_snapshots(front: Front) -> None:
    a, b = volume(front, is_bootable=True), volume(front)
    front.world.remains.volumes.add_snapshot(NOWHERE, b)
    old = [{"snapshot_id": NOWHERE, "device_name": "/dev/vdb"}, {"volume_id": a, "device_name": "vda"}]
    server = await made(front, imageRef="", block_device_mapping=old)
    assert server.requested_volumes == (
        RequestedVolume(snapshot_id=NOWHERE, size_gib=2, device="/dev/vdb"),
        RequestedVolume(volume_id=a, size_gib=2, boot_index=0, device="/dev/vda"),
    )
    beside = await made(front, block_device_mapping=old[:1])
    assert beside.image_id == IMAGE
    assert beside.requested_volumes[0].boot_index is None


async def test_ephemeral_and_swap_disks_may_be_asked_for_as_the_flavor_gives_them(front: Front) -> None:
    roomy = Flavor(flavor_id="9", name="roomy", vcpus=1, memory_mib=512, root_gib=1, ephemeral_gib=2, swap_mib=64)
    await front.world.cloud.flavors.create(roomy, 0.0)
    ephemeral = device("blank", None, "local", guest_format="ext4", volume_size=2, boot_index=-1)
    for devices, sentence in (
        ([LOCAL, swap(32)], "as the flavor says, 2 GiB and 64 MiB"),
        ([LOCAL, ephemeral | {"volume_size": 1}], "as the flavor says, 2 GiB and 64 MiB"),
        ([LOCAL, ephemeral, ephemeral], "Ephemeral disks"),
        ([LOCAL, ephemeral | {"guest_format": "xfs"}], "ext4"),
    ):
        change = {"flavorRef": "9", "block_device_mapping_v2": devices}
        assert sentence in await refused(front, change, "badRequest", 400)
    for devices in ([LOCAL, ephemeral, swap(64)], [LOCAL, swap(64), device("blank", None, "local")], [LOCAL]):
        server = await made(front, flavorRef="9", block_device_mapping_v2=devices)
        assert server.requested_volumes == ()


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"block_device_mapping": [{"volume_id": NOWHERE}], "block_device_mapping_v2": [LOCAL]}, "different"),
    ({"imageRef": ""}, "imageRef"),
    ({"block_device_mapping_v2": [device("blank", NOWHERE, "volume", volume_size=1)]}, "Invalid device UUID"),
    ({"block_device_mapping_v2": [device("volume", None, "volume")]}, "Missing device UUID"),
    ({"block_device_mapping_v2": [{"boot_index": 0}]}, "source_type"),
    ({"block_device_mapping_v2": [LOCAL, device("volume", NOWHERE, "local")]}, "to local"),
    ({"block_device_mapping_v2": [LOCAL, device("blank", None, "local", volume_size=1)]}, "Ephemeral disks"),
    ({"block_device_mapping_v2": [LOCAL, device("blank", None, "local")]}, "as the flavor says"),
    ({"block_device_mapping_v2": [LOCAL, swap(1)]}, "Swap drive"),
    ({"block_device_mapping_v2": [LOCAL, swap(1), swap(1)]}, "More than one swap"),
    ({"block_device_mapping_v2": [LOCAL, device("blank", None, "local", boot_index=1)]}, "nothing boots from"),
    ({"block_device_mapping_v2": [LOCAL | {"boot_index": 10**30}]}, "boot_index 0"),
    ({"block_device_mapping_v2": [LOCAL | {"disk_bus": "ribbon"}]}, "disk bus ribbon"),
    ({"block_device_mapping_v2": [LOCAL | {"device_type": "floppy"}]}, "device type floppy"),
    ({"block_device_mapping_v2": [LOCAL | {"device_type": "cdrom"}]}, "only a volume can be a CD-ROM"),
    (
        {"block_device_mapping_v2": [LOCAL, device("volume", NOWHERE, device_type="cdrom", disk_bus="virtio")]},
        "on the bus virtio",
    ),
    ({"block_device_mapping_v2": [device("image", IMAGE, "local", boot_index=1)]}, "boot_index 0"),
    ({"block_device_mapping_v2": [device("image", IMAGE)]}, "boot_index 0"),
    ({"block_device_mapping_v2": [LOCAL, device("image", IMAGE, "volume")]}, "non-zero size"),
    ({"block_device_mapping_v2": [LOCAL, device("blank", None, "volume")]}, "non-zero size"),
    ({"block_device_mapping_v2": [LOCAL | {"volume_type": "fast"}]}, "volume_type"),
    ({"block_device_mapping_v2": [LOCAL, device("volume", NOWHERE, "volume", volume_type="fast")]}, "its type already"),
    (
        {"block_device_mapping_v2": [LOCAL, device("blank", None, "volume", volume_size=1, volume_type="none")]},
        "Volume type none could not be found.",
    ),
    ({"block_device_mapping_v2": [LOCAL | {"uuid": NOWHERE}]}, "two images"),
    ({"block_device_mapping_v2": [LOCAL, LOCAL]}, "two images"),
    ({"block_device_mapping_v2": [device("blank", None, "volume", volume_size=1)]}, "Boot sequence"),
    (
        {"block_device_mapping_v2": [LOCAL, device("blank", None, "volume", volume_size=1, boot_index=2)]},
        "Boot sequence",
    ),
    (
        {"block_device_mapping_v2": [LOCAL, device("blank", None, "volume", volume_size=1, boot_index=0)]},
        "Boot sequence",
    ),
    ({"block_device_mapping_v2": [LOCAL, device("volume", NOWHERE, "volume")]}, f"failed to get volume {NOWHERE}"),
    ({"block_device_mapping_v2": [LOCAL, device("snapshot", NOWHERE, "volume")]}, "failed to get snapshot"),
    ({"block_device_mapping_v2": [LOCAL, device("image", NOWHERE, "volume", volume_size=1)]}, "Image 9999"),
    (
        {"block_device_mapping_v2": [LOCAL, device("volume", NOWHERE, "volume")] * 1, "max_count": 2},
        "multiple instances",
    ),
    (
        {"block_device_mapping_v2": [LOCAL, device("blank", None, "volume", volume_size=1, device_name="vda")]},
        "root device",
    ),
    (
        {"block_device_mapping_v2": [LOCAL, *[device("blank", None, "volume", volume_size=1, device_name="vdb")] * 2]},
        "same name",
    ),
    ({"block_device_mapping_v2": [LOCAL, *[device("volume", NOWHERE, "volume")] * 2]}, "named twice"),
)


@pytest.mark.parametrize(("change", "sentence"), BAD, ids=[f"{number}" for number in range(len(BAD))])
async def test_a_device_that_cannot_be_had_is_refused(front: Front, change: dict[str, Any], sentence: str) -> None:
    assert sentence in await refused(front, change, "badRequest", 400)


async def test_a_volume_that_does_not_do_is_refused_with_the_reason(front: Front) -> None:
    async def bad(id: str, sentence: str, minor: int = 104, **more: Any) -> None:
        devices = [device("volume", id, "volume", **({"boot_index": 0} | more))]
        imageless = {"imageRef": "", "block_device_mapping_v2": devices}
        assert sentence in await refused(front, imageless, "badRequest", 400, minor=minor)

    await bad(volume(front), "not bootable")
    await bad(volume(front, status="in-use", is_bootable=True), "in-use")
    await bad(volume(front, project_id=OTHER_PROJECT), "failed to get volume")
    await bad(volume(front, is_bootable=True, is_multiattach=True), "2.60", minor=59)
    await bad(volume(front, is_bootable=True, image_metadata={"min_ram": "4096"}), "memory is too small")
    await bad(volume(front, is_bootable=True, image_metadata={"min_disk": "9"}), "Volume is smaller")
    await bad(volume(front, is_bootable=True), "tag", minor=41, tag="t")


APART = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, cross_az_attach=False)


@pytest.mark.cloud(APART)
async def test_where_volumes_are_used_in_their_zone_only_the_server_goes_there(front: Front) -> None:
    there, elsewhere = volume(front), volume(front, zone="north")
    server = await made(front, block_device_mapping_v2=[LOCAL, device("volume", there, "volume")])
    assert server.spec.zone_pin == "nova"
    both = [LOCAL, device("volume", there, "volume"), device("volume", elsewhere, "volume")]
    requested = REQUESTED | {"block_device_mapping_v2": both}
    fault(await front.ask("POST", "/servers", {"server": requested}), "badRequest", 400)
    requested = REQUESTED | {"block_device_mapping_v2": [LOCAL, both[2]], "availability_zone": "nova"}
    assert "north" in fault(await front.ask("POST", "/servers", {"server": requested}), "badRequest", 400)


async def test_a_server_that_boots_from_a_volume_can_be_resized_to_any_disk(front: Front) -> None:
    root = volume(front, is_bootable=True)
    server_id = await front.boot(
        imageRef="", flavorRef="2", block_device_mapping_v2=[device("volume", root, "volume", boot_index=0)]
    )
    assert (await front.act(server_id, {"resize": {"flavorRef": "1"}})).status_code == 202
    shown = await front.show(server_id)
    assert shown["os-extended-volumes:volumes_attached"] == [{"id": root, "delete_on_termination": False}]


async def test_lists_of_networks_are_those_of_the_network_service(front: Front) -> None:
    a = network(front)
    network(front, "theirs", project_id=OTHER_PROJECT)
    [shown] = (await front.get("/os-networks", minor=35))["networks"]
    assert (shown["id"], shown["label"], shown["cidr"]) == (a, "private", None)
    assert (await front.get(f"/os-networks/{a}", minor=1))["network"] == shown
    whole = (await front.get(f"/os-networks/{a}", minor=1, who="admin"))["network"]
    assert whole == dict.fromkeys(whole) | {"id": a, "label": shown["label"]}
    assert whole.keys() - shown.keys() == {
        *("created_at", "updated_at", "deleted_at", "deleted", "injected", "bridge", "vlan", "vpn_public_address"),
        *("vpn_public_port", "vpn_private_address", "dhcp_start", "project_id", "host", "bridge_interface"),
        *("multi_host", "priority", "rxtx_base", "mtu", "dhcp_server", "enable_dhcp", "share_address"),
    }
    fault(await front.ask("GET", f"/os-networks/{NOWHERE}", minor=1), "itemNotFound", 404)
    fault(await front.ask("GET", "/os-networks", minor=36), "itemNotFound", 404)
