"""Maintenances, as operators see them."""

from base64 import b64encode
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import replace

from tests.api.front import Front, fault
from tests.api.test_metrics import Watch
from whimbrel.maintenance.cloud_snapshot import CloudSnapshot
from whimbrel.maintenance.execution import carry_on_all
from whimbrel.ports.cloud import Rules

URL = "/whimbrel/maintenances"
MANY = Rules(cpu_allocation_ratio=16.0)


async def plan(front: Front, **asked: Any) -> Any:
    answer = await front.ask("POST", URL, {"maintenance": asked}, who="admin")
    assert answer.status_code == 201, answer.text
    return answer.json()["maintenance"]


async def act(front: Front, maintenance: Any, action: str, body: Any = None) -> Any:
    answer = await front.ask("POST", f"{URL}/{maintenance['id']}/action", {action: body}, who="admin")
    assert answer.status_code == 202, answer.text
    return answer.json()["maintenance"]


async def born(front: Front, host: str = "h1") -> str:
    return await front.boot(availability_zone=f"nova:{host}", who="admin")


async def show(front: Front, maintenance: Any) -> Any:
    return (await front.get(f"{URL}/{maintenance['id']}", who="admin"))["maintenance"]


@pytest.mark.cloud(rules=MANY)
async def test_a_host_is_planned_emptied_and_shown(front: Front) -> None:
    server_id = await born(front)
    made = await plan(front, hosts=["h1"], name="new disks", at_once=2)
    assert (made["state"], made["target"], made["hosts"]) == ("planned", "host h1", ["h1"])
    unlimited = {"zone_at_once": None, "aggregate_at_once": None, "project_at_once": None}
    assert made["budgets"] == {"at_once": 2, "host_at_once": 4, "group_at_once": 1, "most_failed": 3, **unlimited}
    [server] = made["servers"]
    assert (server["server_id"], server["kind"], server["state"], server["move_id"]) == (
        *(server_id, "live", "planned"),
        None,
    )
    assert (await act(front, made, "start"))["state"] == "running"
    await carry_on_all(front.world.cloud, front.engine)
    assert (await show(front, made))["progress"]["moving"] == 1
    await front.settle()
    await carry_on_all(front.world.cloud, front.engine)
    after = await show(front, made)
    assert (after["state"], after["progress"]["moved"]) == ("done", 1)
    assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"] == server["target"]
    [row] = (await front.get(URL, who="admin"))["maintenances"]
    assert row == {key: value for key, value in after.items() if key not in ("servers", "use")}


async def test_windows_and_budgets_are_shown_with_the_next_change(front: Front) -> None:
    asked = {"zone_at_once": 5, "aggregate_at_once": 2, "project_at_once": 1, "time_zone": "Europe/Berlin"}
    clock, day_s = front.world.remains.clock, 86_400.0
    made = await plan(front, hosts=["h1"], windows=["00:00-12:00", "12:00-24:00"], **asked)
    assert {name: made["budgets"][name] for name in asked if name in made["budgets"]} == {
        "zone_at_once": 5,
        "aggregate_at_once": 2,
        "project_at_once": 1,
    }
    assert (made["windows"], made["time_zone"]) == (["00:00-12:00", "12:00-24:00"], "Europe/Berlin")
    assert (made["opens_at"], made["closes_at"]) == (None, None)  # always open
    clock.advance(day_s - clock.now() % day_s)  # midnight in UTC
    midnight = clock.now()
    at_night = await plan(front, hosts=["h1"], windows=["22:00-04:00"])
    assert (at_night["time_zone"], at_night["opens_at"]) == ("UTC", None)
    assert at_night["closes_at"] == midnight + 4 * 3600
    clock.advance(5 * 3600)
    later = await show(front, at_night)
    assert (later["opens_at"], later["closes_at"]) == (midnight + 22 * 3600, None)
    over = await act(front, at_night, "abort")
    assert (over["opens_at"], over["closes_at"]) == (None, None)


@pytest.mark.parametrize("wrong", [{"windows": ["22-4"]}, {"windows": ["22:00-04:00"], "time_zone": "Nowhere"}])
async def test_a_window_that_is_none_is_refused(front: Front, wrong: Any) -> None:
    answer = await front.ask("POST", URL, {"maintenance": {"hosts": ["h1"], **wrong}}, who="admin")
    assert fault(answer, "badRequest", 400)


@pytest.mark.cloud(cells={"c1": ("h1", "h2"), "c2": ("h3",)})
async def test_zones_aggregates_and_cells_are_targets(front: Front) -> None:
    aggregate = {"aggregate": {"name": "rack", "availability_zone": "north"}}
    made = (await front.ask("POST", "/os-aggregates", aggregate, who="admin")).json()["aggregate"]
    await front.ask("POST", f"/os-aggregates/{made['id']}/action", {"add_host": {"host": "h2"}}, who="admin")
    assert (await plan(front, availability_zone="north"))["hosts"] == ["h2"]
    assert (await plan(front, aggregate="rack"))["hosts"] == ["h2"]
    assert (await plan(front, cell="c2"))["hosts"] == ["h3"]
    assert (await plan(front, hosts=["h3", "h1"]))["target"] == "hosts h3, h1"


@pytest.mark.parametrize(
    "asked",
    [{}, {"hosts": ["h1"], "cell": "c1"}, {"hosts": ["nobody"]}, {"cell": "nobody"}, {"aggregate": "nobody"}],
)
async def test_a_target_that_is_none_is_refused(front: Front, asked: Any) -> None:
    answer = await front.ask("POST", URL, {"maintenance": asked}, who="admin")
    assert fault(answer, "badRequest", 400)


async def test_a_snapshot_for_a_simulation_has_no_secrets(front: Front) -> None:
    data = b64encode(b"the password is swordfish").decode()
    server_id = await front.boot(availability_zone="nova:h1", who="admin", user_data=data, metadata={"a": "swordfish"},
                                 adminPass="swordfish")  # fmt: skip
    made = await plan(front, hosts=["h1"])
    url = f"{URL}/{made['id']}/snapshot"
    answer = await front.ask("GET", url, who="admin")
    assert answer.status_code == 200
    for secret in (data, "swordfish"):
        assert secret not in answer.text
    taken = msgspec.convert(answer.json()["snapshot"], CloudSnapshot)
    assert [(one.id, one.host) for one in taken.servers] == [(server_id, "h1")]
    assert (await front.ask("GET", url)).status_code == 403
    assert (await front.ask("GET", f"{URL}/{UUID(int=1)}/snapshot", who="admin")).status_code == 404
    assert (await show(front, made)) == made


async def test_only_administrators_plan_and_start(front: Front) -> None:
    made = await plan(front, hosts=["h1"])
    for answer in (
        await front.ask("GET", URL),
        await front.ask("POST", URL, {"maintenance": {"hosts": ["h1"]}}),
        await front.ask("POST", f"{URL}/{made['id']}/action", {"start": None}),
    ):
        assert answer.status_code == 403


async def test_what_its_state_does_not_permit_is_refused(front: Front) -> None:
    made = await plan(front, hosts=["h1"])
    for action in ("pause", "resume"):
        answer = await front.ask("POST", f"{URL}/{made['id']}/action", {action: None}, who="admin")
        assert "is planned" in fault(answer, "conflictingRequest", 409)
    assert (await act(front, made, "abort"))["state"] == "aborted"
    answer = await front.ask("POST", f"{URL}/{made['id']}/action", {"start": None}, who="admin")
    assert "is aborted" in fault(answer, "conflictingRequest", 409)
    missing = await front.ask("GET", f"{URL}/none", who="admin")
    assert fault(missing, "itemNotFound", 404) == "Maintenance none could not be found."


@pytest.mark.cloud(rules=MANY)
async def test_one_that_is_under_way_has_metrics_and_one_that_is_paused_is_a_finding(front: Front) -> None:
    watch = Watch(front)
    for _ in range(2):
        await born(front)
    made = await plan(front, hosts=["h1"], name="new disks", at_once=1)
    seen = await watch.look()
    assert (seen("whimbrel_maintenances", state="running"), seen("whimbrel_maintenance_servers", state="planned")) == (
        0,
        0,
    )
    await act(front, made, "start")
    await carry_on_all(front.world.cloud, front.engine)
    seen = await watch.look()
    assert (seen("whimbrel_maintenances", state="running"), seen("whimbrel_maintenances", state="paused")) == (1, 0)
    servers = {state: seen("whimbrel_maintenance_servers", state=state) for state in ("planned", "moving", "moved")}
    assert servers == {"planned": 1, "moving": 1, "moved": 0}
    assert await findings(front) == []
    await act(front, made, "pause")
    [found] = await findings(front)
    assert (found["severity"], found["subject"]) == ("warning", "new disks")
    assert found["text"] == f"maintenance {found['subject']} is paused, its hosts stay disabled: by an operator"
    assert found["command"] == f"whimbrel maintenance show {made['id']}"
    assert (await watch.look())("whimbrel_maintenances", state="paused") == 1
    await act(front, made, "resume")
    await front.settle()
    for _ in range(3):
        await carry_on_all(front.world.cloud, front.engine)
        await front.settle()
    assert await findings(front) == []
    assert (await watch.look())("whimbrel_maintenance_servers", state="moved") == 0  # it is over


async def findings(front: Front) -> list[Any]:
    status = (await front.get("/whimbrel/status", who="admin"))["status"]
    return [each for each in status["findings"] if each["kind"] == "maintenance"]


async def test_a_move_names_the_moves_that_make_room_for_it(front: Front) -> None:
    await born(front, "h1")
    await born(front, "h1")
    made = await plan(front, hosts=["h1"])
    assert [each["waits_for"] for each in made["servers"]] == [[], []]
    maintenances = front.world.cloud.maintenances
    items = await maintenances.items(made["id"])
    await maintenances.save(await maintenances.get(made["id"]), [replace(items[1], waits_for=(items[0].position,))])
    assert [each["waits_for"] for each in (await show(front, made))["servers"]] == [[], [0]]


@pytest.mark.cloud(rules=MANY)
async def test_hosts_are_packed_and_stay_enabled(front: Front) -> None:
    await born(front, "h1")
    few, _ = await born(front, "h2"), await born(front, "h1")
    made = await plan(front, hosts=["h1", "h2", "h3"], goal="pack", on_drift="pause")
    assert (made["goal"], made["spread"], made["is_reached"], made["on_drift"]) == ("pack", None, True, "pause")
    assert made["hosts"] == ["h1", "h2", "h3"]
    [server] = made["servers"]
    assert (server["server_id"], server["source"], server["target"]) == (few, "h2", "h1")
    assert server["purpose"].startswith("h2 becomes empty: at most ")
    of_host = {each["host"]: each for each in made["use"]}
    assert [(each["before"]["servers"], each["after"]["servers"]) for each in of_host.values()] == [
        (2, 3),
        (1, 0),
        (0, 0),
    ]
    assert (of_host["h2"]["after"]["memory"], of_host["h3"]["reason"]) == (0.0, "it is empty")
    await act(front, made, "start")
    await carry_on_all(front.world.cloud, front.engine)
    assert (await show(front, made))["servers"][0]["purpose"] == server["purpose"]
    await act(front, made, "pause")
    [found] = await findings(front)
    assert found["text"] == f"maintenance {found['subject']} is paused: by an operator"
    await act(front, made, "resume")
    await front.settle()
    await carry_on_all(front.world.cloud, front.engine)
    assert (await show(front, made))["state"] == "done"
    assert (await front.show(few, who="admin"))["OS-EXT-SRV-ATTR:host"] == "h1"
    assert all(host.enabled for host in (await front.world.cloud.fleets.now()).hosts)


async def test_hosts_are_balanced_within_a_spread(front: Front) -> None:
    for _ in range(2):
        await born(front, "h1")
    made = await plan(front, hosts=["h1", "h2"], goal="balance", spread=1)
    assert (made["goal"], made["spread"], made["is_reached"]) == ("balance", 1, True)
    assert [server["target"] for server in made["servers"]] == ["h2"]
    assert (await plan(front, hosts=["h1", "h2"], goal="balance"))["spread"] == 10
    emptied = await plan(front, hosts=["h1"])
    assert (emptied["goal"], emptied["spread"], emptied["is_reached"], emptied["use"]) == ("empty", None, None, [])


@pytest.mark.parametrize(
    "wrong", [{"goal": "tidy"}, {"spread": 5}, {"goal": "pack", "spread": 5}, {"goal": "balance", "spread": 0}]
)
async def test_a_goal_that_is_none_is_refused(front: Front, wrong: Any) -> None:
    answer = await front.ask("POST", URL, {"maintenance": {"hosts": ["h1"], **wrong}}, who="admin")
    assert fault(answer, "badRequest", 400)
