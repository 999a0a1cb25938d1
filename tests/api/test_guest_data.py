"""What is sent for a guest and does not reach it is noted where its owner sees it, or refused."""

from typing import Any

import pytest

from tests.api.front import IMAGE, Front, fault
from tests.api.test_keypairs import create
from whimbrel.ports.cloud import Rules

NOTE = "recorded, but not delivered to the guest (no config drive or metadata service yet)."
SENT: list[tuple[dict[str, Any], str]] = [
    ({"user_data": "aGVsbG8="}, "user_data"),
    ({"config_drive": "true"}, "config_drive"),
    ({"adminPass": "secret"}, "adminPass"),
    (
        {"user_data": "aGVsbG8=", "adminPass": "secret", "config_drive": True},
        "user_data and adminPass and config_drive",
    ),
]


async def messages(front: Front, server_id: str) -> list[str | None]:
    """Return the message of its first action, as the list has it and by itself."""
    listed = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"][-1]
    shown = await front.get(f"/servers/{server_id}/os-instance-actions/{listed['request_id']}")
    assert listed["action"] == "create"
    return [listed["message"], shown["instanceAction"]["message"]]


@pytest.mark.parametrize(("sent", "named"), SENT)
async def test_it_is_noted_in_the_action(front: Front, sent: dict[str, Any], named: str) -> None:
    server_id = await front.boot(**sent)
    assert (await front.show(server_id))["status"] == "ACTIVE"
    listed, shown = await messages(front, server_id)
    assert listed == f"{named}: {NOTE}"
    assert shown == f"3 of 3 hosts fit. {named}: {NOTE}"
    assert "fault" not in await front.show(server_id)


async def test_a_key_is_noted_too(front: Front) -> None:
    assert (await create(front)).status_code == 201
    assert (await messages(front, await front.boot(key_name="mine")))[0] == f"key_name: {NOTE}"


async def test_a_failure_is_named_first(front: Front) -> None:
    for name in front.world.cloud.cells:
        for host in await front.world.cloud.cells[name].hosts.all():
            await front.ask("PUT", f"/os-services/{host.service_id}", {"status": "disabled"}, who="admin")
    failed = await front.boot(user_data="aGVsbG8=")
    assert (await front.show(failed))["status"] == "ERROR"
    listed, shown = await messages(front, failed)
    assert (listed or "").startswith("Error. user_data: ")
    assert (shown or "").startswith("Error: ")
    assert (shown or "").endswith(NOTE)


async def test_a_plain_create_has_no_note(front: Front) -> None:
    assert await messages(front, await front.boot(config_drive=False)) == [None, "3 of 3 hosts fit."]


@pytest.mark.parametrize(("sent", "named"), SENT)
@pytest.mark.cloud(Rules(refuse_undelivered_guest_data=True))
async def test_a_rule_refuses_it(front: Front, sent: dict[str, Any], named: str) -> None:
    requested = {"name": "one", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    answer = await front.ask("POST", "/servers", {"server": requested | sent})
    assert fault(answer, "badRequest", 400).startswith(f"{named} cannot be used")
    assert (await front.get("/servers"))["servers"] == []
