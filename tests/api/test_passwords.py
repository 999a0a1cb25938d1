"""Passwords of guests: changed by the guest's agent, shown encrypted, posted by the guest."""

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.api.front import Front, fault
from tests.api.test_rebuild import NEW_IMAGE, add_image
from whimbrel.domain.guest import GuestKey
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup

AGENT = {"hw_qemu_guest_agent": "yes"}
CHANGE = {"changePassword": {"adminPass": "new secret"}}


async def with_agent(front: Front, **properties: str) -> str:
    await add_image(front, properties=AGENT | properties)
    return await front.boot(imageRef=NEW_IMAGE)


async def passwords(front: Front, server_id: str) -> dict[str, str]:
    record = await lookup.find(front.world.cloud, server_id)  # type: ignore[arg-type]
    assert record.host
    assert record.slot
    return await front.world.hypervisors[record.host].passwords(GuestKey(record.id, record.slot))


@pytest.mark.parametrize(
    ("properties", "user"),
    [({}, "root"), ({"os_type": "windows"}, "Administrator"), ({"os_admin_user": "boss"}, "boss")],
)
async def test_a_password_is_changed_in_the_guest(front: Front, properties: dict[str, str], user: str) -> None:
    server_id = await with_agent(front, **properties)
    answer = await front.act(server_id, CHANGE)
    assert (answer.status_code, answer.content) == (202, b"")
    assert await passwords(front, server_id) == {user: "new secret"}
    await front.settle()
    assert (await front.show(server_id))["OS-EXT-STS:task_state"] is None
    [action, _] = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    assert action["action"] == "changePassword"


async def test_without_an_agent_it_is_refused(front: Front) -> None:
    server_id = await front.boot()
    assert fault(await front.act(server_id, CHANGE), "conflictingRequest", 409) == "QEMU guest agent is not enabled"


async def test_an_agent_that_does_not_answer_is_not_implemented(front: Front) -> None:
    server_id = await front.boot()
    record = await lookup.find(front.world.cloud, server_id)  # type: ignore[arg-type]
    # The guest was started before its image had the property.
    cell = front.world.cloud.cell(record.cell)  # type: ignore[arg-type]
    await cell.servers.change(record, {"image_properties": AGENT})
    assert fault(await front.act(server_id, CHANGE), "notImplemented", 501) == "Unable to set password on instance"
    await front.settle()
    shown = await front.show(server_id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)


async def test_a_guest_that_refuses_is_a_conflict(front: Front) -> None:
    server_id = await with_agent(front)
    for host in front.world.hypervisors.values():
        host.refusing.add("set_password")
    said = fault(await front.act(server_id, CHANGE), "conflictingRequest", 409)
    assert said.startswith(f"Failed to set admin password on {server_id} because")


async def test_no_run_shows_a_password(front: Front) -> None:
    server_id = await with_agent(front)
    for host in front.world.hypervisors.values():
        host.refusing.add("set_password")
    assert (await front.act(server_id, CHANGE)).status_code == 409
    await front.settle()
    assert (await front.act(server_id, {"rebuild": {"imageRef": NEW_IMAGE, "adminPass": "new secret" * 30}})).is_success
    await front.settle()
    sagas = set()
    for run in await front.world.cloud.journal.find(RunFilter()):
        assert "new secret" not in str(run.facts)
        answer = await front.ask("GET", f"/whimbrel/moves/{run.id}", who="admin")
        assert "new secret" not in answer.text
        sagas |= {run.saga} if answer.is_success else set()
    assert sagas >= {"change_password", "rebuild"}


async def test_only_a_running_server_has_its_password_changed(front: Front) -> None:
    server_id = await with_agent(front)
    assert (await front.act(server_id, {"os-stop": None})).status_code == 202
    await front.settle()
    assert "vm_state stopped" in fault(await front.act(server_id, CHANGE), "conflictingRequest", 409)
    for wrong in ({}, {"adminPass": 1}, {"adminPass": "x", "more": 1}):
        assert (await front.act(server_id, {"changePassword": wrong})).status_code == 400
    assert (await front.act(server_id, CHANGE, who="reader")).status_code == 403


async def test_it_is_shown_encrypted_for_the_key_pair(front: Front) -> None:
    key = rsa.generate_private_key(65537, 2048)
    ssh = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    body = {"keypair": {"name": "mine", "public_key": ssh, "type": "ssh"}}
    assert (await front.ask("POST", "/os-keypairs", body)).status_code == 201
    await add_image(front, properties=AGENT)
    server_id = await front.boot(imageRef=NEW_IMAGE, key_name="mine")
    assert await front.get(f"/servers/{server_id}/os-server-password") == {"password": ""}
    assert (await front.act(server_id, CHANGE)).status_code == 202
    await front.settle()
    shown = (await front.get(f"/servers/{server_id}/os-server-password", who="reader"))["password"]
    assert key.decrypt(base64.b64decode(shown), padding.PKCS1v15()) == b"new secret"
    assert (await front.ask("DELETE", f"/servers/{server_id}/os-server-password", who="reader")).status_code == 403
    assert (await front.ask("DELETE", f"/servers/{server_id}/os-server-password")).status_code == 204
    assert await front.get(f"/servers/{server_id}/os-server-password") == {"password": ""}
    assert (await front.ask("DELETE", f"/servers/{server_id}/os-server-password")).status_code == 204
