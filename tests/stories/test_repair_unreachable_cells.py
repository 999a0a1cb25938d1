"""A cell that does not answer is named, and its servers are neither checked nor changed; all others are repaired."""

from collections.abc import Awaitable, Callable
from dataclasses import replace as with_
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.booting import boot_server
from tests.stories import breaking
from tests.stories.breaking import MENDED, Break, Scene
from tests.stories.grouped import GROUP
from whimbrel.adapters.sql.tables.cell import servers as records
from whimbrel.domain.errors import Invalid, Unavailable
from whimbrel.domain.ids import CellName, ServerId
from whimbrel.domain.server import RequestSpec
from whimbrel.moves import requests
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.proof.proof import prove
from whimbrel.repair.service import repair, survey
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.cloud.cloud import LARGE, PROJECT, USER, World

C1, C2 = CellName("c1"), CellName("c2")
ANYWHERE = (
    "a stranger holds something",
    "a run that is over holds something",
    "the directory lost a row",
    "the directory lost the row of a locked server",
    "a cell has a copy of a record",
    "a record stands as if there were a copy",
)
"""What is broken under an id that the directory has in no cell, or that there may be a copy of: every cell counts."""


class Away:
    """A store that does not answer, or does so a few times only."""

    changes = 0

    def __init__(self, there: Any = None, answers: int = 0) -> None:
        self._there = there
        self._answers = answers

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*arguments: Any, **named: Any) -> Any:
            if not self._answers:
                raise Unavailable("its database is away")
            self._answers -= 1
            return await getattr(self._there, name)(*arguments, **named)

        return ask


def without(cloud: Cloud, cell: CellName, *stores: str, answers: int = 0) -> Cloud:
    """Return the same cloud with these stores of a cell away."""
    there: Cell = cloud.cells[cell]
    away: dict[str, Any] = {name: Away(getattr(there, name), answers) for name in stores}
    return with_(cloud, cells={**cloud.cells, cell: with_(there, **away)})


ALL = ("hosts", "servers", "devices")


@pytest.mark.parametrize("broken", [one for one in MENDED if one.name not in ANYWHERE], ids=str)
async def test_what_is_broken_in_one_cell_is_repaired_while_another_is_unreachable(scene: Scene, broken: Break) -> None:
    before = await books(scene.world)
    await broken.act(scene)
    cloud, engine = without(scene.world.cloud, C2, *ALL), scene.world.engine("repair")
    proof, findings = await survey(cloud)
    assert {one.kind for one in proof.violations} == broken.names
    assert [one.split(" (")[0] for one in proof.not_checked] == ["cell c2 did not answer"]
    for one in findings:
        _, said = await repair(cloud, engine, scene.world.requester(), ServerId(one.subject))
        assert said.not_checked == ("cell c2 did not answer (its database is away): its servers were not checked",)
    await scene.world.settle(scene.world.engine("repair", cloud))
    assert await books(scene.world) == before
    proof = await prove(cloud)
    assert (proof.violations, proof.holds) == ((), False)


@pytest.mark.parametrize("broken", [one for one in MENDED if one.name in ANYWHERE], ids=str)
async def test_what_may_be_of_the_unreachable_cell_waits_for_it(scene: Scene, broken: Break) -> None:
    await broken.act(scene)
    before, [wrong] = await books(scene.world), (await prove(scene.world.cloud)).violations
    cloud = without(scene.world.cloud, C2, *ALL)
    _, findings = await survey(cloud)
    assert findings == []
    with pytest.raises((Unavailable, Invalid), match=r"cell c2 does not answer|Nothing is wrong"):
        await repair(cloud, scene.world.engine("e"), scene.world.requester(), ServerId(wrong.subject))
    assert await books(scene.world) == before


@pytest.mark.parametrize("stores", [ALL, ("servers",), ("devices",)], ids="+".join)
async def test_what_servers_of_an_unreachable_cell_hold_elsewhere_is_theirs_still(
    scene: Scene, stores: tuple[str, ...]
) -> None:
    """However much of it had been read when it went away."""
    proof, findings = await survey(without(scene.world.cloud, C1, *stores))
    assert (proof.holds, proof.servers, proof.violations, findings) == (False, 0, (), [])
    assert proof.not_checked == ("cell c1 did not answer (its database is away): its servers (2) were not checked",)


async def test_a_cell_that_becomes_unreachable_before_the_second_look_has_no_violations_and_is_named(
    scene: Scene,
) -> None:
    [broken] = [one for one in MENDED if one.name == "a server counts for too much"]
    await broken.act(scene)
    proof = await prove(without(scene.world.cloud, C1, "hosts", answers=1))
    assert (proof.violations, [one.split(" (")[0] for one in proof.not_checked]) == ((), ["cell c1 did not answer"])


async def test_a_record_that_nobody_can_read_is_named_and_the_other_cells_are_proved(scene: Scene) -> None:
    await breaking.run(scene, "cell_c1", sa.update(records).where(records.c.id == scene.plain.id).values(record=b"?"))
    proof = await prove(scene.world.cloud)
    assert not proof.holds
    assert not proof.violations
    assert any(f"the record of server {scene.plain.id} cannot be read" in words for words in proof.not_checked)


async def test_what_the_moves_of_an_unreachable_cell_hold_breaks_no_rule_of_a_group() -> None:
    """One of the group waits for its verdict, and so is on two hosts."""
    world = await World.build(cells={C1: ("h1", "h2"), C2: ("m1",)})
    now, engine = world.cloud.clock.now(), world.engine("e")
    group = ServerGroup(id=GROUP, name="g", project_id=PROJECT, user_id=USER, policy="anti-affinity", created_at=now)
    await world.cloud.server_groups.create(group, -1)
    new = replace(world.new_server("one"), spec=RequestSpec(hints={"group": GROUP}))
    await boot_server(world, engine, new, "h1")
    await requests.resize(world.cloud, engine, world.requester(), await lookup.find(world.cloud, new.id), LARGE)
    await world.settle(engine)
    assert (await prove(world.cloud)).holds
    assert (await prove(without(world.cloud, C1, *ALL))).violations == ()
    await world.close()
