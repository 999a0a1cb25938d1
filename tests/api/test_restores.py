"""A restore by the API: the journal is behind a host, everything is held, compared, closed, and goes on."""

from tests.api.front import Front, fault
from whimbrel.domain.guest import GuestKey, Order
from whimbrel.domain.ids import HostName, RunId, ServerId, Slot
from whimbrel.reconcilers.rounds import reconcile_slowly
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import CELL

URL = "/whimbrel/restore"
LOST = RunId("99999999-9999-4999-8999-999999999999")
BEGIN = {"begin": {"because": "the disk broke"}}


async def obeyed_by_h1(front: Front, server: ServerId) -> None:
    """Make host h1 obey a run of which the journal has no row, as after a restore."""
    slot = (await lookup.find(front.world.cloud, server)).slot or Slot("")
    await front.world.cloud.agent(CELL, HostName("h1")).unexport_disk(Order(LOST, 2, 7), GuestKey(server, slot))


async def test_a_cloud_that_agrees_with_its_hosts_says_so(front: Front) -> None:
    await front.boot()
    found = (await front.get(URL, who="admin"))["restore"]
    assert (found["held"], found["is_settled"], found["incarnation"]) == (None, True, 1)


async def test_a_journal_that_is_behind_holds_everything_until_the_restore_ends(front: Front) -> None:
    server = ServerId(await front.boot(host="h1", who="admin"))
    await obeyed_by_h1(front, server)
    proof = (await front.get("/whimbrel/proof", who="admin"))["proof"]
    assert [each["kind"] for each in proof["violations"]] == ["journal_behind"]
    await reconcile_slowly(front.world.cloud, front.world.engine("round"))
    found = (await front.get(URL, who="admin"))["restore"]
    assert "no row" in found["held"]["because"]
    assert [(lost["id"], lost["server"], lost["hosts"]) for lost in found["lost"]] == [(LOST, server, ["h1"])]
    refused = await front.ask("POST", f"/servers/{server}/action", {"os-stop": None})
    assert "whimbrel restore" in fault(refused, "serviceUnavailable", 503)
    begun = (await front.ask("POST", URL, BEGIN, who="admin")).json()["restore"]
    assert (begun["incarnation"], begun["held"]["restoring"], begun["is_settled"]) == (2, True, True)
    ended = (await front.ask("POST", URL, {"end": {"force": False}}, who="admin")).json()["restore"]
    assert ended == {"held": None, "reasons": []}
    assert (await front.ask("POST", f"/servers/{server}/action", {"os-stop": None})).status_code == 202
    await front.settle()
    await reconcile_slowly(front.world.cloud, front.world.engine("round"))
    assert (await front.get(URL, who="admin"))["restore"]["held"] is None


async def test_a_restore_does_not_end_while_something_is_wrong_unless_it_is_forced(front: Front) -> None:
    server = ServerId(await front.boot(host="h1", who="admin"))
    await front.ask("POST", URL, BEGIN, who="admin")
    await obeyed_by_h1(front, server)
    ended = (await front.ask("POST", URL, {"end": {"force": False}}, who="admin")).json()["restore"]
    assert ended["held"]
    assert LOST in ended["reasons"][0]
    ended = (await front.ask("POST", URL, {"end": {"force": True}}, who="admin")).json()["restore"]
    assert ended["held"] is None


async def test_only_operators_restore(front: Front) -> None:
    fault(await front.ask("GET", URL), "forbidden", 403)
    for body in (BEGIN, {"end": {"force": True}}):
        fault(await front.ask("POST", URL, body), "forbidden", 403)
