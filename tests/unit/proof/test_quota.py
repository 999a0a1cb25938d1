"""What a server counts for while it is resized is known from the step where its resize stands."""

from typing import Any

import pytest
from msgspec.structs import replace

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, ProjectId, RunId, ServerId, UserId
from whimbrel.domain.run import Run
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.placement.placement import Owner
from whimbrel.ports.stores.directory import Entry
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.invariants.quota import counts_once

OLD = Flavor(flavor_id="1", name="old", vcpus=3, memory_mib=512, root_gib=1)
NEW = Flavor(flavor_id="2", name="new", vcpus=2, memory_mib=1024, root_gib=1)
LARGER = (3, 1024)
ONE, PROJECT, USER, CELL = ServerId("s"), ProjectId("p"), UserId("u"), CellName("c1")


def allowed(flavor: Flavor, **where: Any) -> set[tuple[int, int]]:
    """Return what a server with this flavor may count for; where: how its resize stands."""
    return {counted for cpus in (2, 3) for mib in (512, 1024) if is_right(counted := (cpus, mib), flavor, where)}


def is_right(counted: tuple[int, int], flavor: Flavor, where: dict[str, Any]) -> bool:
    entry = Entry(server_id=ONE, project_id=PROJECT, user_id=USER, cell=CELL, unplaced=None, vcpus=counted[0],
                  memory_mib=counted[1], created_at=0.0)  # fmt: skip
    record = Server(id=ONE, project_id=PROJECT, user_id=USER, name="s", hostname="s", flavor=flavor, image_id="i",
                    spec=RequestSpec(), created_at=0.0, updated_at=0.0)  # fmt: skip
    runs = (replace(RESIZING, **where),) if where else ()
    seen = ServerEvidence(id=ONE, entry=entry, records={CELL: record}, runs=runs)
    return not list(counts_once(seen, CloudSnapshot(hosts={}, roots={})))


RESIZING = Run(
    id=RunId("r"),
    saga="resize",
    version=1,
    subject=ONE,
    project_id=PROJECT,
    user_id=USER,
    asker_project_id=PROJECT,
    action="req-1",
    at="lock",
    facts=MoveFacts(owner=Owner(PROJECT, USER), name="s", image_id="i", old_flavor=OLD, new_flavor=NEW),
)


def test_settled_it_counts_as_what_it_is() -> None:
    assert allowed(NEW) == {(2, 1024)}


@pytest.mark.parametrize("at", ["lock", "claim_target", "switch_home", "await_verdict", "destroy_on_source"])
def test_under_way_it_counts_as_the_larger(at: str) -> None:
    for flavor in (OLD, NEW):
        assert allowed(flavor, at=at) == {LARGER}
        assert allowed(flavor, at=at, way="back") == {LARGER}


def test_confirmed_it_counts_as_the_new_one_when_that_is_booked() -> None:
    assert allowed(NEW, at="book_new") == {LARGER, (2, 1024)}
    assert allowed(NEW, at="unlock_resized") == {(2, 1024)}


def test_undone_it_counts_as_the_old_one_when_that_is_booked() -> None:
    assert allowed(OLD, at="book_larger", way="back") == {LARGER, (3, 512)}
    assert allowed(OLD, at="debts", way="back", debts=("book_larger",)) == {LARGER, (3, 512)}
    assert allowed(OLD, at="debts", way="back", debts=("unlock",)) == {(3, 512)}
