"""Which server action is permitted in which state, and the words of the refusals: one table, as in Nova 34.

Source: decorators of nova/compute/api.py (check_instance_lock, check_instance_state) and the names of actions in the
conflicts of nova/api/openstack/compute.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.api.front import Front, fault
from whimbrel.api.http.policy import DEFAULTS
from whimbrel.domain.server_states import VM_STATES
from whimbrel.http.policy import Policy
from whimbrel.ports.services.volumes import Volume
from whimbrel.servers import edit, lookup
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT

UUID = "6a0d1e2c-0000-4000-8000-000000000009"
MIGRATING, TARGET = "6a0d1e2c-0000-4000-8000-00000000000a", "6a0d1e2c-0000-4000-8000-00000000000b"
"""A volume that the volume service migrates, and where to."""

STATES = [state for state in VM_STATES if state not in ("building", "deleted")]
"""Those that a server on a host can be set to."""

ANY = tuple(STATES)
GUEST = ("active", "paused", "suspended", "stopped")
LIVING = ("active", "stopped")
ATTACHABLE = ("active", "paused", "stopped", "resized", "shelved", "shelved_offloaded")  # Nova: soft-delete too
LIVE_MIGRATION = {"host": None, "block_migration": "auto"}


class Line(NamedTuple):
    request: Mapping[str, Any] | tuple[str, str, Any]  # an action, or a method, a path below the server, a body
    says: str | None  # the action's name in a refusal; None: no state is refused
    states: tuple[str, ...] = ANY
    heeds_lock: bool = True
    minor: int = 104
    while_busy: bool = False  # whether it is permitted while the server has a task


LINES = (
    Line({"os-start": None}, "start", ("stopped",)),
    Line({"os-stop": None}, "stop", ("active", "error")),
    Line({"reboot": {"type": "SOFT"}}, "reboot", ("active",)),
    Line({"reboot": {"type": "HARD"}}, "reboot", (*GUEST, "error")),
    Line({"pause": None}, "pause", ("active",)),
    Line({"unpause": None}, "unpause", ("paused",)),
    Line({"suspend": None}, "suspend", ("active",)),
    Line({"resume": None}, "resume", ("suspended",)),
    Line({"resize": {"flavorRef": "2"}}, "resize", LIVING),
    Line({"migrate": None}, "migrate", LIVING),
    Line({"os-migrateLive": LIVE_MIGRATION}, "os-migrateLive", ("active", "paused")),
    Line({"confirmResize": None}, "confirmResize", ("resized",)),
    Line({"revertResize": None}, "revertResize", ("resized",)),
    Line({"evacuate": {}}, "evacuate", (*LIVING, "error"), heeds_lock=False, while_busy=True),
    Line({"shelve": None}, "shelve", GUEST),
    Line({"shelveOffload": None}, "shelveOffload", ("shelved",)),
    Line({"unshelve": None}, "unshelve", ("shelved", "shelved_offloaded")),
    Line({"rebuild": {"imageRef": IMAGE}}, "rebuild", (*LIVING, "error")),
    Line({"rescue": None}, "rescue", (*LIVING, "error")),
    Line({"unrescue": None}, "unrescue", ("rescued",)),
    Line({"restore": None}, "restore", ("soft-delete",)),
    Line({"forceDelete": None}, None, while_busy=True),
    Line(("DELETE", "", None), None, while_busy=True),
    Line({"createImage": {"name": "x"}}, "createImage", GUEST, heeds_lock=False),
    Line(
        {"createBackup": {"name": "x", "backup_type": "daily", "rotation": 1}}, "createBackup", GUEST, heeds_lock=False
    ),
    Line({"changePassword": {"adminPass": "x"}}, "changePassword", ("active",)),
    # Nova: resized too
    Line({"trigger_crash_dump": None}, "trigger_crash_dump", ("active", "paused", "rescued", "error")),
    Line(("POST", "/os-interface", {}), "attach_interface", ("active", "paused", "stopped")),
    Line(("DELETE", f"/os-interface/{UUID}", None), "detach_interface", ("active", "paused", "stopped")),
    Line(("POST", "/os-volume_attachments", {"volumeAttachment": {"volumeId": UUID}}), "attach_volume", ATTACHABLE),
    Line(("DELETE", f"/os-volume_attachments/{UUID}", None), "detach_volume", ATTACHABLE),
    Line(
        ("PUT", f"/os-volume_attachments/{MIGRATING}", {"volumeAttachment": {"volumeId": TARGET}}),
        "swap_volume",
        ("active", "paused", "resized"),
        minor=84,
    ),
    Line(("POST", "/metadata", {"metadata": {"a": "b"}}), "update metadata", GUEST, while_busy=True),
    Line(("PUT", "/metadata", {"metadata": {"a": "b"}}), "update metadata", GUEST, while_busy=True),
    Line(("PUT", "/metadata/a", {"meta": {"a": "b"}}), "update metadata", GUEST, while_busy=True),
    Line(("DELETE", "/metadata/key", None), "delete metadata", GUEST, while_busy=True),
    Line(("PUT", "/tags", {"tags": ["a"]}), "update tags", GUEST, heeds_lock=False, while_busy=True),
    Line(("PUT", "/tags/a", None), "update tag", GUEST, heeds_lock=False, while_busy=True),
    Line(("DELETE", "/tags", None), "delete tags", GUEST, heeds_lock=False, while_busy=True),
    Line(("DELETE", "/tags/tag", None), "delete tag", GUEST, heeds_lock=False, while_busy=True),
)

OWNERS = "rule:project_member_or_admin"
LENIENT = Policy.load({name: OWNERS if name.startswith("os_compute_api:") else text for name, text in DEFAULTS.items()})
"""Owners may use all of the compute API: an administrator is not stopped by a lock."""


def name_of(line: Line) -> str:
    if isinstance(line.request, tuple):
        method, path, _ = line.request
        return f"{method} {path.replace(UUID, 'id').replace(MIGRATING, 'id')}"
    return " ".join([*line.request, str(line.request.get("reboot", {}).get("type", ""))]).strip()


async def send(front: Front, server_id: str, line: Line) -> Any:
    if isinstance(line.request, tuple):
        method, path, body = line.request
        return await front.ask(method, f"/servers/{server_id}{path}", body, minor=line.minor)
    return await front.act(server_id, line.request)


async def booted(front: Front) -> str:
    """Boot a server with a tag and a metadata item, in a cloud with a volume that is migrated."""
    volumes = front.world.remains.volumes
    volumes.add_volume(Volume(id=MIGRATING, project_id=PROJECT, name="", status="available", size_gib=1, zone="nova"))
    volumes.begin_migration(MIGRATING, TARGET)
    return await front.boot(metadata={"key": "value"}, tags=["tag"])


async def put_in(front: Front, server_id: str, **fields: Any) -> None:
    await edit.change(front.world.cloud, await lookup.find(front.world.cloud, server_id), fields)  # type: ignore[arg-type]


every_line = pytest.mark.parametrize("line", LINES, ids=name_of)
lenient = pytest.mark.cloud(policy=LENIENT)


@lenient
@every_line
async def test_other_states_are_refused_with_the_action_and_the_state(front: Front, line: Line) -> None:
    server_id = await booted(front)
    for state in STATES:
        if state not in line.states:
            await put_in(front, server_id, vm_state=state)
            said = fault(await send(front, server_id, line), "conflictingRequest", 409)
            assert said == f"Cannot '{line.says}' instance {server_id} while it is in vm_state {state}"


@lenient
@every_line
async def test_permitted_states_are_not_refused_for_the_state(front: Front, line: Line) -> None:
    for state in line.states:
        server_id = await booted(front)
        await put_in(front, server_id, vm_state=state)
        assert "while it is in" not in (await send(front, server_id, line)).text


@lenient
@every_line
async def test_a_lock_stops_owners(front: Front, line: Line) -> None:
    server_id = await booted(front)
    await put_in(front, server_id, vm_state=line.states[0], locked_by="owner")
    answer = await send(front, server_id, line)
    if line.heeds_lock:
        assert fault(answer, "conflictingRequest", 409) == f"Instance {server_id} is locked"
    else:
        assert "locked" not in answer.text


@lenient
@every_line
async def test_a_busy_server_is_refused_with_its_task(front: Front, line: Line) -> None:
    if "active" not in line.states:
        pytest.skip("a server that is active is refused for that")
    server_id = await booted(front)
    assert (await front.act(server_id, {"reboot": {"type": "HARD"}})).status_code == 202
    answer = await send(front, server_id, line)
    if line.while_busy:
        assert "task_state" not in answer.text
    else:
        said = fault(answer, "conflictingRequest", 409)
        assert said == f"Cannot '{line.says}' instance {server_id} while it is in task_state rebooting_hard"


@lenient
@every_line
async def test_a_server_that_has_never_run_is_refused(front: Front, line: Line) -> None:
    if line.says is None or "tag" in line.says:
        pytest.skip("it needs no guest that has run")
    server_id = await booted(front)
    await put_in(front, server_id, vm_state=line.states[0], launched_at=None)
    said = fault(await send(front, server_id, line), "conflictingRequest", 409)
    assert said == f"Instance {server_id} is in an invalid state for '{line.says}'"
