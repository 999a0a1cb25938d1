"""What hands break in a simulated cloud is noticed at once, in the words in which a proof says it of a real one."""

import pytest
from msgspec.structs import replace

from tests.stories import breaking
from tests.stories.breaking import ADOPTED, LEFT, MENDED, Break
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.proof import prove
from whimbrel.sim.checks.invariants import Invariants, Violation
from whimbrel.sim.cloud.cloud import CELL

LATER = {
    "stray_guest",  # of a host that was away
    "missing_guest",
    "guest_differs",
    "stray_port",  # what comes late to services that know no epochs
    "port_of_nobody",
    "stray_binding",
    "stray_attachment",
    "attachment_of_nobody",
    "lost_port",
    "leaked_image",
    "stands_still",
    "zone_differs",
    "zone_mistold",
}
"""What is true for a while of a cloud in which things go wrong, and nobody's fault: a proof looks again later."""

BY_HAND = {"columns_differ"}
"""What no code of ours can do, as one write writes both: the simulator does not look for it."""

BROKEN = [one for one in (*MENDED, ADOPTED, *LEFT) if not one.names <= LATER | BY_HAND]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
async def test_what_is_broken_is_noticed_in_the_words_of_a_proof(broken: Break) -> None:
    scene = await breaking.scene()
    invariants = Invariants(scene.world)
    await invariants.check()
    await broken.act(scene)
    said = [one for one in (await prove(scene.world.cloud)).violations if one.kind not in LATER]
    with pytest.raises(Violation) as noticed:
        await invariants.check("a break")
    assert said
    for one in said:
        assert f"{one.invariant}: {one.sentence}" in str(noticed.value)
    await scene.world.close()


async def test_usage_that_no_server_accounts_for_is_noticed() -> None:
    scene = await breaking.scene()
    world = scene.world
    await Invariants(world).check()
    [run, *_] = await world.cloud.journal.find(RunFilter())
    await world.cloud.directory.adopt(run.order, replace(world.new_server("nobody's"), cell=CELL))
    with pytest.raises(Violation, match=r"I10: project .* is said to use .*instances=\d"):
        await Invariants(world).check("a break")
    await world.close()
