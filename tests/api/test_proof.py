"""The proof by the API: for operators, as one document or step by step."""

import json
from typing import Any

from tests.api.front import Front, fault
from tests.clocks import enter
from whimbrel.domain.ids import ConsumerId, HostName, ProviderId
from whimbrel.placement.provider import Claim
from whimbrel.ports.placement.placement import Owner
from whimbrel.proof.invariants.table import WORDS
from whimbrel.sim.cloud.cloud import CELL, PROJECT, USER

URL = "/whimbrel/proof"
NOBODY = ConsumerId("99999999-9999-4999-8999-999999999999")


async def leak(front: Front) -> None:
    """Create allocations of an unknown consumer."""
    root = next(one.id for one in await front.world.placement.providers() if one.name == "h2")
    held: dict[ProviderId, dict[str, int]] = {root: {"VCPU": 1}}
    await front.world.placement.rewrite([Claim(consumer=NOBODY, owner=Owner(PROJECT, USER), held=held)])


async def test_every_invariant_is_shown_with_its_facts(front: Front) -> None:
    await front.boot()
    proof = (await front.get(URL, who="admin"))["proof"]
    assert proof["holds"]
    assert [each["law"] for each in proof["laws"]] == list(WORDS)
    facts = {each["law"]: each["facts"] for each in proof["laws"]}
    assert facts["I1"] == 2  # its guest, and that it is where the record says
    assert (proof["servers"], proof["hosts"], proof["violations"], proof["unseen"]) == (1, 3, [], [])


async def test_what_does_not_hold_is_shown_with_evidence(front: Front) -> None:
    await leak(front)
    proof = (await front.get(URL, who="admin"))["proof"]
    assert not proof["holds"]
    [one] = proof["violations"]
    assert (one["law"], one["kind"], one["subject"]) == ("I4", "leaked_claim", NOBODY)
    assert one["evidence"] == {"held": ["h2: VCPU 1"]}
    assert [each["violations"] for each in proof["laws"] if each["law"] == "I4"] == [1]


async def test_a_proof_can_be_followed(front: Front) -> None:
    await leak(front)
    answer = await front.ask("GET", f"{URL}?progress=true", who="admin")
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines: list[Any] = [json.loads(line) for line in answer.text.splitlines()]
    *steps, last = lines
    assert {"stage": "guests on hosts", "done": 0, "total": 3} in [each["progress"] for each in steps]
    assert [each["kind"] for each in last["proof"]["violations"]] == ["leaked_claim"]


async def test_who_is_no_operator_sees_nothing(front: Front) -> None:
    fault(await front.ask("GET", URL, who="member"), "forbidden", 403)


async def test_a_host_that_does_not_answer_is_not_proved(front: Front) -> None:
    await front.boot(host="h1", who="admin")
    del front.world.cloud.cell(CELL).agents._agents[HostName("h1")]  # type: ignore[attr-defined]
    proof = (await front.get(URL, who="admin"))["proof"]
    assert not proof["holds"]
    assert proof["violations"] == []
    [unseen] = proof["unseen"]
    assert unseen.startswith("host h1 does not answer")


async def test_a_process_whose_clock_is_wrong_is_named(front: Front) -> None:
    for name, offset_s in (("right", 0.9), ("ahead", 3600.0), ("behind", -90.0)):
        await enter(front.world, name, offset_s)
    proof = (await front.get(URL, who="admin"))["proof"]
    assert proof["holds"]
    ahead, behind = proof["warnings"]
    assert "host of-ahead is 3600.0 s ahead of the database's, as process 42 (conductor ahead) sees it" in ahead
    assert "host of-behind is 90.0 s behind the database's" in behind
