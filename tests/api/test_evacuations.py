"""What users and operators see of evacuations."""

import pytest

from tests.api.front import Front
from tests.api.test_services import id_of, put
from whimbrel.api.http.policy import DEFAULTS
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.http.policy import Policy
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup

ANYWHERE = Policy.load({**DEFAULTS, "compute:servers:resize:cross_cell": "rule:project_member_or_admin"})


async def die(front: Front, host: str) -> None:
    """Make a host lose its power, and an administrator force it down."""
    await front.world.lose_host(HostName(host))
    assert (await put(front, await id_of(front, host), 53, forced_down=True)).status_code == 200


async def born(front: Front, host: str = "h1") -> str:
    return await front.boot(availability_zone=f"nova:{host}", who="admin")


async def drive(front: Front) -> None:
    """Drive what is due, once: it need not end."""
    engine, clock = front.engine, front.world.cloud.clock
    await clock.sleep(engine.lease_s + 1)
    for run in await front.world.cloud.journal.take(engine.name, clock.now(), engine.lease_s, 10):
        await engine.drive(run)


async def test_a_server_of_a_dead_host_is_evacuated(front: Front) -> None:
    server_id = await born(front)
    await die(front, "h1")
    answer = await front.act(server_id, {"evacuate": {}}, who="admin", minor=68)
    assert (answer.status_code, answer.content) == (200, b"")
    await front.settle()
    shown = await front.show(server_id, who="admin")
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert shown["OS-EXT-SRV-ATTR:host"] in ("h2", "h3")
    [migration] = (await front.get("/os-migrations?migration_type=evacuation", who="admin", minor=80))["migrations"]
    assert (migration["status"], migration["migration_type"]) == ("done", "evacuation")
    assert (migration["source_compute"], migration["dest_compute"]) == ("h1", shown["OS-EXT-SRV-ATTR:host"])
    [action, _] = (await front.get(f"/servers/{server_id}/os-instance-actions"))["instanceActions"]
    assert action["action"] == "evacuate"
    found = await front.get(f"/servers/{server_id}/os-instance-actions/{action['request_id']}", who="admin")
    assert [event["event"] for event in found["instanceAction"]["events"]] == [
        "rebuild_server",
        "compute_rebuild_instance",
    ]


@pytest.mark.cloud(rules=Rules(accept_forced_down=False))
async def test_it_waits_for_evidence_and_says_for_what(front: Front) -> None:
    server_id = await born(front)
    await die(front, "h1")
    assert (await front.act(server_id, {"evacuate": {}}, who="admin", minor=68)).status_code == 200
    shown = await front.show(server_id, who="admin")
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("REBUILD", "rebuilding")
    await drive(front)
    [row] = (await front.get(f"/whimbrel/moves?server={server_id}", who="admin"))["moves"]
    assert (row["saga"], row["at"], row["status"]) == ("evacuate", "find_evidence", "accepted")
    assert row["message"] == (
        "waits for evidence that the guest on h1 cannot run: its agent does not answer (no agent of host h1 is here);"
        " it has no fence device; it is forced down, which the rule accept_forced_down does not count"
    )


async def test_a_host_that_is_up_is_not_evacuated(front: Front) -> None:
    server_id = await born(front)
    answer = await front.act(server_id, {"evacuate": {}}, who="admin", minor=68)
    assert answer.status_code == 400
    assert "still in use" in answer.text


@pytest.mark.parametrize(
    ("minor", "asked", "status"),
    [
        (1, {}, 400),
        (1, {"onSharedStorage": False}, 200),
        (1, {"onSharedStorage": True}, 400),
        (13, {"onSharedStorage": "False", "adminPass": "secret"}, 200),
        (14, {"onSharedStorage": False}, 400),
        (14, {"adminPass": "secret"}, 200),
        (28, {"force": False}, 400),
        (29, {"force": False, "host": "h2"}, 200),
        (28, {"force": True, "host": "h2"}, 400),
        (29, {"force": True, "host": "h2"}, 200),
        (29, {"force": True}, 400),
        (67, {"force": True, "host": "h2"}, 200),
        (67, {"force": True, "host": "h1"}, 400),
        (68, {"force": True, "host": "h2"}, 400),
        (68, {"force": False}, 400),
        (68, {"host": "h2"}, 200),
        (68, {"host": "h1"}, 400),
        (68, {"host": "nowhere"}, 404),
    ],
)
async def test_what_is_asked_by_microversion(front: Front, minor: int, asked: dict[str, object], status: int) -> None:
    server_id = await born(front)
    await die(front, "h1")
    answer = await front.act(server_id, {"evacuate": asked}, who="admin", minor=minor)
    assert answer.status_code == status, answer.text
    if status == 200 and minor < 14:
        assert answer.json() == {"adminPass": asked.get("adminPass", answer.json()["adminPass"])}


async def test_a_target_that_is_not_there_is_named_first(front: Front) -> None:
    server_id = await born(front)
    for host, status in (("nowhere", 404), ("h2", 400)):
        answer = await front.act(server_id, {"evacuate": {"host": host}}, who="admin")
        assert answer.status_code == status, answer.text


async def test_a_password_is_erased_from_the_run_when_it_has_ended(front: Front) -> None:
    server_id = await born(front)
    await die(front, "h1")
    await front.act(server_id, {"evacuate": {"adminPass": "new secret"}}, who="admin", minor=14)
    found = RunFilter(subject=ServerId(server_id), sagas=["evacuate"])
    [run] = await front.world.cloud.journal.find(found)
    assert "new secret" in str(run.facts)
    await front.settle()
    [run] = await front.world.cloud.journal.find(found)
    assert run.is_over
    assert "new secret" not in str(run.facts)
    assert (await lookup.find(front.world.cloud, ServerId(server_id))).admin_pass == "new secret"


async def test_a_guest_stays_stopped_from_2_95_on(front: Front) -> None:
    server_id = await born(front)
    await die(front, "h1")
    await front.act(server_id, {"evacuate": {}}, who="admin", minor=95)
    await front.settle()
    assert (await front.show(server_id))["status"] == "SHUTOFF"


async def test_a_locked_server_is_evacuated_and_owners_may_not(front: Front) -> None:
    server_id = await born(front)
    await front.act(server_id, {"lock": None}, who="admin")
    await die(front, "h1")
    assert (await front.act(server_id, {"evacuate": {}}, minor=68)).status_code == 403
    assert (await front.act(server_id, {"evacuate": {}}, who="admin", minor=68)).status_code == 200


@pytest.mark.cloud(cells={"c1": ("h1",), "c2": ("h2",)}, policy=ANYWHERE)
async def test_it_goes_to_another_cell_if_the_policy_says_so(front: Front) -> None:
    server_id = await born(front)
    await die(front, "h1")
    assert (await front.act(server_id, {"evacuate": {}}, who="admin", minor=68)).status_code == 200
    await front.settle()
    assert (await front.show(server_id, who="admin"))["OS-EXT-SRV-ATTR:host"] == "h2"
