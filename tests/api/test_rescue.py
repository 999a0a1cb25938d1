"""The actions rescue and unrescue: states, images, microversions, and what a rescued server refuses."""

from typing import Any

import pytest

from tests.api.devices import volume
from tests.api.front import Front, fault
from whimbrel.ports.services.images import Image
from whimbrel.sim.cloud.cloud import IMAGE

NOT_THERE = "99999999-9999-4999-8999-999999999999"
RESCUE_IMAGE = "99999999-9999-4999-8999-999999999991"
REFUSED: tuple[dict[str, Any], ...] = (
    {"rescue": None},
    *({action: None} for action in ("pause", "suspend", "os-start", "os-stop", "shelve", "migrate", "confirmResize")),
    {"resize": {"flavorRef": "2"}},
    {"os-migrateLive": {"host": None, "block_migration": "auto"}},
    {"reboot": {"type": "HARD"}},
    {"rebuild": {"imageRef": IMAGE}},
    {"createImage": {"name": "i"}},
    {"evacuate": {"adminPass": "x"}},
)


async def rescue_image(front: Front, **properties: str) -> None:
    image = Image(id=RESCUE_IMAGE, name="r", status="queued", disk_format="raw", size_bytes=0, checksum=None,
                  visibility="public", properties=properties)  # fmt: skip
    await front.world.images.create(image)
    await front.world.images.write(RESCUE_IMAGE, _contents())


async def _contents() -> Any:
    yield b"rescue"


async def test_a_rescued_server_is_shown_refuses_most_and_comes_back(front: Front) -> None:
    server_id = await front.boot()
    answer = await front.act(server_id, {"rescue": {"adminPass": "secret"}})
    assert (answer.status_code, answer.json()) == (200, {"adminPass": "secret"})
    assert (await front.show(server_id))["OS-EXT-STS:task_state"] == "rescuing"
    await front.settle()
    server = await front.show(server_id)
    assert (server["status"], server["OS-EXT-STS:vm_state"], server["OS-EXT-STS:power_state"]) == (
        "RESCUE",
        "rescued",
        1,
    )
    assert [one["id"] for one in (await front.get("/servers?status=RESCUE"))["servers"]] == [server_id]
    for action in REFUSED:
        said = fault(await front.act(server_id, action, who="admin", minor=95), "conflictingRequest", 409)
        assert "in vm_state rescued" in said
    assert (await front.act(server_id, {"unrescue": None})).status_code == 202
    await front.settle()
    assert (await front.show(server_id))["status"] == "ACTIVE"
    fault(await front.act(server_id, {"unrescue": None}), "conflictingRequest", 409)
    actions = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    assert [action["action"] for action in actions] == ["unrescue", "rescue", "create"]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"hw_rescue_device": "floppy"}, "Requested rescue device 'floppy' is not supported"),
        ({"hw_rescue_bus": "fdc"}, "Requested rescue bus 'fdc' is not supported"),
        ({"block_device_mapping": "[]"}, "Requested rescue image"),
    ],
)
async def test_an_image_that_cannot_rescue_is_named(front: Front, properties: dict[str, str], message: str) -> None:
    server_id = await front.boot()
    await rescue_image(front, **properties)
    answer = await front.act(server_id, {"rescue": {"rescue_image_ref": RESCUE_IMAGE}})
    assert message in fault(answer, "badRequest", 400)
    fault(await front.act(server_id, {"rescue": {"rescue_image_ref": NOT_THERE}}), "badRequest", 400)
    fault(await front.act(server_id, {"rescue": {"rescue_image_ref": "no id"}}), "badRequest", 400)


async def test_a_stopped_server_is_rescued_from_another_image_with_its_devices(front: Front) -> None:
    server_id = await front.boot()
    await rescue_image(front, hw_rescue_bus="scsi")
    await front.act(server_id, {"os-stop": None})
    await front.settle()
    assert (await front.act(server_id, {"rescue": {"rescue_image_ref": RESCUE_IMAGE}})).status_code == 200
    await front.settle()
    [(_, guest)] = front.world.simulated.guests()
    assert guest.rescue
    assert (guest.rescue.image_id, guest.rescue.bus, guest.rescue.is_stable) == (RESCUE_IMAGE, "scsi", True)
    assert guest.in_rescue
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await front.settle()
    assert front.world.simulated.guests() == []


async def test_a_server_on_a_volume_is_rescued_from_2_87_on(front: Front) -> None:
    root = {
        "uuid": volume(front, is_bootable=True),
        "source_type": "volume",
        "destination_type": "volume",
        "boot_index": 0,
    }
    server_id = await front.boot(imageRef="", block_device_mapping_v2=[root])
    await rescue_image(front, hw_rescue_device="disk", hw_rescue_bus="virtio")
    action = {"rescue": {"rescue_image_ref": RESCUE_IMAGE}}
    assert "volume-backed" in fault(await front.act(server_id, action, minor=86), "badRequest", 400)
    assert (await front.act(server_id, action, minor=87)).status_code == 200
    await front.settle()
    assert (await front.show(server_id))["status"] == "RESCUE"
