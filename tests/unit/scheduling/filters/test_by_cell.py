"""Cells as targets: which may be, which take servers, and which reach what a server has."""

from collections.abc import Sequence
from typing import Any

from tests.unit.scheduling.capacity import aggregate, host, snapshot
from tests.unit.scheduling.passing import asking
from whimbrel.domain.host import Aggregate, Host
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.decision import make_trace
from whimbrel.scheduling.filters.by_cell import CELL, REACH
from whimbrel.scheduling.pipeline import rank
from whimbrel.scheduling.request import GroupState, Request
from whimbrel.scheduling.snapshot import Snapshot

C1, C2, C3 = CellName("c1"), CellName("c2"), CellName("c3")
HOSTS = [host("one", cell=C1), host("two", cell=C2), host("three", cell=C3)]


def cloud(*cells: CellInfo, aggregates: Sequence[Aggregate] = ()) -> Snapshot:
    return snapshot(HOSTS, aggregates=aggregates, cells=cells)


def info(name: CellName, **more: Any) -> CellInfo:
    return CellInfo(name=name, **more)


def left(request: Request, now: Snapshot) -> set[str]:
    return {now.fleet.names[place] for place in rank(request, now).order.tolist()}


def only(request: Request, now: Snapshot) -> Constraint:
    """Return the one constraint that leaves anybody out."""
    [found] = [one for one in rank(request, now).constraints if not one.passes.all()]
    return found


def test_a_target_is_in_one_of_the_cells_that_are_asked_for() -> None:
    now = cloud()
    assert left(asking(), now) == {"one", "two", "three"}
    assert left(asking(home_cell=C1, cells=frozenset({C1, C3})), now) == {"one", "three"}
    assert left(asking(cells=frozenset({CellName("gone")})), now) == set()


def test_a_disabled_cell_keeps_its_servers_and_takes_no_others() -> None:
    now = cloud(info(C1), info(C2, enabled=False))
    assert left(asking(), now) == {"one", "three"}
    assert left(asking(home_cell=C1), now) == {"one", "three"}
    assert left(asking(home_cell=C2, cells=frozenset({C2})), now) == {"two"}
    found = only(asking(), now)
    assert (found.name, found.words) == (CELL, "its cell is disabled")
    assert found.suggestion(1) == "its cell enabled (whimbrel cell enable c2)"


def test_who_may_leave_a_disabled_cell_does_unless_a_host_is_named() -> None:
    now = cloud(info(C1), info(C2, enabled=False))
    assert left(asking(home_cell=C2), now) == {"one", "three"}
    assert left(asking(home_cell=C2, host=HostName("two")), now) == {"two"}
    assert left(asking(home_cell=C1, host=HostName("two")), now) == set()


def test_a_cell_that_does_not_reach_a_network_is_out() -> None:
    now = cloud(info(C1, physnets=frozenset({"front", "back"})), info(C2, physnets=frozenset({"front"})))
    asked = asking(networks={"back": "network blue"})
    assert left(asked, now) == {"one", "three"}  # of the third nothing is written down
    assert left(asking(networks={"front": "network red"}), now) == {"one", "two", "three"}
    found = only(asked, now)
    assert (found.name, found.words) == (REACH, "it does not reach the physical network of network blue")
    assert found.suggestion(1) == "the physical network 'back' among those of its cell, c2"


def test_a_cell_that_does_not_reach_a_storage_back_end_is_out() -> None:
    now = cloud(info(C1, storage=frozenset({"ceph"})), info(C2, storage=frozenset()))
    asked = asking(storage=frozenset({"ceph"}))
    assert left(asked, now) == {"one", "three"}
    assert only(asked, now).suggestion(1) == "the storage back end 'ceph' among those of its cell, c2"
    assert left(asking(storage=frozenset({"ceph", "lvm"})), now) == {"three"}


def test_aggregates_may_say_what_some_of_a_cells_hosts_reach() -> None:
    said = [
        aggregate(1, ["one"], physnets="front, back"),
        aggregate(2, ["one", "two"], physnets="other", storage_backends="lvm"),
    ]
    now = cloud(info(C1), aggregates=said)
    asked = asking(networks={"back": "network blue"})
    assert left(asked, now) == {"one", "three"}
    assert only(asked, now).suggestion(1) == "the physical network 'back' under physnets of an aggregate of it"
    assert left(asking(networks={"other": "network green"}), now) == {"one", "two", "three"}
    assert left(asking(storage=frozenset({"ceph"})), now) == {"three"}


def test_what_an_aggregate_says_does_not_reach_beyond_its_cell() -> None:
    now = cloud(info(C1, physnets=frozenset({"front"})), aggregates=[aggregate(1, ["one"], physnets="back")])
    assert left(asking(networks={"back": "network blue"}), now) == {"two", "three"}


def test_the_reason_is_shown_and_what_would_help() -> None:
    now = cloud(info(C1, storage=frozenset()), info(C2, storage=frozenset()), info(C3, storage=frozenset()))
    record = make_trace(rank(asking(storage=frozenset({"ceph"})), now), {}, ())
    assert record.summary() == (
        "No valid host was found. Of 3 hosts considered, 3: it does not reach the storage that volumes of the server"
        " are on."
    )
    assert record.misses[0].remedies == ("the storage back end 'ceph' among those of its cell, c1",)


def test_cells_that_did_not_answer_are_reported_where_they_come_into_question() -> None:
    def told(asked: Request, *hosts: Host) -> str:
        now = snapshot(hosts, {"one": {}}, unreachable=["c2", "c3"])
        return make_trace(rank(asked, now), {}, ()).summary()

    full = "No valid host was found. Of 1 host considered, 1: 1 VCPU is more than the maximum for one server there."
    assert told(asking(), HOSTS[0]) == f"{full} 2 of the cells did not answer; their hosts are not among them."
    assert told(asking(cells=frozenset({C1})), HOSTS[0]) == full
    assert told(asking(cells=frozenset({C2}))) == "No valid host was found: no cell answers."


def test_a_plan_names_what_lets_a_server_over_the_border_of_its_cell_and_promises_no_group_a_way() -> None:
    now = cloud()
    kept = only(asking(home_cell=C1, cells=frozenset({C1})), now)
    assert (
        kept.suggestion(1)
        == "servers that may leave their cell, one by one (policy rule compute:servers:resize:cross_cell)"
    )
    group = GroupState(policy="affinity", members={now.fleet.providers[0]: 1})
    together = only(asking(home_cell=C1, group=group), now)
    remedies = [together.suggestion(place) for place in range(3)]
    assert remedies == ["the whole group moved there (whimbrel server move --group)", None, None]
