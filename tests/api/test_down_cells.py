"""What is shown while a cell does not answer: as Nova from 2.69 on, and nobody's servers are hidden by it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.api.front import OTHER_PROJECT, Front, fault
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import CellName
from whimbrel.ports.cloud import Rules
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT

CELLS = {"c1": ("h1",), "c2": ("h2", "h3")}
C2 = CellName("c2")


class Away:
    """A store whose database does not answer."""

    def __getattr__(self, name: str) -> Any:
        async def call(*_: Any, **__: Any) -> Any:
            raise Unavailable("the database is away")

        return call


def take_away(front: Front, cell: CellName = C2) -> None:
    cells = cast(dict[CellName, Any], front.world.cloud.cells)
    cells[cell] = replace(cells[cell], servers=Away(), hosts=Away(), devices=Away())


async def boot_on(front: Front, name: str, host: str, **requested: Any) -> str:
    front.world.remains.clock.advance(1)
    return await front.boot(name, availability_zone=f"nova:{host}", who="admin@" + PROJECT, **requested)


async def ids(front: Front, path: str, **more: Any) -> list[str]:
    return [server["id"] for server in (await front.get(path, **more))["servers"]]


def links_of(server: str) -> list[Mapping[str, str]]:
    base = "http://cloud:8774/compute"
    return [
        {"rel": "self", "href": f"{base}/v2.1/servers/{server}"},
        {"rel": "bookmark", "href": f"{base}/servers/{server}"},
    ]


@pytest.mark.cloud(cells=CELLS)
async def test_its_servers_are_listed_as_unknown_in_their_places(front: Front) -> None:
    first, there, last = [await boot_on(front, f"s{n}", host) for n, host in enumerate(("h1", "h2", "h1"))]
    created = (await front.show(there))["created"]
    take_away(front)
    for minor in (69, 104):
        for query in ("", "?all_tenants=1", "?deleted=false"):
            shown = (await front.get(f"/servers{query}", minor=minor, who="admin@" + PROJECT))["servers"]
            assert [one["id"] for one in shown] == [last, there, first]
            assert shown[1] == {"id": there, "status": "UNKNOWN", "links": links_of(there)}
            shown = (await front.get(f"/servers/detail{query}", minor=minor, who="admin@" + PROJECT))["servers"]
            assert [one["status"] for one in shown] == ["ACTIVE", "UNKNOWN", "ACTIVE"]
            assert shown[1] == {
                "id": there, "status": "UNKNOWN", "tenant_id": PROJECT, "created": created, "links": links_of(there),
            }  # fmt: skip
    assert await ids(front, "/servers", who="member@" + OTHER_PROJECT) == []
    assert await ids(front, "/servers", who="admin@" + OTHER_PROJECT) == []


@pytest.mark.parametrize("detail", ["", "/detail"])
@pytest.mark.parametrize(
    ("query", "minor"),
    [
        ("", 68),
        ("?limit=5", 104),
        ("?sort_key=created_at", 104),
        ("?sort_dir=asc", 104),
        ("?status=ACTIVE", 104),
        ("?name=s", 104),
        ("?changes-since=2020-01-01T00:00:00Z", 104),
    ],
)
@pytest.mark.cloud(cells=CELLS)
async def test_where_nobody_can_know_they_are_left_out(front: Front, detail: str, query: str, minor: int) -> None:
    here = await boot_on(front, "s1", "h1")
    await boot_on(front, "s2", "h2")
    take_away(front)
    assert await ids(front, f"/servers{detail}{query}", minor=minor) == [here]


@pytest.mark.cloud(Rules(list_records_by_skipping_down_cells=False), cells=CELLS)
async def test_the_rules_may_have_no_list_rather_than_half_of_one(front: Front) -> None:
    await boot_on(front, "s1", "h1")
    assert len(await ids(front, "/servers?limit=5")) == 1
    take_away(front)
    assert len(await ids(front, "/servers")) == 1
    assert "Cell c2" in fault(await front.ask("GET", "/servers?limit=5"), "serviceUnavailable", 503)
    fault(await front.ask("GET", "/servers/detail", minor=68), "serviceUnavailable", 503)


@pytest.mark.cloud(cells=CELLS, max_limit=2)
async def test_the_next_page_goes_on_after_one_that_is_unknown(front: Front) -> None:
    one, two, three, four = [await boot_on(front, f"s{n}", h) for n, h in enumerate(("h1", "h1", "h2", "h2"))]
    take_away(front)
    page = await front.get("/servers")
    assert [server["id"] for server in page["servers"]] == [four, three]
    (link,) = page["servers_links"]
    assert link["href"].endswith(f"/servers?marker={three}")
    page = await front.get(f"/servers?marker={three}")
    assert [server["id"] for server in page["servers"]] == [two, one]
    sorted_by_name = await front.ask("GET", f"/servers?marker={three}&sort_key=display_name")
    assert "cannot be a marker" in fault(sorted_by_name, "serviceUnavailable", 503)
    other = await front.ask("GET", f"/servers?marker={three}", who="member@" + OTHER_PROJECT)
    fault(other, "badRequest", 400)


@pytest.mark.cloud(cells=CELLS)
async def test_one_is_shown_with_what_is_known_of_it(front: Front) -> None:
    server = await boot_on(front, "s", "h2")
    before = await front.show(server)
    await front.act(server, {"resize": {"flavorRef": "2"}})
    await front.settle()
    resized = await front.show(server)
    assert (before["flavor"]["original_name"], resized["flavor"]["original_name"]) == ("small", "large")
    take_away(front)
    shown = await front.show(server, minor=97)
    assert shown == {
        "id": server,
        "status": "UNKNOWN",
        "tenant_id": PROJECT,
        "user_id": "admin",
        "created": before["created"],
        "links": links_of(server),
        "image": {"id": IMAGE, "links": before["image"]["links"]},
        "flavor": {**resized["flavor"]},
        "OS-EXT-AZ:availability_zone": "nova",
        "OS-EXT-STS:power_state": 0,
        "server_groups": [],
    }
    assert "server_groups" not in await front.show(server, minor=70)
    fault(await front.ask("GET", f"/servers/{server}", who="member@" + OTHER_PROJECT), "itemNotFound", 404)
    message = fault(await front.ask("GET", f"/servers/{server}", minor=68), "serviceUnavailable", 503)
    assert message.startswith("Cell c2 is not responding")


@pytest.mark.cloud(cells=CELLS)
async def test_nothing_is_done_to_its_servers_and_all_is_done_to_others(front: Front) -> None:
    here, there = await boot_on(front, "s1", "h1"), await boot_on(front, "s2", "h2")
    limits = await front.get("/limits")
    take_away(front)
    for action in ({"reboot": {"type": "HARD"}}, {"os-stop": None}, {"resize": {"flavorRef": "2"}}):
        fault(await front.act(there, action), "serviceUnavailable", 503)
    fault(await front.ask("DELETE", f"/servers/{there}"), "serviceUnavailable", 503)
    fault(await front.ask("GET", f"/servers/{there}/metadata"), "serviceUnavailable", 503)
    assert (await front.act(here, {"os-stop": None})).status_code == 202
    assert len((await front.get(f"/servers/{there}/os-instance-actions"))["instanceActions"]) == 1
    assert await front.get("/limits") == limits
    assert limits["limits"]["absolute"]["totalInstancesUsed"] == 2


@pytest.mark.cloud(cells=CELLS)
async def test_services_and_hypervisors(front: Front) -> None:
    services = (await front.get("/os-services", who="admin"))["services"]
    hypervisors = (await front.get("/os-hypervisors", who="admin"))["hypervisors"]
    assert [one["host"] for one in services] == ["h1", "h2", "h3"]
    take_away(front)
    unknown = [{"binary": "nova-compute", "host": host, "status": "UNKNOWN"} for host in ("h2", "h3")]
    for minor in (69, 104):
        shown = (await front.get("/os-services", who="admin", minor=minor))["services"]
        assert [one["host"] for one in shown] == ["h1", "h2", "h3"]
        assert shown[1:] == unknown
        only = (await front.get("/os-services?host=h3", who="admin", minor=minor))["services"]
        assert only == unknown[1:]
    assert [one["host"] for one in (await front.get("/os-services", who="admin", minor=68))["services"]] == ["h1"]
    shown = (await front.get("/os-hypervisors", who="admin"))["hypervisors"]
    assert [one["hypervisor_hostname"] for one in shown] == ["h1"]
    # Whoever asks for one that may be there is not told that it is not.
    for path in (f"/os-hypervisors/{hypervisors[1]['id']}", "/os-hypervisors?hypervisor_hostname_pattern=h2"):
        fault(await front.ask("GET", path, who="admin"), "serviceUnavailable", 503)
    body = {"status": "disabled"}
    path = f"/os-services/{services[2]['id']}"
    fault(await front.ask("PUT", path, body, who="admin"), "serviceUnavailable", 503)
    zones = (await front.get("/os-availability-zone"))["availabilityZoneInfo"]
    assert [zone["zoneName"] for zone in zones] == ["nova"]
