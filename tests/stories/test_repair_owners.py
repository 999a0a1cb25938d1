"""Whose a server is, is said by its record, the directory and Placement; where they differ two of a kind decide.

Invariant: the directory's row and the record are written by one request, beside the journal's row of the creation; what
Placement says is a copy.
"""

from collections.abc import Awaitable, Callable

import pytest
import sqlalchemy as sa

from tests.broken_ports import hold
from tests.stories import breaking
from tests.stories.breaking import Scene, run
from tests.stories.test_harmless_repair import changed, left
from tests.stories.test_proof_sees import placement_has_it_of_another_project, the_directory_has_it_of_another_project
from tests.stories.test_repair import repair_all
from whimbrel.adapters.sql.tables.cell import servers as records
from whimbrel.adapters.sql.tables.global_ import runs
from whimbrel.adapters.sql.tables.placement import consumers
from whimbrel.domain.ids import ConsumerId, ProjectId
from whimbrel.ports.stores.directory import Usage
from whimbrel.proof.proof import prove
from whimbrel.repair.service import survey
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.cloud.cloud import PROJECT, USER

Act = Callable[[Scene], Awaitable[None]]
ANOTHER = ProjectId("another")


async def placement_does_not_know_it(scene: Scene) -> None:
    """As in the shell of SQLite, which lets rows be deleted that others name."""
    database = scene.world.remains.databases["placement"]
    database._write_sql("PRAGMA foreign_keys = OFF")
    await run(scene, "placement", sa.delete(consumers).where(consumers.c.uuid == scene.rich.id))
    database._write_sql("PRAGMA foreign_keys = ON")


async def both_say_another_project(scene: Scene) -> None:
    await the_directory_has_it_of_another_project(scene)
    await placement_has_it_of_another_project(scene)


async def its_record_says_another_project(scene: Scene) -> None:
    await changed(scene, scene.plain.id, project_id=ANOTHER)


async def its_record_alone_says_another_project(scene: Scene) -> None:
    """Its columns stay as they were; they are not to be made like it."""
    await its_record_says_another_project(scene)
    await run(scene, "cell_c1", sa.update(records).where(records.c.id == scene.plain.id).values(project_id=PROJECT))


async def and_holds_nothing(scene: Scene) -> None:
    await its_record_alone_says_another_project(scene)
    await hold(scene.world, scene.plain.id, {})


async def record_and_placement_say_another_project(scene: Scene) -> None:
    """They agree, and are both wrong: nothing is said of Placement until the record is right."""
    await its_record_alone_says_another_project(scene)
    await placement_has_it_of_another_project(scene)


MENDED = {
    the_directory_has_it_of_another_project: {"columns_differ"},
    placement_has_it_of_another_project: {"wrong_owner"},
    both_say_another_project: {"columns_differ", "wrong_owner"},
    placement_does_not_know_it: {"no_consumer"},
    its_record_says_another_project: {"columns_differ", "wrong_owner"},
    its_record_alone_says_another_project: {"columns_differ", "wrong_owner"},
    and_holds_nothing: {"columns_differ", "missing_claim"},
    record_and_placement_say_another_project: {"columns_differ"},
}


@pytest.mark.parametrize("act", MENDED, ids=lambda act: act.__name__)
async def test_whose_it_is_is_written_anew(scene: Scene, act: Act) -> None:
    world, before = scene.world, await books(scene.world)
    await act(scene)
    proof, findings = await survey(world.cloud)
    assert {one.kind for one in proof.violations} == MENDED[act]
    assert all(one.plan.actions and not one.plan.left for one in findings), findings
    await repair_all(scene, findings)
    proof = await prove(world.cloud)
    assert proof.holds, proof.violations
    assert await books(world) == before
    ids = [ConsumerId(scene.rich.id), ConsumerId(scene.plain.id)]
    owners = await world.placement.owners(ids)
    assert {(one.project, one.user) for one in owners.values()} == {(PROJECT, USER)}
    assert len(owners) == len(ids)
    assert await world.cloud.directory.usage(ANOTHER) == Usage()


async def the_journal_does_not_know_its_creation(scene: Scene) -> None:
    await the_directory_has_it_of_another_project(scene)
    await run(scene, "global", sa.delete(runs).where(runs.c.subject == scene.plain.id))


async def the_journal_says_a_third(scene: Scene) -> None:
    await the_directory_has_it_of_another_project(scene)
    await run(scene, "global", sa.update(runs).where(runs.c.subject == scene.plain.id).values(project_id="third"))


@pytest.mark.parametrize(
    ("act", "made_for"),
    [(the_journal_does_not_know_its_creation, "no creation of it"), (the_journal_says_a_third, "project third")],
    ids=lambda each: getattr(each, "__name__", ""),
)
async def test_whose_it_is_stays_open_where_no_two_agree(scene: Scene, act: Act, made_for: str) -> None:
    await act(scene)
    [words] = [one for one in await left(scene) if "counts in the directory" in one]
    for said in (
        f"record says project {PROJECT}",
        f"the directory {ANOTHER}",
        f"Placement project {PROJECT}",
        made_for,
    ):
        assert said in words


async def test_columns_that_are_right_are_not_to_be_made_like_a_wrong_record(scene: Scene) -> None:
    await its_record_alone_says_another_project(scene)
    [one] = (await survey(scene.world.cloud))[1]
    assert [action.kind for action in one.plan.actions] == ["record_project"]


async def test_a_guest_that_was_moved_by_hand_is_claimed_for_whom_it_was_made(scene: Scene) -> None:
    world = scene.world
    await its_record_alone_says_another_project(scene)
    await breaking.moved_by_hand(scene)
    await repair_all(scene, (await survey(world.cloud))[1])
    proof = await prove(world.cloud)
    assert proof.holds, proof.violations
    [owner] = (await world.placement.owners([ConsumerId(scene.plain.id)])).values()
    assert owner.project == PROJECT


async def test_columns_are_written_where_the_directory_alone_is_wrong(scene: Scene) -> None:
    """What lists find in the cell and what the directory says are mended by one repair."""
    before = await books(scene.world)
    await the_directory_has_it_of_another_project(scene)
    await run(scene, "cell_c1", sa.update(records).where(records.c.id == scene.plain.id).values(host="h3"))
    _, findings = await survey(scene.world.cloud)
    assert {action.kind for one in findings for action in one.plan.actions} == {"write_columns", "enter_project"}
    await repair_all(scene, findings)
    assert (await prove(scene.world.cloud)).holds
    assert await books(scene.world) == before
