"""What happened to a server, and how it stood: told from rows alone, made by hand here."""

from typing import Any

import pytest
from msgspec.structs import replace

from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, ProjectId, ProviderId, RunId, ServerId, Slot, UserId
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Action, LogEntry, Run
from whimbrel.history.history import Past, events_of
from whimbrel.history.state_at import EFFECTS, ServerState, server_state_at
from whimbrel.moves.facts import Location, MoveFacts
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.stores.journal import Evidence, Takeover
from whimbrel.repair.actions import AdoptGuest, CorrectQuota
from whimbrel.repair.facts import RepairFacts

SERVER = ServerId("s")
USER, PROJECT = UserId("u"), ProjectId("p")
SMALL = Flavor(flavor_id="1", name="small", vcpus=1, memory_mib=512, root_gib=1)
LARGE = Flavor(flavor_id="2", name="large", vcpus=2, memory_mib=1024, root_gib=2)


def place(host: str, cell: str = "c1") -> Location:
    return Location(
        cell=CellName(cell), host=HostName(host), provider=ProviderId(host), zone=f"zone of {host}", slot=Slot("s")
    )


def step(began: float, name: str, way: Any = "do", outcome: Any = "done", **more: Any) -> LogEntry:
    return LogEntry(step=name, way=way, began=began, took_s=0.5, outcome=outcome, **more)


def a_run(name: str, began: float, *log: LogEntry, saga: str = "resize", facts: Any = None, **more: Any) -> Run:
    facts = facts or MoveFacts(
        owner=Owner(PROJECT, USER),
        name="s",
        image_id=None,
        old_flavor=SMALL,
        new_flavor=LARGE,
        source=place("h1"),
        target=place("h2", "c2"),
        tried=(HostName("h2"),),
    )
    run = Run(
        id=RunId(name),
        saga=saga,
        version=1,
        subject=SERVER,
        project_id=PROJECT,
        user_id=USER,
        asker_project_id=PROJECT,
        action=f"req-{name}",
        at="",
        facts=facts,
        log=log,
        created_at=began,
        updated_at=began,
    )
    return replace(run, **more)


def asked(run: Run, name: str, at: float, request: str = "") -> Action:
    return Action(
        server_id=SERVER,
        request_id=request or run.action,
        name=name,
        project_id=PROJECT,
        user_id=USER,
        run_id=run.id,
        started_at=at,
    )


def reset(at: float) -> Action:
    return replace(asked(a_run("none", 0.0), "resetState", at, f"reset-{at}"), run_id=None)


def operation(name: str, began: float, was: str, *log: LogEntry) -> Run:
    facts = OperationFacts(cell=CellName("c1"), host=HostName("h1"), slot=Slot("s"), was=was, shows=None)
    return a_run(name, began, *log, saga=name, facts=facts, state="done", finished_at=began + 5)


# What happened


def test_what_has_the_same_time_stays_in_its_order() -> None:
    run = a_run("m", 1.0, step(1.0, "lock"), step(1.0, "choose_target"), state="done", finished_at=1.0)
    told = events_of(
        Past(
            actions=[asked(run, "resize", 1.0)],
            runs=[run],
            choices={run.id: [Evidence(step="choose_target", at=1.0, document=b"")]},
        )
    )
    assert [(each.kind, each.what) for each in told] == [
        *[("asked", "resize"), ("step", "lock"), ("step", "choose_target"), ("choice", "choose_target")],
        ("ended", "done"),
    ]


def test_a_debt_is_shown_when_it_is_made_and_when_it_is_paid() -> None:
    log = (
        step(1.0, "bind_target", outcome="refused", detail="no"),
        step(2.0, "bind_target", "undo", "debt", detail="no answer"),
        step(3.0, "lock", "undo"),
        step(9.0, "bind_target", "undo"),
    )
    run = a_run("m", 1.0, *log, state="undone", turned="refused", finished_at=10.0, message="no")
    told = events_of(Past(actions=[], runs=[run]))
    assert [(each.kind, each.what, each.outcome) for each in told] == [
        ("step", "bind_target", "refused"),
        ("debt", "bind_target", "debt"),
        ("step", "lock", "done"),
        ("paid", "bind_target", "done"),
        ("ended", "undone", "refused"),
    ]
    assert (told[-1].took_s, told[-1].detail) == (9.0, "no")


def test_a_verdict_stands_before_the_steps_that_serve_it() -> None:
    run = a_run("m", 1.0, step(1.0, "lock", action="req-m"), step(5.0, "await_verdict", action="req-c"))
    told = events_of(Past(actions=[asked(run, "resize", 1.0), asked(run, "confirmResize", 5.0, "req-c")], runs=[run]))
    assert [(each.kind, each.what) for each in told] == [
        ("asked", "resize"),
        ("step", "lock"),
        ("verdict", "confirm"),
        ("step", "await_verdict"),
    ]


def test_what_is_in_the_way_of_an_open_run_is_shown() -> None:
    waits = a_run("m", 1.0, at="bind_target", message="no answer", updated_at=7.0)
    [told] = events_of(Past(actions=[], runs=[waits]))
    assert (told.at, told.kind, told.what, told.detail) == (7.0, "trouble", "bind_target", "no answer")
    [told] = events_of(Past(actions=[], runs=[replace(waits, message=None, problem="Traceback ...")]))
    assert told.detail == "it stopped at a bug"


def test_take_overs_and_requests_without_a_run_are_shown() -> None:
    run = a_run("m", 1.0, step(1.0, "lock"), step(9.0, "choose_target"))
    takeover = Takeover(run_id=run.id, at=5.0, was="a", by="b", epoch=2)
    told = events_of(Past(actions=[reset(3.0)], runs=[run], takeovers=[takeover]))
    assert [each.kind for each in told] == ["step", "asked", "takeover", "step"]
    assert (told[2].takeover, told[2].saga, told[1].what) == (takeover, "resize", "resetState")


# How it stood


def stood(at: float, *runs: Run, actions: tuple[Action, ...] = (), now: str | None = "active") -> ServerState:
    return server_state_at(Past(runs=runs, actions=actions), at, now)


def test_a_move_counts_from_when_its_home_was_switched() -> None:
    run = a_run("m", 1.0, step(1.0, "lock"), step(3.0, "switch_home"), state="parked")
    before, after = stood(3.4, run), stood(3.5, run)
    assert (before.cell, before.host, before.zone, before.flavor, before.vm_state) == (
        *("c1", "h1", "zone of h1", SMALL),
        "active",
    )
    assert (after.cell, after.host, after.zone, after.flavor, after.vm_state) == (
        *("c2", "h2", "zone of h2", LARGE),
        "resized",
    )
    assert [(each.step, each.way) for each in after.under_way] == [("switch_home", "do")]
    assert stood(0.9, run) == ServerState()


def test_a_revert_puts_it_back() -> None:
    undone = (step(5.0, "switch_home", "undo"), step(6.0, "lock", "undo"))
    run = a_run("m", 1.0, step(3.0, "switch_home"), *undone, state="undone", turned="reverted", finished_at=7.0)
    assert (stood(5.5, run).host, stood(5.5, run).flavor, stood(5.5, run).vm_state) == ("h1", SMALL, "resized")
    assert (stood(7.0, run).vm_state, stood(7.0, run).under_way) == ("active", ())


def test_what_was_refused_or_is_owed_changed_nothing() -> None:
    log = (step(3.0, "switch_home", outcome="refused"), step(4.0, "switch_home", "undo", "debt"))
    run = a_run("m", 1.0, *log)
    assert (stood(9.0, run).host, stood(9.0, run).vm_state) == ("h1", "active")


def test_a_create_that_went_on_to_another_host() -> None:
    hosts = (HostName("h1"), HostName("h2"))
    facts = replace(a_run("x", 0.0).facts, source=None, old_flavor=None, new_flavor=SMALL, tried=hosts)
    log = (
        step(1.0, "place"),
        step(2.0, "build_disk", outcome="refused"),
        step(3.0, "place", "undo"),
        step(4.0, "place"),
        step(5.0, "activate"),
    )
    run = a_run("c", 0.0, *log, saga="create", facts=facts, state="done", finished_at=6.0)
    assert (stood(0.0, run).vm_state, stood(0.0, run).host, stood(0.0, run).flavor) == ("building", None, SMALL)
    assert [stood(at, run).host for at in (1.5, 2.5, 3.5, 4.5)] == ["h1", "h1", None, "h2"]
    assert [stood(at, run).vm_state for at in (4.5, 5.5)] == ["building", "active"]


def test_operations_set_the_state_and_a_delete_ends_it() -> None:
    runs = (
        operation("stop", 1.0, "active", step(1.0, "settle_stopped")),
        operation("start", 11.0, "stopped", step(11.0, "settle_started")),
        operation("delete", 21.0, "active", step(22.0, "close_record"), step(23.0, "erase_entry")),
    )
    assert [stood(at, *runs).vm_state for at in (1.0, 1.5, 11.5, 22.0, 22.5)] == [
        *("active", "stopped", "active", "active"),
        "deleted",
    ]
    assert stood(30.0, *runs).host is None


@pytest.mark.parametrize(
    ("resets", "then", "known"),
    [
        ((5.0,), "error", "error"),  # what the next run found
        ((5.0, 6.0), "error", None),  # what it was between two resets nobody saw
        ((5.0,), None, "the record's"),
    ],
)
def test_what_an_administrator_set_is_known_from_who_looked_next(
    resets: tuple[float, ...], then: str | None, known: str | None
) -> None:
    runs = [operation("stop", 1.0, "active", step(1.0, "settle_stopped"))]
    if then:
        runs.append(operation("reboot", 10.0, then, step(10.0, "settle_rebooted")))
    actions = tuple(map(reset, resets))
    assert stood(5.5, *runs, actions=actions, now="the record's").vm_state == known
    assert stood(4.0, *runs, actions=actions, now="the record's").vm_state == "stopped"


def test_a_guest_that_a_repair_adopted_counts_from_then() -> None:
    action = AdoptGuest(sentence="", cell=CellName("c1"), host=HostName("h3"), slot=Slot("s"))
    stop = operation("stop", 1.0, "active", step(1.0, "settle_stopped"))
    facts = RepairFacts(
        cell=CellName("c1"), host=HostName("h1"), slot=None, was="stopped", shows=None,
        agreed=(action,), actions=(action,),
    )  # fmt: skip
    run = a_run("r", 11.0, step(12.0, "adopt_guest"), saga="repair", facts=facts, state="done", finished_at=13.0)
    assert [(stood(at, stop, run).host, stood(at, stop, run).vm_state) for at in (12.0, 12.5)] == [
        ("h1", "stopped"),
        ("h3", "stopped"),
    ]


def test_a_repair_says_what_it_was_to_do_once_it_was_asked_for() -> None:
    action = CorrectQuota(sentence="count server s for 1 cpus and 512 MiB")
    facts = RepairFacts(cell=None, host=None, slot=None, was="active", shows=None, agreed=(action,))
    run = a_run("r", 11.0, step(12.0, "book"), saga="repair", facts=facts, state="done", finished_at=13.0)
    past = Past(actions=[asked(run, "repair", 11.1)], runs=[run])
    told = [(entry.kind, entry.what, entry.detail) for entry in events_of(past)]
    assert told[:3] == [
        ("asked", "repair", None),
        ("agreed", "book", "count server s for 1 cpus and 512 MiB"),
        ("step", "book", None),
    ]


def test_what_is_done_under_the_id_of_a_deleted_server_leaves_it_deleted() -> None:
    gone = operation("delete", 1.0, "active", step(1.0, "erase_entry"))
    facts = RepairFacts(cell=None, host=None, slot=None, was="active", shows=None, agreed=())
    run = a_run("r", 11.0, saga="repair", facts=facts, state="done", finished_at=13.0)
    assert stood(20.0, gone, run).vm_state == "deleted"


def test_every_step_that_changes_the_record_is_one_that_there_is() -> None:

    names = {step.name for saga in SAGAS for step in saga.steps}
    assert {name for name, _ in EFFECTS} <= names
