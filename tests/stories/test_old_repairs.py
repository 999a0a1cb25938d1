"""Repairs that an older release wrote down: each is read as it was written, and an open one comes to its end.

old_repairs.json has what the release of 82a394a wrote of one repair of each kind: when it was accepted, and when it had
looked again.
"""

import json
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from tests.stories.breaking import ADOPTED, MENDED, Scene, run
from tests.stories.test_repair import a_scene
from tests.stories.test_repair_crashes import OF_OWNERS
from tests.stories.test_repair_older import OLDER
from whimbrel.adapters.sql.tables.global_ import runs
from whimbrel.adapters.unknown_fields import unknown_field
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.ids import ServerId
from whimbrel.proof.proof import prove
from whimbrel.repair.service import REPAIR, REPAIR_1, REPAIR_2, REPAIR_3, repair, survey

OLD = json.loads(Path(__file__).with_name("old_repairs.json").read_bytes())
BREAKS = {one.name: one for one in (*MENDED, *OF_OWNERS, *OLDER, ADOPTED)}
KINDS = 24

NAMES_OTHER_THINGS = {
    "a deleted server has a volume",
    "the disk of a move lies in the image service",
    "a move that waits has lost its lock",
    "an entry of a deleted server is open",
}
"""Samples that name an attachment, an image or a run of the cloud that they were taken from."""

TOLD = sorted(OLD.keys() - NAMES_OTHER_THINGS)


def filled(sample: object, scene: Scene) -> bytes:
    """Return a sample about the servers of this cloud."""
    text = json.dumps(sample)
    for name in ("rich", "plain", "gone"):
        server = getattr(scene, name)
        text = text.replace(f"{{{name}.id}}", server.id).replace(f"{{{name}.slot}}", server.slot or "")
    return text.encode()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", OLD)
def test_facts_of_an_older_release_are_read_and_written_as_they_were(name: str, version: int) -> None:
    kind = SAGAS.facts_type("repair", version)
    for sample in OLD[name]:
        document = json.dumps(sample).encode()
        assert unknown_field(document, kind) is None
        assert json.loads(msgspec.json.encode(msgspec.json.decode(document, type=kind))) == sample


def test_there_is_a_sample_of_each_kind_of_action() -> None:
    kinds = {action["kind"] for samples in OLD.values() for sample in samples for action in sample["agreed"]}
    assert len(kinds) == KINDS
    written = {part for samples in OLD.values() for sample in samples for part in sample}
    assert written >= {"agreed", "mends", "held", "due", "settled", "left_cell", "beside", "waiting"}


def test_the_lines_of_released_versions_are_frozen() -> None:
    """They are made from the table of actions."""
    lists = (REPAIR_1, REPAIR_2, REPAIR_3, REPAIR)
    first, second, third, fourth = ([step.name for step in saga.steps] for saga in lists)
    since_2 = ["erase_entry", "settle_record", "enter_cell", "erase_left"]
    since_4 = ["report_snapshots", "end_merges"]
    assert [name for name in fourth if name not in since_4] == third
    assert fourth[fourth.index("detach_volumes") - 2 :][:2] == since_4
    assert [name for name in third if name != "end_swaps"] == second
    assert third[third.index("end_swaps") + 1] == "detach_volumes"
    assert second == ["take", "look_again", *since_2, *first[2:]]
    assert first == [
        *("take", "look_again", "record_project", "name_owner", "claim_due", "adopt_record", "erase_copies"),
        *("stand_alone", "adopt_guest", "destroy_guests", "bind_ports", "let_go_bindings", "let_go_ports"),
        *("detach_volumes", "release_devices", "release_claim", "recount", "tell_zone", "enter_project", "book"),
        *("delete_images", "repaired"),
    ]


async def goes_on(name: str, version: int, *, has_looked: bool) -> None:
    """Begin a repair, replace its row by that of the older release, and carry it to its end."""
    scene = await a_scene()
    await BREAKS[name].act(scene)
    world, engine = scene.world, scene.world.engine("old", adopt=lambda run: True)  # only this test drives it
    _, [finding, *_] = await survey(world.cloud)
    begun, _ = await repair(world.cloud, engine, world.requester(), ServerId(finding.subject))
    for _ in range(2 if has_looked else 0):  # take, look_again
        await engine._step(await world.cloud.journal.get(begun.id))
    row = {"version": version, "facts": filled(OLD[name][has_looked], scene)}
    await run(scene, "global", sa.update(runs).where(runs.c.id == begun.id).values(**row))
    await engine.drive(await world.cloud.journal.get(begun.id))
    ended = await world.cloud.journal.get(begun.id)
    assert (ended.state, ended.message, ended.problem) == ("done", None, None)
    assert (await prove(world.cloud)).holds
    await world.close()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", [name for name in TOLD if "settle_record" not in str(OLD[name])])
async def test_a_repair_that_an_older_release_accepted_comes_to_its_end(name: str, version: int) -> None:
    await goes_on(name, version, has_looked=False)


@pytest.mark.parametrize("name", TOLD)
async def test_a_repair_in_the_middle_comes_to_its_end(name: str) -> None:
    await goes_on(name, 2, has_looked=True)
