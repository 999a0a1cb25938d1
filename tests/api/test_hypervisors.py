"""Hypervisors, as Nova's clients see them."""

import re
from typing import Any

import pytest

from tests.api.front import Front, fault
from whimbrel.sim.world.clock import JumpingClock

BRIEF = {"id", "hypervisor_hostname", "state", "status"}
USE = {
    *("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb", "local_gb", "local_gb_used"),
    *("free_disk_gb", "disk_available_least", "current_workload", "running_vms"),
}
FULL = BRIEF | {"hypervisor_type", "hypervisor_version", "host_ip", "service"}


async def ask(front: Front, path: str = "", minor: int = 104) -> Any:
    return await front.get(f"/os-hypervisors{path}", who="admin", minor=minor)


@pytest.mark.parametrize(("minor", "kind"), [(1, int), (33, int), (52, int), (53, str), (104, str)])
async def test_listing(front: Front, minor: int, kind: type) -> None:
    found = (await ask(front, minor=minor))["hypervisors"]
    assert [one["hypervisor_hostname"] for one in found] == ["h1", "h2", "h3"]
    assert all(set(one) == BRIEF and type(one["id"]) is kind for one in found)
    assert (found[0]["state"], found[0]["status"]) == ("up", "enabled")
    fault(await front.ask("GET", "/os-hypervisors", who="manager"), "forbidden", 403)


@pytest.mark.parametrize(
    ("minor", "names"),
    [
        *((minor, FULL | USE | {"cpu_info"}) for minor in (1, 28, 53, 87)),
        *((minor, FULL | {"uptime"}) for minor in (88, 104)),
    ],
)
async def test_details(front: Front, minor: int, names: set[str]) -> None:
    one = (await ask(front, "/detail", minor))["hypervisors"][0]
    assert set(one) == names
    assert one == (await ask(front, f"/{one['id']}", minor))["hypervisor"]
    assert set(one["service"]) == {"id", "host", "disabled_reason"}
    assert type(one["service"]["id"]) is (str if minor >= 53 else int)
    if minor < 88:
        assert one["cpu_info"] == ({} if minor >= 28 else "{}")


UPTIME = re.compile(r"\s*(.+)\sup\s+(.+),\s+(.+)\susers?,\s+load average:\s(.+)")
"""An answer as openstackclient reads it."""


async def test_uptime_is_what_the_agent_says(front: Front) -> None:
    clock = front.world.cloud.clock
    assert isinstance(clock, JumpingClock)
    clock.advance(30.0)
    old = (await ask(front, "/1/uptime", 52))["hypervisor"]
    assert UPTIME.match(old["uptime"])
    assert set(old) == BRIEF | {"uptime"}
    [shown, *_] = (await ask(front, "/detail"))["hypervisors"]
    found = UPTIME.match(shown["uptime"])
    assert found
    assert found[2] == "0 min"
    down = {"host": "h1", "binary": "nova-compute", "forced_down": True}
    await front.ask("PUT", "/os-services/force-down", down, who="admin", minor=42)
    fault(await front.ask("GET", "/os-hypervisors/1/uptime", who="admin", minor=52), "badRequest", 400)
    assert (await ask(front, "/detail"))["hypervisors"][0]["uptime"] is None


async def test_use_is_what_placement_says(front: Front) -> None:
    server_id = await front.boot(flavorRef="2")
    host = (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"]
    by_name = {one["hypervisor_hostname"]: one for one in (await ask(front, "/detail", 87))["hypervisors"]}
    used = by_name.pop(host)
    assert {name: used[name] for name in USE} == {
        "vcpus": 4,
        "vcpus_used": 2,
        "memory_mb": 4096,
        "memory_mb_used": 1024,
        "free_ram_mb": 3072,
        "local_gb": 40,
        "local_gb_used": 2,
        "free_disk_gb": 38,
        "disk_available_least": 38,
        "current_workload": 0,
        "running_vms": 1,
    }
    assert all(one["vcpus_used"] == 0 == one["running_vms"] for one in by_name.values())
    total = (await ask(front, "/statistics", 87))["hypervisor_statistics"]
    assert (total["count"], total["vcpus"], total["vcpus_used"], total["running_vms"]) == (3, 12, 2, 1)
    fault(await front.ask("GET", "/os-hypervisors/statistics", who="admin", minor=88), "itemNotFound", 404)


async def test_its_servers_are_listed_on_request(front: Front) -> None:
    server_id = await front.boot()
    host = (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"]
    for path in ("", "/detail"):
        found = (await ask(front, f"{path}?with_servers=true"))["hypervisors"]
        for one in found:
            assert [server["uuid"] for server in one["servers"]] == (
                [server_id] if one["hypervisor_hostname"] == host else []
            )
        old = (await ask(front, f"{path}?with_servers=true", 53))["hypervisors"]
        assert [one["hypervisor_hostname"] for one in old if "servers" in one] == [host]
        assert "servers" not in (await ask(front, path))["hypervisors"][0]
    id = next(one["id"] for one in found if one["hypervisor_hostname"] == host)
    assert len((await ask(front, f"/{id}?with_servers=1"))["hypervisor"]["servers"]) == 1
    fault(await front.ask("GET", f"/os-hypervisors/{id}?with_servers=maybe", who="admin"), "badRequest", 400)
    by_name = (await ask(front, f"/{host}/servers", 52))["hypervisors"]
    assert [one["servers"] for one in by_name] == [[{"name": f"whimbrel-{server_id}", "uuid": server_id}]]


async def test_searching(front: Front) -> None:
    assert [one["hypervisor_hostname"] for one in (await ask(front, "/h2/search", 52))["hypervisors"]] == ["h2"]
    found = (await ask(front, "?hypervisor_hostname_pattern=h"))["hypervisors"]
    assert len(found) == 3
    for minor, path in ((52, "/x9/search"), (52, "/x9/servers"), (104, "?hypervisor_hostname_pattern=x9")):
        fault(await front.ask("GET", f"/os-hypervisors{path}", who="admin", minor=minor), "itemNotFound", 404)
    for path in ("?hypervisor_hostname_pattern=h&limit=1", "?colour=blue", "?limit=1&limit=2"):
        fault(await front.ask("GET", f"/os-hypervisors{path}", who="admin"), "badRequest", 400)
    fault(await front.ask("GET", "/os-hypervisors/h2/search", who="admin", minor=53), "itemNotFound", 404)


async def test_paging(front: Front) -> None:
    page = await ask(front, "?limit=2")
    assert [one["hypervisor_hostname"] for one in page["hypervisors"]] == ["h1", "h2"]
    assert page["hypervisors_links"][0]["href"].endswith(f"limit=2&marker={page['hypervisors'][1]['id']}")
    rest = await ask(front, f"?limit=2&marker={page['hypervisors'][1]['id']}")
    assert ([one["hypervisor_hostname"] for one in rest["hypervisors"]], set(rest)) == (["h3"], {"hypervisors"})
    assert len((await ask(front, "?limit=2", 32))["hypervisors"]) == 3
    assert len((await ask(front, "/detail?limit=1&marker=1", 33))["hypervisors"]) == 1
    for minor, marker in ((33, "99"), (104, "11111111-1111-4111-8111-111111111111")):
        fault(await front.ask("GET", f"/os-hypervisors?marker={marker}", who="admin", minor=minor), "badRequest", 400)


async def test_what_is_not_there(front: Front) -> None:
    for minor, id, name, code in (
        (52, "99", "itemNotFound", 404),
        (52, "h1", "itemNotFound", 404),
        (53, "1", "badRequest", 400),
        (53, "11111111-1111-4111-8111-111111111111", "itemNotFound", 404),
    ):
        fault(await front.ask("GET", f"/os-hypervisors/{id}", who="admin", minor=minor), name, code)
        fault(await front.ask("GET", f"/os-hypervisors/{id}/uptime", who="admin", minor=minor), name, code)
