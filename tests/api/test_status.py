"""The status of a cloud by the API: nothing on a new one, then what an operator has to know."""

from dataclasses import replace
from typing import Any

from msgspec import structs

from tests.api.front import Front, fault
from whimbrel.domain.errors import Unavailable
from whimbrel.ports.stores.journal import LastProof
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord
from whimbrel.status.cloud_status import read_status
from whimbrel.status.findings import UNPROVED_S, of_debts

URL = "/whimbrel/status"


async def status(front: Front) -> Any:
    return (await front.get(URL, who="admin"))["status"]


async def kinds(front: Front) -> list[tuple[str, str]]:
    return [(each["severity"], each["kind"]) for each in (await status(front))["findings"]]


async def test_a_dead_conductor_is_the_only_finding_of_a_new_cloud(front: Front) -> None:
    found = await status(front)
    assert [(each["severity"], each["subject"]) for each in found["findings"]] == [("error", "conductor")]
    assert [counts["down"] for counts in found["hosts"].values()] == [0]
    assert [counts["up"] > 0 for counts in found["hosts"].values()] == [True]


async def test_a_host_that_is_forced_down_is_a_warning(front: Front) -> None:
    body = {"force_down": {"forced_down": True, "reason": "its power was cut"}}
    await front.ask("PUT", "/whimbrel/hosts/h1/force-down", body, who="admin")
    [found] = [each for each in (await status(front))["findings"] if each["kind"] == "host"]
    assert (found["severity"], found["subject"], found["command"]) == ("warning", "h1", "whimbrel host show h1")
    assert found["text"].endswith("by admin: its power was cut")


async def test_a_run_that_no_conductor_takes_is_an_error(front: Front) -> None:
    server = await front.boot(settle=False)
    front.world.cloud.clock.advance(31)
    findings = (await status(front))["findings"]
    assert [each["text"] for each in findings if each["kind"] == "run"] == ["a run is due, and no conductor takes it"]
    assert (await status(front))["runs_open"] == 1
    assert server
    await front.world.cloud.restores.hold("a copy was put back", front.world.cloud.clock.now())
    assert [each["kind"] for each in (await status(front))["findings"] if each["kind"] in ("run", "hold")] == ["hold"]


async def test_all_moves_that_are_held_are_an_error(front: Front) -> None:
    await front.world.cloud.restores.hold("the journal is behind host h1", front.world.cloud.clock.now())
    [found] = [each for each in (await status(front))["findings"] if each["kind"] == "hold"]
    assert (found["severity"], found["command"]) == ("error", "whimbrel restore")
    assert "the journal is behind host h1" in found["text"]


async def test_an_old_cloud_that_was_never_proved_has_a_warning_and_violations_are_an_error(front: Front) -> None:
    front.world.cloud.clock.advance(UNPROVED_S + 1)
    assert ("warning", "proof") in await kinds(front)
    await front.world.cloud.journal.note_proof(LastProof(at=front.world.cloud.clock.now(), violations=2, unseen=0))
    assert [each for each in await kinds(front) if each[1] == "proof"] == [("error", "proof")]
    assert (await status(front))["proof"]["violations"] == 2


async def test_services_that_answer_are_listed_and_one_that_does_not_is_an_error(front: Front) -> None:
    assert (await status(front))["services"] == {"placement": True, "image": True, "network": True, "volume": True}
    world = front.world

    class Silent:
        async def volume(self, volume_id: str) -> None:
            raise Unavailable("no answer from the volume service")

    found = await read_status(replace(world.cloud, volumes=Silent()), None, ())
    [silent] = [each for each in found.findings if each.kind == "service"]
    assert (silent.severity, silent.subject) == ("error", "volume")
    assert silent.text == "the volume service does not answer: no answer from the volume service"
    assert found.services["volume"] is False


async def test_undos_that_are_outstanding_are_a_warning(front: Front) -> None:
    tally = structs.replace(await front.world.cloud.journal.tally(0.0), debts={"carry_disk": 2}, debts_since=10.0)
    [found] = of_debts(tally, 100.0)
    assert (found.severity, found.text, found.since) == ("warning", "undos are still to be done: carry_disk (2)", 10.0)
    assert list(of_debts(tally, 20.0)) == []


async def test_only_operators_see_the_status(front: Front) -> None:
    fault(await front.ask("GET", URL), "forbidden", 403)


async def test_processes_are_listed_for_administrators(front: Front) -> None:
    named = {"role": "conductor", "host": "m1", "directory": "/", "release": "0.2.0"}
    for number in (1, 2):
        made = ProcessRecord(id=f"p{number}", name=f"c{number}", pid=number, lock=f"l{number}", **named)
        await front.world.cloud.processes.enter(made, LEASE_S if number == 1 else 0.0)
    found = (await front.get("/whimbrel/processes", who="admin"))["processes"]
    assert [(each["name"], each["pid"], each["live"]) for each in found] == [("c1", 1, True), ("c2", 2, False)]
    fault(await front.ask("GET", "/whimbrel/processes"), "forbidden", 403)
