"""The action createBackup: its answer by microversion, the images of a series, and what it refuses."""

from typing import Any

import pytest

from tests.api.front import Front, fault


def wanted(rotation: Any = 1, kind: str = "daily") -> dict[str, Any]:
    return {"createBackup": {"name": f"{kind} backup", "backup_type": kind, "rotation": rotation}}


async def backups(front: Front, server_id: str) -> list[str]:
    found = await front.world.images.with_properties({"image_type": "backup", "instance_uuid": server_id})
    return [image.properties["backup_type"] for image in found]


async def test_only_the_newest_backups_of_a_type_are_kept(front: Front) -> None:
    server_id = await front.boot()
    for body in (wanted(2), wanted(2), wanted("2"), wanted(1, "weekly")):
        answer = await front.act(server_id, body)
        assert answer.status_code == 202
        assert (await front.world.images.show(answer.json()["image_id"])).status == "queued"
        assert (await front.show(server_id))["OS-EXT-STS:task_state"] == "image_backup"
        await front.settle()
    assert sorted(await backups(front, server_id)) == ["daily", "daily", "weekly"]
    answer = await front.act(server_id, wanted(1), minor=44)
    assert (answer.status_code, answer.content) == (202, b"")
    assert "/images/" in answer.headers["Location"]
    await front.settle()
    assert sorted(await backups(front, server_id)) == ["daily", "weekly"]


async def test_a_rotation_of_none_keeps_none(front: Front) -> None:
    server_id = await front.boot()
    answer = await front.act(server_id, wanted(0))
    assert (answer.status_code, answer.content, answer.headers.get("Location")) == (202, b"", None)
    await front.settle()
    assert await backups(front, server_id) == []


async def test_a_protected_backup_stays_and_keeps_nobody_from_the_next_one(front: Front) -> None:
    server_id = await front.boot()
    for _ in range(2):
        for image_id in front.world.images.ids():
            front.world.images.protect(image_id)
        assert (await front.act(server_id, wanted(1))).status_code == 202
        await front.settle()
    assert len(await backups(front, server_id)) == 2
    assert (await front.show(server_id))["OS-EXT-STS:task_state"] is None


@pytest.mark.parametrize("change", [{"rotation": -1}, {"rotation": "x"}, {"name": ""}, {"backup_type": 1}, {"more": 1}])
async def test_a_bad_request_is_refused(front: Front, change: dict[str, Any]) -> None:
    server_id = await front.boot()
    body = wanted()
    body["createBackup"] |= change
    fault(await front.act(server_id, body), "badRequest", 400)
    fault(await front.act(server_id, wanted(), who="reader"), "forbidden", 403)
