"""The data of a guest: its config drive, which is the same after every kind of move."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.api.devices import network
from tests.api.front import IMAGE, Front, fault, opened
from tests.api.live_moves import migrate_live
from tests.api.test_evacuations import ANYWHERE, born, die
from tests.api.test_keypairs import create
from tests.api.test_rebuild import NEW_IMAGE, add_image, rebuild
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.guest_settings import GuestRules
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Rules
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import PROJECT

ROOMY = {"cpu_allocation_ratio": 16.0}
TWO_CELLS = {"c1": ("h1", "h2"), "c2": ("h3",)}
META, USER_DATA, NETWORK = (f"openstack/latest/{name}" for name in ("meta_data.json", "user_data", "network_data.json"))


async def drive_of(front: Front, server_id: str) -> Mapping[str, bytes] | None:
    """Return the files of a guest's config drive as its host has them."""
    record = await lookup.find(front.world.cloud, server_id)  # type: ignore[arg-type]
    assert record.host
    assert record.slot
    found = await front.world.hypervisors[record.host].config_drive(GuestKey(record.id, record.slot))
    return found.contents if found else None


async def meta_data(front: Front, server_id: str) -> dict[str, Any]:
    files = await drive_of(front, server_id)
    assert files is not None
    told: dict[str, Any] = json.loads(files[META])
    return told


async def act(front: Front, server_id: str, *actions: Mapping[str, Any]) -> None:
    for action in actions:
        assert (await front.act(server_id, action, who="admin")).status_code in (200, 202, 204)
        await front.settle()


class Services:
    """Implements ports.services.vendor_data.VendorData."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.silent = False

    async def of_server(self, server: Server) -> dict[str, Any]:
        self.asked.append(server.boot_roles)
        if self.silent:
            raise Unavailable("no vendor data of dns")
        return {"dns": {"zone": f"{server.hostname}.example.org"}}


# What is on it


async def test_a_config_drive_has_what_the_user_sent(front: Front) -> None:
    assert (await create(front)).status_code == 201
    net = network(front)
    server_id = await front.boot(
        config_drive=True,
        key_name="mine",
        user_data="aGVsbG8=",
        adminPass="secret",
        metadata={"role": "web"},
        networks=[{"uuid": net, "tag": "front"}],
    )
    files, told = await drive_of(front, server_id), await meta_data(front, server_id)
    assert files is not None
    assert files[USER_DATA] == b"hello"
    assert (told["uuid"], told["admin_pass"], told["meta"]) == (server_id, "secret", {"role": "web"})
    assert (told["project_id"], told["availability_zone"], told["keys"][0]["name"]) == (PROJECT, "nova", "mine")
    [nic] = told["devices"]
    assert nic["tags"] == ["front"]
    [link] = json.loads(files[NETWORK])["links"]
    assert link["ethernet_mac_address"] == nic["mac"]


@pytest.mark.parametrize(
    ("requested", "properties", "forced", "has_one"),
    [
        (None, {}, False, False),
        ("false", {}, False, False),
        ("true", {}, False, True),
        (None, {"img_config_drive": "optional"}, False, False),
        (False, {"img_config_drive": "mandatory"}, False, True),
        (None, {}, True, True),
    ],
)
async def test_who_gets_one(requested: Any, properties: dict[str, str], forced: bool, has_one: bool) -> None:
    async with opened(Rules(guests=GuestRules(force_config_drive=forced))) as front:
        await add_image(front, properties=properties)
        asked = {} if requested is None else {"config_drive": requested}
        server_id = await front.boot(imageRef=NEW_IMAGE, **asked)
        assert (await drive_of(front, server_id) is not None) is has_one
        assert (await front.show(server_id))["config_drive"] == ("True" if has_one else "")


async def test_several_servers_have_seeds_of_their_own(front: Front) -> None:
    first = await front.boot(config_drive=True, min_count=2)
    seeds = []
    for server in (await front.get("/servers/detail"))["servers"]:
        told = await meta_data(front, server["id"])
        seeds.append((server["id"] == first, told["launch_index"], told["random_seed"]))
    assert sorted(seed[:2] for seed in seeds) == [(False, 1), (True, 0)]
    assert len({seed[2] for seed in seeds}) == 2


# It stays the same


async def _resize(front: Front, server_id: str) -> None:
    await act(front, server_id, {"resize": {"flavorRef": "2"}}, {"confirmResize": None})


async def _revert(front: Front, server_id: str) -> None:
    await act(front, server_id, {"migrate": None}, {"revertResize": None})


async def _migrate(front: Front, server_id: str) -> None:
    await act(front, server_id, {"migrate": None}, {"confirmResize": None})


async def _to_another_cell(front: Front, server_id: str) -> None:
    await act(front, server_id, {"migrate": {"host": "h3"}}, {"confirmResize": None})
    assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"] == "h3"


async def _migrate_live(front: Front, server_id: str) -> None:
    assert (await migrate_live(front, server_id)).status_code == 202
    await front.settle()


async def _shelve(front: Front, server_id: str) -> None:
    await act(front, server_id, {"shelve": None}, {"unshelve": None})


async def _evacuate(front: Front, server_id: str) -> None:
    await die(front, (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"])
    assert (await front.act(server_id, {"evacuate": {}}, who="admin", minor=68)).status_code == 200
    await front.settle()


MOVES: tuple[Callable[[Front, str], Awaitable[None]], ...] = (
    *(_resize, _revert, _migrate, _to_another_cell, _migrate_live, _shelve, _evacuate),
)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.cloud(Rules(**ROOMY), ANYWHERE, cells=TWO_CELLS)
async def test_it_is_the_same_after_a_move(front: Front, move: Callable[[Front, str], Awaitable[None]]) -> None:
    net = network(front)
    where = {"availability_zone": "nova:h1", "who": "admin"}
    server_id = await front.boot(config_drive=True, user_data="aGVsbG8=", networks=[{"uuid": net, "tag": "n"}], **where)
    before = await drive_of(front, server_id)
    assert before is not None
    await move(front, server_id)
    assert (await front.show(server_id))["status"] == "ACTIVE"
    after = await drive_of(front, server_id)
    assert after is not None
    if move is _resize:  # the flavor's name is in EC2's documents
        before, after = ({path: one for path, one in files.items() if "ec2" not in path} for files in (before, after))
    assert after == before


async def test_what_changed_is_on_the_drive_after_a_cold_move_only(front: Front) -> None:
    server_id = await front.boot(config_drive=True)
    assert (await front.ask("POST", f"/servers/{server_id}/metadata", {"metadata": {"a": "b"}})).status_code == 200
    assert "meta" not in await meta_data(front, server_id)
    await _migrate_live(front, server_id)
    assert "meta" not in await meta_data(front, server_id), "a running guest may have mounted it"
    await _migrate(front, server_id)
    assert (await meta_data(front, server_id))["meta"] == {"a": "b"}


async def test_a_rebuild_writes_the_new_values(front: Front) -> None:
    await add_image(front, properties={"img_config_drive": "mandatory"})
    server_id = await front.boot()
    assert await drive_of(front, server_id) is None
    await rebuild(front, server_id, NEW_IMAGE, name="two", adminPass="other", user_data="YQ==", metadata={"a": "b"})
    await front.settle()
    told, files = await meta_data(front, server_id), await drive_of(front, server_id)
    assert (told["name"], told["admin_pass"], told["meta"]) == ("two", "other", {"a": "b"})
    assert files is not None
    assert files[USER_DATA] == b"a"
    assert (await front.show(server_id))["config_drive"] == "True"


async def test_an_evacuation_brings_the_password_that_it_was_given(front: Front) -> None:
    server_id = await born(front)
    other = await front.boot("two", config_drive=True, availability_zone="nova:h1", who="admin")
    await die(front, "h1")
    for each in (server_id, other):
        body = {"evacuate": {"onSharedStorage": "False", "adminPass": "secret"}}
        assert (await front.act(each, body, who="admin", minor=13)).status_code == 200
    await front.settle()
    assert (await meta_data(front, other))["admin_pass"] == "secret"
    assert await drive_of(front, server_id) is None


# What does not reach it


async def messages(front: Front, server_id: str) -> list[str | None]:
    """Return the message of its first action, as the list has it and by itself."""
    listed = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"][-1]
    shown = await front.get(f"/servers/{server_id}/os-instance-actions/{listed['request_id']}")
    assert listed["action"] == "create"
    return [listed["message"], shown["instanceAction"]["message"]]


async def test_a_password_without_a_drive_is_noted_in_the_action(front: Front) -> None:
    note = "adminPass: recorded, but not delivered to the guest (only a config drive has it)."
    server_id = await front.boot(adminPass="secret", user_data="aGVs!\nbG8=")
    listed, shown = await messages(front, server_id)
    assert listed == note
    assert shown == f"3 of 3 hosts fit. {note}"
    assert await messages(front, await front.boot("two", user_data="aGVsbG8=")) == [None, "3 of 3 hosts fit."]


@pytest.mark.cloud(Rules(refuse_undelivered_guest_data=True))
async def test_a_rule_refuses_it(front: Front) -> None:
    requested = {"name": "one", "flavorRef": "1", "imageRef": IMAGE, "networks": "none", "adminPass": "secret"}
    answer = await front.ask("POST", "/servers", {"server": requested})
    assert "needs" not in fault(answer, "badRequest", 400)
    assert (await front.get("/servers"))["servers"] == []
    assert (await front.ask("POST", "/servers", {"server": requested | {"config_drive": True}})).status_code == 202


# Dynamic vendor data

VENDOR_2 = "openstack/latest/vendor_data2.json"
STATIC = Rules(guests=GuestRules(vendor_data={"ntp": "a"}), step_timeout_s=20.0)


async def test_dynamic_vendor_data_is_on_the_drive_also_after_a_move() -> None:
    services = Services()
    async with opened(rules=STATIC, ports={"vendor_data": services}) as front:
        server_id = await front.boot(config_drive=True)
        assert services.asked == ["member,reader"]
        expected = {"static": {"ntp": "a"}, "dns": {"zone": "one.example.org"}}
        for action in (None, {"migrate": None}, {"confirmResize": None}):
            if action:
                await act(front, server_id, action)
            files = await drive_of(front, server_id)
            assert files is not None
            assert json.loads(files[VENDOR_2]) == expected
            assert json.loads(files["openstack/latest/vendor_data.json"]) == {"ntp": "a"}
        await front.boot(name="two")
        assert len(services.asked) == 2  # a server without a drive asks when its guest does


async def test_a_guest_whose_vendor_data_is_required_does_not_start_without() -> None:
    services = Services()
    services.silent = True
    async with opened(rules=STATIC, ports={"vendor_data": services}) as front:
        server_id = await front.boot(config_drive=True)
        assert (await front.show(server_id))["status"] == "ERROR"
