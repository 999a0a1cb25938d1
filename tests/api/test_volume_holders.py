"""Attachments of the embedded volume service: who holds a volume, from where, and what that makes of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.api.volume_cloud import SERVERS, VolumeCloud, volume_cloud
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.ports.embedded.volume_backing import Export
from whimbrel.sim.world.volume_exports import SimulatedExports

ONE, TWO = SERVERS


def connector(host: str, **more: Any) -> dict[str, Any]:
    return {"host": host, "ip": "127.0.0.1", "platform": "x86_64", "os_type": "linux", "multipath": False, **more}


async def attach(cloud: VolumeCloud, volume: str, server: str, host: str | None = None, **more: Any) -> Any:
    requested = {"volume_uuid": volume, "instance_uuid": server, "connector": connector(host) if host else None, **more}
    return (await cloud.done("nova", "POST", "/attachments", {"attachment": requested}))["attachment"]


async def refused(cloud: VolumeCloud, status: int, volume: str, server: str, **more: Any) -> str:
    requested = {"volume_uuid": volume, "instance_uuid": server, **more}
    return await cloud.refused(status, "nova", "POST", "/attachments", {"attachment": requested})


async def connect(cloud: VolumeCloud, attachment: str, host: str, **more: Any) -> Any:
    body = {"attachment": {"connector": connector(host, **more)}}
    return (await cloud.done("nova", "PUT", f"/attachments/{attachment}", body))["attachment"]


async def complete(cloud: VolumeCloud, attachment: str) -> None:
    await cloud.done("nova", "POST", f"/attachments/{attachment}/action", {"os-complete": {}})


async def test_a_volume_is_reserved_connected_in_use_and_free_again(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    held = await attach(cloud, volume, ONE)
    assert (held["status"], held["instance"], held["connection_info"]) == ("reserved", ONE, {})
    assert await cloud.status(volume) == "reserved"
    connected = await connect(cloud, held["id"], "n1", mountpoint="/dev/vdb")
    assert (connected["status"], connected["attach_mode"]) == ("attaching", "rw")
    told = connected["connection_info"]
    assert (told["driver_volume_type"], told["volume_id"], told["access_mode"]) == ("simulated", volume, "rw")
    assert await cloud.status(volume) == "attaching"
    await complete(cloud, held["id"])
    await complete(cloud, held["id"])
    shown = await cloud.show(volume, "root")
    assert shown["status"] == "in-use"
    [seen] = shown["attachments"]
    assert (seen["server_id"], seen["host_name"], seen["device"]) == (ONE, "n1", "/dev/vdb")
    await cloud.refused(400, "ann", "DELETE", f"/volumes/{volume}")
    assert (await cloud.done("nova", "DELETE", f"/attachments/{held['id']}"))["attachments"] == []
    assert await cloud.status(volume) == "available"
    assert cloud.exports.served == {}
    await cloud.refused(404, "nova", "GET", f"/attachments/{held['id']}")


async def test_a_server_holds_a_volume_twice_while_it_moves_and_no_other_does(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    source = await attach(cloud, volume, ONE, "n1")
    await complete(cloud, source["id"])
    await refused(cloud, 400, volume, TWO)
    late = await attach(cloud, volume, ONE)
    assert await cloud.status(volume) == "in-use"
    body = {"attachment": {"connector": connector("n2")}}
    await cloud.refused(409, "nova", "PUT", f"/attachments/{late['id']}", body)  # as in Cinder, while it is connected
    await cloud.done("nova", "DELETE", f"/attachments/{late['id']}")
    target = await attach(cloud, volume, ONE, "n2")
    assert (await cloud.status(volume), len(cloud.exports.served)) == ("attaching", 2)
    left = await cloud.done("nova", "DELETE", f"/attachments/{source['id']}")
    assert [each["id"] for each in left["attachments"]] == [target["id"]]
    assert await cloud.status(volume) == "attaching"
    await complete(cloud, target["id"])
    assert await cloud.status(volume) == "in-use"
    [export] = cloud.exports.served.values()
    assert export.volume_id == volume


async def test_a_volume_that_may_be_attached_more_than_once_is(cloud: VolumeCloud) -> None:
    many = {"name": "many", "extra_specs": {"multiattach": "<is> True"}}
    await cloud.done("root", "POST", "/types", {"volume_type": many})
    volume = await cloud.volume(volume_type="many")
    first = await attach(cloud, volume, ONE, "n1")
    await refused(cloud, 400, volume, TWO)  # as in Cinder, until the first is complete
    await complete(cloud, first["id"])
    second = await attach(cloud, volume, TWO, "n2")
    assert await cloud.status(volume) == "attaching"
    await complete(cloud, second["id"])
    await cloud.done("nova", "DELETE", f"/attachments/{first['id']}")
    assert await cloud.status(volume) == "in-use"
    await cloud.done("nova", "DELETE", f"/attachments/{second['id']}")
    assert await cloud.status(volume) == "available"


async def test_a_user_connects_no_volume_that_is_connected(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    held = await attach(cloud, volume, ONE, "n1")
    await complete(cloud, held["id"])
    requested = {"volume_uuid": volume, "instance_uuid": ONE, "connector": connector("a-laptop")}
    said = await cloud.refused(409, "ann", "POST", "/attachments", {"attachment": requested})
    assert "Duplicate connectors" in said
    second = await cloud.done("ann", "POST", "/attachments", {"attachment": {**requested, "connector": None}})
    for mine in (second["attachment"]["id"], held["id"]):
        body = {"attachment": {"connector": connector("a-laptop")}}
        await cloud.refused(409, "ann", "PUT", f"/attachments/{mine}", body)
    assert len(cloud.exports.served) == 1
    await cloud.done("ann", "DELETE", f"/attachments/{second['attachment']['id']}")
    await attach(cloud, volume, ONE, "n2")  # as a move does


async def test_users_share_a_volume_that_may_be_shared(cloud: VolumeCloud) -> None:
    many = {"name": "many", "extra_specs": {"multiattach": "<is> True"}}
    await cloud.done("root", "POST", "/types", {"volume_type": many})
    volume = await cloud.volume(volume_type="many")
    for server in SERVERS:
        requested = {"volume_uuid": volume, "instance_uuid": server, "connector": connector("a-laptop")}
        made = await cloud.done("ann", "POST", "/attachments", {"attachment": requested})
        await complete(cloud, made["attachment"]["id"])
    assert len(cloud.exports.served) == 2


async def test_everything_that_is_done_again_is_the_same(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    held = await attach(cloud, volume, ONE)
    first, again = [await connect(cloud, held["id"], "n1") for _ in range(2)]
    assert first["connection_info"] == again["connection_info"]
    await complete(cloud, held["id"])
    assert (await connect(cloud, held["id"], "n1"))["status"] == "attaching"  # as in Cinder
    await complete(cloud, held["id"])
    await cloud.refused(
        400, "nova", "PUT", f"/attachments/{held['id']}", {"attachment": {"connector": connector("n2")}}
    )
    assert len(cloud.exports.served) == 1


async def test_two_servers_that_reserve_at_once(tmp_path: Path) -> None:
    async with volume_cloud(tmp_path, url=f"sqlite:///{tmp_path}") as cloud:
        volume = await cloud.volume()

        async def reserve(server: str) -> int:
            body = {"attachment": {"volume_uuid": volume, "instance_uuid": server}}
            return (await cloud.ask("nova", "POST", "/attachments", body)).status_code

        assert sorted(await asyncio.gather(*(reserve(server) for server in SERVERS))) == [200, 400]
        assert len((await cloud.done("nova", "GET", "/attachments", all_tenants="1"))["attachments"]) == 1


async def test_attachments_are_listed(cloud: VolumeCloud) -> None:
    volumes = [await cloud.volume() for _ in range(2)]
    held = [await attach(cloud, volume, server) for volume, server in zip(volumes, SERVERS, strict=True)]

    async def ids(who: str, path: str = "/attachments", **query: str) -> list[str]:
        return [each["id"] for each in (await cloud.done(who, "GET", path, **query))["attachments"]]

    both = [each["id"] for each in held]
    assert sorted(await ids("ann")) == sorted(both)
    assert await ids("bob") == []
    assert await ids("nova") == []
    assert sorted(await ids("nova", all_tenants="1")) == sorted(both)
    assert await ids("ann", instance_id=ONE) == both[:1]
    assert await ids("ann", volume_id=volumes[1], status="reserved") == both[1:]
    assert await ids("ann", status="attached") == []
    [detail] = (await cloud.done("ann", "GET", "/attachments/detail", instance_id=ONE))["attachments"]
    assert detail["attach_mode"] == "null"
    await cloud.refused(404, "bob", "GET", f"/attachments/{both[0]}")


async def test_pages_of_attachments_go_on_behind_one_that_changed(cloud: VolumeCloud) -> None:
    held = [await attach(cloud, await cloud.volume(), server) for server in (ONE, ONE, *SERVERS)]

    async def page(**query: str) -> list[str]:
        found = await cloud.done("nova", "GET", "/attachments", all_tenants="1", status="reserved", **query)
        return [each["id"] for each in found["attachments"]]

    every = await page()
    assert sorted(every) == sorted(each["id"] for each in held)
    first = await page(limit="2")
    assert first == every[:2]
    await connect(cloud, first[-1], "n1")
    assert await page(limit="1", marker=first[-1]) == every[2:3]
    assert await page(marker=first[-1]) == every[2:]
    await cloud.refused(404, "bob", "GET", f"/attachments?marker={first[-1]}")  # of another project
    await cloud.done("nova", "DELETE", f"/attachments/{first[-1]}")
    await cloud.refused(404, "nova", "GET", f"/attachments?all_tenants=1&marker={first[-1]}")


async def test_what_cannot_be_attached_is_refused(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    await refused(cloud, 404, "00000000-0000-4000-8000-000000000000", ONE)
    await refused(cloud, 400, "no id", ONE)
    await refused(cloud, 400, volume, "no id")
    await refused(cloud, 400, volume, ONE, mode="wr")
    await refused(cloud, 400, volume, ONE, connector={"host": 5})
    body = {"attachment": {"volume_uuid": volume, "instance_uuid": ONE, "mode": "ro"}}
    await cloud.refused(400, "nova", "POST", "/attachments", body, version="3.53")
    await cloud.done("root", "POST", f"/volumes/{volume}/action", {"os-reset_status": {"status": "error"}})
    assert "error" in await refused(cloud, 400, volume, ONE)
    await cloud.done("root", "POST", f"/volumes/{volume}/action", {"os-reset_status": {"status": "available"}})
    held = await attach(cloud, volume, ONE)
    path = f"/attachments/{held['id']}"
    await cloud.refused(400, "nova", "PUT", path, {"attachment": {"connector": {}}})
    await cloud.refused(404, "nova", "POST", f"{path}/action", {"os-complete": {}}, version="3.43")
    await cloud.refused(400, "nova", "POST", f"{path}/action", {"os-incomplete": {}})
    await cloud.refused(403, "eve", "DELETE", path)


async def test_a_user_does_not_take_a_volume_from_under_a_guest(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    held = await attach(cloud, volume, ONE, "n1")
    assert "compute" in await cloud.refused(409, "ann", "DELETE", f"/attachments/{held['id']}")
    assert "compute" in await cloud.refused(409, "root", "DELETE", f"/attachments/{held['id']}")
    await cloud.done("nova", "DELETE", f"/attachments/{held['id']}")
    empty = await attach(cloud, volume, ONE)
    await cloud.done("ann", "DELETE", f"/attachments/{empty['id']}")


async def test_nor_does_he_by_the_calls_from_before_there_were_attachments(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    path = f"/volumes/{volume}/action"
    calls = ({"os-detach": {}}, {"os-terminate_connection": {"connector": connector("n1")}})
    for call in calls:
        assert "attachments" in await cloud.refused(400, "ann", "POST", path, call)
    held = await attach(cloud, volume, ONE, "n1")
    await complete(cloud, held["id"])
    for call in calls:
        for who in ("ann", "root"):
            assert f"server {ONE} by the compute API" in await cloud.refused(409, who, "POST", path, call)
        await cloud.refused(404, "bob", "POST", path, call)
        await cloud.refused(400, "nova", "POST", path, call)
    assert (await cloud.status(volume), len(cloud.exports.served)) == ("in-use", 1)


class Unused:
    """Fulfils ports.volume_users.VolumeUsers: no server uses anything."""

    async def uses(self, server: ServerId, attachment_id: str) -> bool:
        return False


async def test_a_user_deletes_what_no_server_uses(tmp_path: Path) -> None:
    async with volume_cloud(tmp_path, users=Unused()) as cloud:
        volume = await cloud.volume()
        requested = {"volume_uuid": volume, "instance_uuid": ONE, "connector": connector("a-laptop")}
        made = (await cloud.done("ann", "POST", "/attachments", {"attachment": requested}))["attachment"]
        await cloud.refused(404, "bob", "DELETE", f"/attachments/{made['id']}")
        await cloud.done("ann", "DELETE", f"/attachments/{made['id']}")
        assert (await cloud.status(volume), cloud.exports.served) == ("available", {})


async def test_a_read_only_volume_is_attached_read_only(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    await cloud.done("ann", "POST", f"/volumes/{volume}/action", {"os-update_readonly_flag": {"readonly": True}})
    await refused(cloud, 400, volume, ONE, mode="rw")
    held = await attach(cloud, volume, ONE, "n1")
    assert held["attach_mode"] == "ro"
    [export] = cloud.exports.served.values()
    assert not export.writable


async def test_a_volume_in_use_is_enlarged_from_3_42(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    await complete(cloud, (await attach(cloud, volume, ONE, "n1"))["id"])
    path, requested = f"/volumes/{volume}/action", {"os-extend": {"new_size": 2}}
    await cloud.refused(400, "ann", "POST", path, requested, version="3.41")
    await cloud.done("ann", "POST", path, requested, version="3.42")
    assert ((await cloud.show(volume))["size"], await cloud.status(volume)) == (2, "in-use")
    assert cloud.events == [("volume-extended", ONE, volume)]
    snapshot = {"snapshot": {"volume_id": volume}}
    await cloud.refused(400, "ann", "POST", "/snapshots", snapshot, version="3.65")
    await cloud.done("ann", "POST", "/snapshots", {"snapshot": {**snapshot["snapshot"], "force": True}}, version="3.65")
    await cloud.done("ann", "POST", "/snapshots", snapshot, version="3.66")


async def test_an_attachment_is_ended_by_force(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    held = await attach(cloud, volume, ONE, "n1")
    path, requested = f"/volumes/{volume}/action", {"os-force_detach": {"attachment_id": held["id"]}}
    await cloud.refused(403, "ann", "POST", path, requested)
    await cloud.done("root", "POST", path, requested)
    assert (await cloud.status(volume), cloud.exports.served) == ("available", {})
    await cloud.refused(400, "root", "POST", path, requested)
    await attach(cloud, volume, ONE, "n1")
    await cloud.done("root", "POST", path, {"os-reset_status": {"status": "available", "attach_status": "detached"}})
    assert (await cloud.done("ann", "GET", "/attachments"))["attachments"] == []
    assert cloud.exports.served == {}


async def test_a_server_of_exports_that_does_not_answer_is_no_refusal(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    held = await attach(cloud, volume, ONE)
    opened = cloud.exports.open

    async def unreachable(export: Export) -> dict[str, Any]:
        raise Unavailable("no answer")

    cloud.exports.open = unreachable  # type: ignore[method-assign]
    body = {"attachment": {"connector": connector("n1")}}
    await cloud.refused(503, "nova", "PUT", f"/attachments/{held['id']}", body)
    cloud.exports.open = opened  # type: ignore[method-assign]
    assert (await connect(cloud, held["id"], "n1"))["connection_info"]["export"] in cloud.exports.served


@pytest.mark.parametrize("status", ["attaching", "attached"])
async def test_what_was_served_is_served_after_a_restart(cloud: VolumeCloud, status: str) -> None:
    volume = await cloud.volume()
    held = await attach(cloud, volume, ONE, "n1")
    if status == "attached":
        await complete(cloud, held["id"])
    restarted = SimulatedExports()
    await restarted.keep(cloud.service.exported)
    assert restarted.served == cloud.exports.served != {}


async def test_what_cannot_be_served_does_not_look_as_if_it_were(cloud: VolumeCloud) -> None:
    held = await attach(cloud, await cloud.volume(), ONE)

    async def refuses(export: Export) -> dict[str, Any]:
        raise Refused("there is nothing to serve it with")

    cloud.exports.open = refuses  # type: ignore[method-assign]
    body = {"attachment": {"connector": connector("n1")}}
    await cloud.refused(400, "nova", "PUT", f"/attachments/{held['id']}", body)
    shown = (await cloud.done("nova", "GET", f"/attachments/{held['id']}"))["attachment"]
    assert shown["connection_info"] == {}


async def test_what_is_given_up_while_it_is_connected_is_not_served(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    held = await attach(cloud, volume, ONE)
    opened = cloud.exports.open

    async def meanwhile(export: Export) -> dict[str, Any]:
        await cloud.done("nova", "DELETE", f"/attachments/{held['id']}")
        return await opened(export)

    cloud.exports.open = meanwhile  # type: ignore[method-assign]
    body = {"attachment": {"connector": connector("n1")}}
    await cloud.refused(404, "nova", "PUT", f"/attachments/{held['id']}", body)
    assert cloud.exports.served == {}


async def test_what_happens_to_a_volume_while_it_is_connected_is_not_lost(cloud: VolumeCloud) -> None:
    volume = await cloud.volume()
    held = await attach(cloud, volume, ONE)
    opened = cloud.exports.open

    async def meanwhile(export: Export) -> dict[str, Any]:
        await cloud.done("ann", "POST", f"/volumes/{volume}/metadata", {"metadata": {"a": "b"}})
        return await opened(export)

    cloud.exports.open = meanwhile  # type: ignore[method-assign]
    assert (await connect(cloud, held["id"], "n1"))["connection_info"]["driver_volume_type"] == "simulated"
    shown = await cloud.show(volume)
    assert (shown["metadata"], shown["status"]) == ({"a": "b"}, "attaching")
