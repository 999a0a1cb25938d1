"""Servers in zones: what tests have them do, and how they stand."""

from typing import Any

from tests.api.front import Front


async def boot(front: Front, zone: str, *, pinned: bool = False, **requested: Any) -> str:
    """Create a server in a zone, pinned to it or not."""
    server_id = await front.boot(availability_zone=zone, **requested)
    assert (await front.show(server_id))["status"] == "ACTIVE"
    if not pinned:
        await pin(front, server_id, None)
    return server_id


async def pin(front: Front, server_id: str, zone: str | None) -> None:
    answer = await front.ask("PUT", f"/servers/{server_id}", {"server": {"pinned_availability_zone": zone}})
    assert answer.status_code == 200, answer.text


async def resize(front: Front, server_id: str) -> None:
    assert (await front.act(server_id, {"resize": {"flavorRef": "2"}})).status_code == 202
    await front.settle()


async def migrate(front: Front, server_id: str, **to: str) -> None:
    answer = await front.act(server_id, {"migrate": to or None}, who="admin")
    assert answer.status_code == 202, answer.text
    await front.settle()


async def move(front: Front, server_id: str, *, who: str = "admin", **requested: Any) -> Any:
    answer = await front.ask("POST", f"/whimbrel/servers/{server_id}/move", {"move": requested}, who=who)
    await front.settle()
    return answer


async def confirm(front: Front, server_id: str) -> None:
    assert (await front.act(server_id, {"confirmResize": None})).status_code == 204
    await front.settle()


async def stands(front: Front, server_id: str) -> tuple[str, str, str | None, str]:
    """Return its status, the zone where it is, the one that it is pinned to, and its flavor."""
    server = await front.show(server_id)
    return (
        *(server["status"], server["OS-EXT-AZ:availability_zone"]),
        *(server["pinned_availability_zone"], server["flavor"]["original_name"]),
    )


async def why(front: Front, server_id: str) -> str:
    """Return the reason for which its last move was undone."""
    [last, *_] = (await front.get(f"/whimbrel/moves?server={server_id}", who="admin"))["moves"]
    assert (last["state"], last["turned"]) == ("undone", "refused")
    reason: str = last["message"]
    return reason


async def has_volume(front: Front, server_id: str, volume_id: str) -> None:
    path, body = f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume_id}}
    assert (await front.ask("POST", path, body, minor=100)).status_code == 200
    await front.settle()
