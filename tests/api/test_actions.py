"""Actions on servers: power, moves, locks, images, consoles. Who, in what state, with which answer."""

from typing import Any

import pytest

from tests.api.front import OTHER_PROJECT, Front, fault
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName
from whimbrel.ports.cloud import Rules
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.sim.cloud.cloud import IMAGE

SAME_HOST = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, allow_resize_to_same_host=True)


async def do(front: Front, server_id: str, action: dict[str, Any], **more: Any) -> None:
    """Ask for an action and wait until it is done."""
    answer = await front.act(server_id, action, **more)
    assert answer.status_code in (202, 204), answer.text
    assert answer.content == b""
    await front.settle()


async def status(front: Front, server_id: str) -> str:
    server = await front.show(server_id)
    assert server["OS-EXT-STS:task_state"] is None
    shown: str = server["status"]
    return shown


# Power


async def test_a_server_is_stopped_started_and_rebooted(front: Front) -> None:
    server_id = await front.boot()
    await do(front, server_id, {"os-stop": None})
    assert await status(front, server_id) == "SHUTOFF"
    message = fault(await front.act(server_id, {"os-stop": None}), "conflictingRequest", 409)
    assert message == f"Cannot 'stop' instance {server_id} while it is in vm_state stopped"
    fault(await front.act(server_id, {"reboot": {"type": "SOFT"}}), "conflictingRequest", 409)
    await do(front, server_id, {"os-start": {"anything": "goes"}})
    assert await status(front, server_id) == "ACTIVE"
    fault(await front.act(server_id, {"os-start": None}), "conflictingRequest", 409)
    await do(front, server_id, {"reboot": {"type": "soft"}})
    await do(front, server_id, {"reboot": {"type": "HARD"}})
    assert await status(front, server_id) == "ACTIVE"


async def test_a_busy_server_refuses(front: Front) -> None:
    server_id = await front.boot()
    assert (await front.act(server_id, {"reboot": {"type": "HARD"}})).status_code == 202
    assert (await front.show(server_id))["status"] == "HARD_REBOOT"
    message = fault(await front.act(server_id, {"resize": {"flavorRef": "2"}}), "conflictingRequest", 409)
    assert "while it is in task_state rebooting_hard" in message


@pytest.mark.parametrize(
    ("there", "back", "shown", "power"),
    [("pause", "unpause", "PAUSED", 3), ("suspend", "resume", "SUSPENDED", 4)],
)
async def test_a_server_is_paused_and_suspended(front: Front, there: str, back: str, shown: str, power: int) -> None:
    server_id = await front.boot()
    fault(await front.act(server_id, {there: None}, who="reader"), "forbidden", 403)
    fault(await front.act(server_id, {back: None}), "conflictingRequest", 409)
    await do(front, server_id, {there: None})
    server = await front.show(server_id)
    assert (server["status"], server["OS-EXT-STS:power_state"]) == (shown, power)
    for action in ({there: None}, {"os-start": None}, {"os-stop": None}, {"resize": {"flavorRef": "2"}},
                   {"reboot": {"type": "SOFT"}}, {"rebuild": {"imageRef": IMAGE}}):  # fmt: skip
        said = fault(await front.act(server_id, action), "conflictingRequest", 409)
        assert f"in vm_state {server['OS-EXT-STS:vm_state']}" in said
    assert [one["id"] for one in (await front.get(f"/servers?status={shown}"))["servers"]] == [server_id]
    await do(front, server_id, {back: {"anything": "goes"}})
    assert await status(front, server_id) == "ACTIVE"
    await do(front, server_id, {there: None})
    await do(front, server_id, {"reboot": {"type": "HARD"}})
    assert await status(front, server_id) == "ACTIVE"
    actions = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    assert [action["action"] for action in actions] == ["reboot", there, back, there, "create"]


async def test_a_server_that_never_ran_refuses(front: Front) -> None:
    server_id = await front.boot(settle=False)
    for action in ({"os-stop": None}, {"resize": {"flavorRef": "2"}}, {"os-getConsoleOutput": {}}):
        fault(await front.act(server_id, action), "conflictingRequest", 409)


async def test_force_delete_deletes_at_once(front: Front) -> None:
    server_id = await front.boot()
    assert (await front.act(server_id, {"lock": None}, who="admin")).status_code == 202
    fault(await front.act(server_id, {"forceDelete": None}), "conflictingRequest", 409)
    assert (await front.act(server_id, {"unlock": None}, who="admin")).status_code == 202
    fault(await front.act(server_id, {"forceDelete": None}, who="reader"), "forbidden", 403)
    assert (await front.act(server_id, {"resize": {"flavorRef": "2"}})).status_code == 202
    await do(front, server_id, {"forceDelete": None})  # the resize is turned back
    await reconcile(front.world.cloud, front.engine)
    await front.settle()
    fault(await front.ask("GET", f"/servers/{server_id}"), "itemNotFound", 404)


@pytest.mark.parametrize("verdict", ["confirmResize", "revertResize"])
@pytest.mark.parametrize("state", ["active", "error"])
async def test_a_verdict_is_taken_after_the_state_was_reset(front: Front, state: str, verdict: str) -> None:
    server_id = await front.boot()
    await do(front, server_id, {"resize": {"flavorRef": "2"}})
    await do(front, server_id, {"os-resetState": {"state": state}}, who="admin")
    assert (await front.show(server_id))["status"] == state.upper()
    fault(await front.act(server_id, {"os-stop": None}), "conflictingRequest", 409)  # it is in the hands of its move
    await do(front, server_id, {verdict: None})
    assert await status(front, server_id) == "ACTIVE"
    fault(await front.act(server_id, {verdict: None}), "conflictingRequest", 409)


# Bodies


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"nothing": None},
        {"no such": None},
        {"os-stop": None, "os-start": None},
        {"reboot": {}},
        {"reboot": {"type": "SOME"}},
        {"reboot": {"type": "SOFT", "more": 1}},
        {"resize": {}},
        {"resize": {"flavorRef": "2", "more": 1}},
        {"resize": {"flavorRef": None}},
        {"resize": {"flavorRef": "nothing"}},
        {"resize": {"flavorRef": "1"}},
        {"resize": {"flavorRef": "off"}},
        {"resize": {"flavorRef": "zero"}},
        {"migrate": {"host": 1}},
        {"migrate": {"more": 1}},
        {"migrate": "now"},
        {"os-resetState": {"state": "asleep"}},
        {"lock": {"locked_reason": ""}},
        {"lock": {"locked_reason": "x" * 256}},
        {"createImage": {}},
        {"createImage": {"name": ""}},
        {"createImage": {"name": "x" * 256}},
        {"os-getConsoleOutput": {"length": "many"}},
    ],
)
async def test_a_wrong_action_is_400_and_changes_nothing(front: Front, body: dict[str, Any]) -> None:
    server_id = await front.boot()
    cloud = front.world.cloud
    off = Flavor(flavor_id="off", name="off", vcpus=1, memory_mib=512, root_gib=1, disabled=True)
    zero = Flavor(flavor_id="zero", name="zero", vcpus=1, memory_mib=512, root_gib=0)
    for flavor in (off, zero):
        await cloud.flavors.create(flavor, 0.0)
    before = await front.show(server_id)
    fault(await front.act(server_id, body, who="admin"), "badRequest", 400)
    assert await front.show(server_id) == before


# Moves


async def test_a_resize_is_shown_and_confirmed(front: Front) -> None:
    server_id = await front.boot()
    answer = await front.act(server_id, {"resize": {"flavorRef": "2", "OS-DCF:diskConfig": "AUTO"}})
    assert answer.status_code == 202
    assert (await front.show(server_id))["status"] == "RESIZE"
    fault(await front.act(server_id, {"resize": {"flavorRef": "2"}}), "conflictingRequest", 409)
    await front.settle()
    server = await front.show(server_id)
    assert (server["status"], server["flavor"]["original_name"]) == ("VERIFY_RESIZE", "large")
    answer = await front.act(server_id, {"confirmResize": None})
    assert answer.status_code == 204
    assert (await front.act(server_id, {"confirmResize": None})).status_code == 204
    await front.settle()
    assert await status(front, server_id) == "ACTIVE"
    fault(await front.act(server_id, {"confirmResize": None}), "conflictingRequest", 409)


async def test_a_resize_is_reverted(front: Front) -> None:
    server_id = await front.boot()
    await do(front, server_id, {"os-stop": None})
    await do(front, server_id, {"resize": {"flavorRef": "2"}})
    answer = await front.act(server_id, {"revertResize": None})
    assert answer.status_code == 202
    assert (await front.show(server_id))["status"] == "REVERT_RESIZE"
    assert (await front.act(server_id, {"revertResize": None})).status_code == 202
    fault(await front.act(server_id, {"confirmResize": None}), "conflictingRequest", 409)
    await front.settle()
    assert await status(front, server_id) == "SHUTOFF"
    assert (await front.show(server_id))["flavor"]["original_name"] == "small"


async def test_without_a_resize_there_is_nothing_to_judge(front: Front) -> None:
    server_id = await front.boot()
    for action in ("confirmResize", "revertResize"):
        message = fault(await front.act(server_id, {action: None}), "conflictingRequest", 409)
        assert message == f"Cannot '{action}' instance {server_id} while it is in vm_state active"


async def test_a_migration_needs_a_manager_and_a_host_an_administrator(front: Front) -> None:
    server_id = await front.boot(who="admin", host="h1")
    fault(await front.act(server_id, {"migrate": None}, who="member"), "forbidden", 403)
    fault(await front.act(server_id, {"migrate": {"host": "h2"}}, who="manager"), "forbidden", 403)
    for wrong in ("h1", "h9"):
        fault(await front.act(server_id, {"migrate": {"host": wrong}}, who="admin"), "badRequest", 400)
    await do(front, server_id, {"migrate": None}, who="manager")
    assert await status(front, server_id) == "VERIFY_RESIZE"
    await do(front, server_id, {"revertResize": None})
    await do(front, server_id, {"migrate": {"host": "h3"}}, who="admin")
    assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"] == "h3"


async def test_below_2_56_a_migration_takes_anything_and_no_host(front: Front) -> None:
    server_id = await front.boot(who="admin", host="h1")
    await do(front, server_id, {"migrate": {"host": "h1"}}, who="manager", minor=55)
    assert await status(front, server_id) == "VERIFY_RESIZE"


async def test_nothing_moves_from_a_host_that_is_down(front: Front) -> None:
    server_id = await front.boot(who="admin", host="h1")
    await front.world.cloud.cells["c1"].hosts.set_service(
        HostName("h1"), enabled=True, disabled_reason=None, forced_down=True
    )
    fault(await front.act(server_id, {"resize": {"flavorRef": "2"}}), "conflictingRequest", 409)
    assert await status(front, server_id) == "ACTIVE"


async def test_a_disk_does_not_shrink(front: Front) -> None:
    server_id = await front.boot(flavorRef="2")
    assert "cannot shrink" in fault(await front.act(server_id, {"resize": {"flavorRef": "1"}}), "badRequest", 400)
    assert await status(front, server_id) == "ACTIVE"


async def test_a_resize_over_quota_is_403(front: Front) -> None:
    server_id = await front.boot()
    await front.world.cloud.quotas.set_limits((await front.show(server_id))["tenant_id"], {"cores": 1})
    fault(await front.act(server_id, {"resize": {"flavorRef": "2"}}), "forbidden", 403)
    assert await status(front, server_id) == "ACTIVE"


@pytest.mark.cloud(SAME_HOST)
async def test_a_resize_that_finds_no_host_leaves_the_server_as_it_was(front: Front) -> None:
    huge = Flavor(flavor_id="9", name="huge", vcpus=20, memory_mib=512, root_gib=1)
    await front.world.cloud.flavors.create(huge, 0.0)
    server_id = await front.boot()
    before = await front.show(server_id, who="admin")
    await do(front, server_id, {"resize": {"flavorRef": "9"}})
    after = await front.show(server_id, who="admin")
    assert {**after, "updated": ""} == {**before, "updated": ""}


# Locks and states


async def test_a_locked_server_refuses_all_but_administrators(front: Front) -> None:
    server_id = await front.boot()
    await do(front, server_id, {"lock": {"locked_reason": "mine"}})
    server = await front.show(server_id)
    assert (server["locked"], server["locked_reason"]) == (True, "mine")
    for action in ({"os-stop": None}, {"resize": {"flavorRef": "2"}}, {"reboot": {"type": "HARD"}}):
        message = fault(await front.act(server_id, action), "conflictingRequest", 409)
        assert message == f"Instance {server_id} is locked"
    fault(await front.ask("DELETE", f"/servers/{server_id}"), "conflictingRequest", 409)
    answer = await front.ask("PUT", f"/servers/{server_id}", {"server": {"name": "x"}})
    assert answer.status_code == 200, "as in Nova"
    fault(await front.ask("POST", f"/servers/{server_id}/metadata", {"metadata": {}}), "conflictingRequest", 409)
    await do(front, server_id, {"os-stop": None}, who="admin")
    await do(front, server_id, {"unlock": None})
    assert (await front.show(server_id))["locked"] is False
    await do(front, server_id, {"os-start": None})


async def test_an_administrators_lock_is_opened_by_administrators(front: Front) -> None:
    server_id = await front.boot()
    await do(front, server_id, {"lock": None}, who=f"admin@{OTHER_PROJECT}", minor=1)
    fault(await front.act(server_id, {"unlock": None}), "forbidden", 403)
    assert (await front.show(server_id))["locked"]
    await do(front, server_id, {"unlock": None}, who="admin")
    assert not (await front.show(server_id))["locked"]


async def test_a_state_is_reset_by_administrators(front: Front) -> None:
    server_id = await front.boot()
    fault(await front.act(server_id, {"os-resetState": {"state": "error"}}), "forbidden", 403)
    await do(front, server_id, {"os-resetState": {"state": "error"}}, who="admin")
    assert await status(front, server_id) == "ERROR"
    message = fault(await front.act(server_id, {"resize": {"flavorRef": "2"}}), "conflictingRequest", 409)
    assert message == f"Cannot 'resize' instance {server_id} while it is in vm_state error"
    await do(front, server_id, {"os-resetState": {"state": "active"}}, who="admin")
    assert await status(front, server_id) == "ACTIVE"


# Images and consoles


async def test_an_image_is_made_of_a_server(front: Front) -> None:
    server_id = await front.boot()
    answer = await front.act(server_id, {"createImage": {"name": "snap", "metadata": {"a": "b"}}})
    assert answer.status_code == 202
    image_id = answer.json()["image_id"]
    # The SDK looks for it as soon as it has the id, and takes a 404 for a failure.
    assert (await front.world.cloud.images.show(image_id)).status == "queued"
    await front.settle()
    assert (await front.world.cloud.images.show(image_id)).name == "snap"
    for act, image_type in (("createImage", "mine"), ("createBackup", "backup")):
        extra = {"backup_type": "daily", "rotation": 1} if act == "createBackup" else {}
        metadata = {"image_type": "mine", "user_id": "other"}
        answer = await front.act(server_id, {act: {"name": "typed", "metadata": metadata, **extra}})
        await front.settle()
        properties = (await front.world.cloud.images.show(answer.json()["image_id"])).properties
        assert (properties["image_type"], properties["user_id"]) == (image_type, "other")
    answer = await front.act(server_id, {"createImage": {"name": "snap"}}, minor=44)
    assert (answer.status_code, answer.content) == (202, b"")
    assert "/images/" in answer.headers["Location"]


async def test_the_console_is_shown(front: Front) -> None:
    server_id = await front.boot()
    for requested in ({}, {"length": 5}, {"length": "5"}, {"length": None}, {"length": -1}, {"length": 2**31}):
        answer = await front.act(server_id, {"os-getConsoleOutput": requested})
        assert answer.status_code == 200, answer.text
        assert isinstance(answer.json()["output"], str)
    for length, lines in ((None, 4), (10, 4), (3, 3), (1, 1), (0, 1)):  # as Nova counts: the last one is empty
        output = (await front.act(server_id, {"os-getConsoleOutput": {"length": length}})).json()["output"]
        assert len(output.split("\n")) == lines
    fault(await front.act(server_id, {"os-getConsoleOutput": {}}, who="reader"), "forbidden", 403)


async def test_a_resize_sets_the_disk_config(front: Front) -> None:
    server_id = await front.boot()
    for requested, disk_config in (({"OS-DCF:diskConfig": "AUTO"}, "AUTO"), ({}, "MANUAL")):
        refused = await front.act(server_id, {"resize": {"flavorRef": "1", **requested}})
        fault(refused, "badRequest", 400)
        assert (await front.show(server_id))["OS-DCF:diskConfig"] != disk_config
        await do(front, server_id, {"resize": {"flavorRef": "2", **requested}})
        assert (await front.show(server_id))["OS-DCF:diskConfig"] == disk_config
        await do(front, server_id, {"revertResize": None})
