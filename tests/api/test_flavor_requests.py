"""Flavors and images that request more than sizes, at the compute API: errors are returned at once."""

from typing import Any

import pytest

from tests.api.front import Front, fault
from tests.api.test_plans import planned
from tests.stories.test_resource_requests import add_host_nic, offer
from whimbrel.domain.ids import ConsumerId


async def sized(front: Front, name: str, minor: int = 104, **specs: str) -> str:
    """Make a flavor as large as the small one, with these extra specs; in their keys a double underscore is a colon."""
    requested = {"name": name, "id": name, "ram": 512, "vcpus": 1, "disk": 1}
    assert (await front.ask("POST", "/flavors", {"flavor": requested}, who="admin")).status_code == 200
    body = {"extra_specs": {key.replace("__", ":"): value for key, value in specs.items()}}
    answer = await front.ask("POST", f"/flavors/{name}/os-extra_specs", body, who="admin", minor=minor)
    assert answer.status_code == 200, answer.text
    return name


async def held(front: Front, server_id: str) -> dict[str, dict[str, int]]:
    placement = front.world.placement
    names = {one.id: one.name for one in await placement.providers()}
    return {names[one.provider]: one.resources for one in await placement.allocations([ConsumerId(server_id)])}


def wanted(flavor: str) -> dict[str, Any]:
    image = "33333333-3333-4333-8333-333333333333"
    return {"server": {"name": "s", "flavorRef": flavor, "imageRef": image, "networks": "none"}}


@pytest.mark.parametrize(
    ("specs", "named"),
    [
        ({"resources__VCPU": "few"}, "resources:VCPU"),
        ({"resources1__VGPU": "1", "resources2__VGPU": "1"}, "group_policy"),
        ({"hw__cpu_policy": "dedicated", "resources__PCPU": "1"}, "hw:cpu_policy"),
        ({"pci_passthrough__alias": "unheard-of:1"}, "PCI alias unheard-of is not defined"),
    ],
)
async def test_a_flavor_that_asks_wrongly_is_refused_by_name(front: Front, specs: dict[str, str], named: str) -> None:
    flavor = await sized(front, "bad", 85, **specs)  # before 2.86 extra specs are not looked at
    assert named in fault(await front.ask("POST", "/servers", wanted(flavor)), "badRequest", 400)
    server_id = await front.boot()
    answer = await front.ask("POST", f"/servers/{server_id}/action", {"resize": {"flavorRef": flavor}})
    assert named in fault(answer, "badRequest", 400)
    assert (await front.show(server_id))["status"] == "ACTIVE"


async def test_a_resize_to_a_flavor_with_devices_of_their_own_and_back(front: Front) -> None:
    for name in ("red", "blue"):
        await add_host_nic(front.world, "h3", name, [f"CUSTOM_{name.upper()}"])
    await add_host_nic(front.world, "h2", "red", ["CUSTOM_RED"])
    specs = {"resources_A__VGPU": "1", "resources_B__VGPU": "1", "trait_B__CUSTOM_RED": "required"}
    flavor = await sized(front, "cards", group_policy="isolate", **specs)
    server_id = await front.boot(who="admin", host="h1")
    before = await held(front, server_id)
    plan = await planned(front, server_id, action="resize", flavor=flavor)
    assert plan["chosen"] == ["h3"]
    assert plan["asked"] == {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1, "VGPU": 2}
    reasons = {one["host"]: one["reason"] for one in plan["considered"] if one["reason"]}
    assert reasons["h2"]["words"].startswith("not enough room for all that is asked for together, each group on a")
    await front.act(server_id, {"resize": {"flavorRef": flavor}})
    await front.settle()
    sizes = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
    assert await held(front, server_id) == {"h3": sizes, "h3:red": {"VGPU": 1}, "h3:blue": {"VGPU": 1}}
    await front.act(server_id, {"revertResize": None})
    await front.settle()
    assert await held(front, server_id) == before == {"h1": sizes}


async def test_a_plan_names_the_class_what_is_asked_and_what_is_free(front: Front) -> None:
    await offer(front.world, "h2", ["CUSTOM_SSD"], CUSTOM_GPU=1)
    server_id = await front.boot(who="admin", host="h1")
    flavor = await sized(front, "gpus", resources__CUSTOM_GPU="2", trait__CUSTOM_SSD="required")
    plan = await planned(front, server_id, action="resize", flavor=flavor)
    assert not plan["found"]
    reasons = {one["host"]: one["reason"] for one in plan["considered"]}
    assert "2 CUSTOM_GPU" in reasons["h2"]["words"]
    assert (reasons["h2"]["resource"], reasons["h2"]["asked"], reasons["h2"]["free"]) == ("CUSTOM_GPU", 2, 1)
    assert "CUSTOM" in reasons["h3"]["words"]
