"""The evacuation of whole hosts, and the administrator's word, as operators see them."""

from typing import Any

import msgspec
import pytest

from tests.api.front import Front
from tests.api.test_evacuations import born, die, drive
from tests.api.test_services import id_of, put
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.moves.evacuation_facts import EvacuationFacts
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.journal import RunFilter

MANY = Rules(cpu_allocation_ratio=16.0)


async def go_on(front: Front, host: str, **asked: Any) -> Any:
    answer = await front.ask("POST", f"/whimbrel/hosts/{host}/evacuation", {"evacuation": asked}, who="admin")
    assert answer.status_code == 202, answer.text
    return answer.json()["evacuation"]


async def say(front: Front, host: str, **word: Any) -> Any:
    return await front.ask("PUT", f"/whimbrel/hosts/{host}/force-down", {"force_down": word}, who="admin")


async def evidence_of(front: Front) -> list[Any]:
    runs = await front.world.cloud.journal.find(RunFilter(sagas=("evacuate",)))
    return [run.facts.evidence for run in runs if isinstance(run.facts, EvacuationFacts)]


@pytest.mark.cloud(rules=MANY)
async def test_servers_are_evacuated_several_at_once_the_most_important_first(front: Front) -> None:
    await born(front)
    vip = await front.boot(availability_zone="nova:h1", who="admin", metadata={"evacuation_priority": "7"})
    await born(front)
    await die(front, "h1")
    first = await go_on(front, "h1", at_once=1)
    assert (first["begun"], first["under_way"], first["to_go"], first["arrived"]) == (1, 1, 2, 0)
    assert (await front.show(vip))["OS-EXT-STS:task_state"] == "rebuilding"
    again = await go_on(front, "h1", at_once=1, since=first["since"])
    assert (again["begun"], again["under_way"]) == (0, 1)
    await front.settle()
    second = await go_on(front, "h1", since=first["since"])
    assert (second["begun"], second["to_go"], second["arrived"], second["is_over"]) == (2, 0, 1, False)
    await front.settle()
    last = await go_on(front, "h1", since=first["since"])
    assert (last["begun"], last["arrived"], last["left"], last["is_over"]) == (0, 3, [], True)


@pytest.mark.cloud(rules=msgspec.structs.replace(MANY, evacuations_per_minute=2))
async def test_no_more_begin_in_a_minute_than_may(front: Front) -> None:
    for _ in range(5):
        await born(front)
    await die(front, "h1")
    clock = front.world.cloud.clock
    first = await go_on(front, "h1")
    assert (first["begun"], first["to_go"], first["per_minute"], first["next_in_s"]) == (2, 3, 2, 60.0)
    await front.settle()
    await clock.sleep(15)
    second = await go_on(front, "h1", since=first["since"])
    assert (second["begun"], second["under_way"], second["arrived"], second["is_over"]) == (0, 0, 2, False)
    assert second["next_in_s"] <= 45
    third = await go_on(front, "h1", since=first["since"], per_minute=3)
    assert (third["begun"], third["to_go"], third["per_minute"]) == (1, 2, 3)
    await front.settle()
    await clock.sleep(second["next_in_s"])
    fourth = await go_on(front, "h1", since=first["since"])
    assert (fourth["begun"], fourth["to_go"]) == (1, 1)
    fifth = await go_on(front, "h1", since=first["since"], per_minute=0)
    assert (fifth["begun"], fifth["to_go"], fifth["next_in_s"]) == (1, 0, None)


async def test_an_evacuation_that_was_requested_by_itself_counts(front: Front) -> None:
    server_id = await born(front)
    await born(front)
    await die(front, "h1")
    assert (await front.act(server_id, {"evacuate": {}}, who="admin", minor=68)).status_code == 200
    only = await go_on(front, "h1", per_minute=1)
    assert (only["begun"], only["under_way"], only["to_go"], only["next_in_s"]) == (0, 1, 1, 60.0)


async def test_what_arrived_before_the_first_request_is_counted(front: Front) -> None:
    """The administrator's word is evidence: an evacuation that waited for some ends before the host is evacuated."""
    server_id = await born(front)
    await die(front, "h1")
    assert (await front.act(server_id, {"evacuate": {}}, who="admin", minor=68)).status_code == 200
    await front.settle()
    await front.world.cloud.clock.sleep(1)
    only = await go_on(front, "h1")
    assert (only["begun"], only["arrived"], only["is_over"]) == (0, 1, True)


@pytest.mark.cloud(cells={"c1": ("h1",)})
async def test_what_was_undone_before_the_first_request_is_begun_again(front: Front) -> None:
    await born(front)
    await die(front, "h1")
    first = await go_on(front, "h1")
    await front.settle()
    assert len((await go_on(front, "h1", since=first["since"]))["left"]) == 1
    await front.world.cloud.clock.sleep(1)
    again = await go_on(front, "h1")
    assert (again["begun"], again["left"], again["is_over"]) == (1, [], False)


@pytest.mark.cloud(cells={"c1": ("h1",)})
async def test_a_server_without_a_host_to_go_to_is_left_with_the_reason(front: Front) -> None:
    server_id = await born(front)
    await die(front, "h1")
    first = await go_on(front, "h1")
    await front.settle()
    [left] = (await go_on(front, "h1", since=first["since"]))["left"]
    assert left["server"] == server_id
    assert left["reason"].startswith("No valid host")
    assert (await front.show(server_id))["status"] == "ACTIVE"


async def test_a_server_with_an_open_run_is_left_and_the_run_is_named(front: Front) -> None:
    server_id = await born(front)
    await front.act(server_id, {"migrate": None}, who="admin")
    run = await front.world.cloud.journal.open_run(ServerId(server_id))
    assert run
    await die(front, "h1")
    [left] = (await go_on(front, "h1"))["left"]
    assert left["reason"] == f"migrate {run.id} is under way: whimbrel move show {run.id}"


async def test_a_host_that_is_up_is_not_evacuated(front: Front) -> None:
    answer = await front.ask("POST", "/whimbrel/hosts/h1/evacuation", {"evacuation": {}}, who="admin")
    assert answer.status_code == 400
    assert "Host h1 is up (last heartbeat: 0 s ago; without one for 60 s it is down)" in answer.text
    assert "whimbrel host force-down h1 --reason" in answer.text
    assert (await front.ask("POST", "/whimbrel/hosts/h1/evacuation", {"evacuation": {}})).status_code == 403


async def test_who_said_that_it_is_dead_is_recorded_and_kept_as_evidence(front: Front) -> None:
    await born(front)
    await front.world.lose_host(HostName("h1"))
    assert (await say(front, "h1", forced_down=True)).status_code == 400
    shown = (await say(front, "h1", forced_down=True, reason="pulled the plug")).json()["host"]
    assert (shown["forced_down"], shown["forced_down_by"], shown["forced_down_reason"]) == (
        *(True, "admin"),
        "pulled the plug",
    )
    await go_on(front, "h1")
    await front.settle()
    [evidence] = await evidence_of(front)
    assert (evidence.kind, evidence.origin, evidence.detail) == ("administrator", "admin", "pulled the plug")
    assert evidence.at == shown["forced_down_at"]
    withdrawn = (await say(front, "h1", forced_down=False)).json()["host"]
    assert (withdrawn["forced_down"], withdrawn["forced_down_by"], withdrawn["state"]) == (False, None, "up")


async def test_a_reason_can_be_given_by_the_compute_api_too(front: Front) -> None:
    id = await id_of(front, "h1")
    assert (await put(front, id, 53, forced_down_reason="off")).status_code == 400
    assert (await put(front, id, 53, forced_down=True, forced_down_reason="off")).status_code == 200
    await put(front, id, 53, status="disabled")
    host = (await front.get("/whimbrel/hosts/h1", who="admin"))["host"]
    assert (host["forced_down"], host["forced_down_reason"], host["enabled"]) == (True, "off", False)


@pytest.mark.cloud(rules=Rules(accept_forced_down=False))
async def test_an_evacuation_that_waits_shows_for_what(front: Front) -> None:
    await born(front)
    await die(front, "h1")
    first = await go_on(front, "h1")
    await drive(front)
    second = await go_on(front, "h1", since=first["since"])
    assert (second["waiting"], second["is_over"]) == (1, False)
    assert second["why"].startswith("waits for evidence that the guest on h1 cannot run: its agent does not answer")
