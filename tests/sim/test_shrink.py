"""What the simulator is for: a planted bug is found within some seeds, and told as a short story."""

import pytest

from tests.sim.planted import PLANTED
from whimbrel.sim.faults.planned_events import Size, Story, story_of
from whimbrel.sim.runs.shrink import shrink
from whimbrel.sim.runs.simulation import Outcome, run

STEPS, SEEDS, TELLINGS = 20, range(1000, 1020), 50
SHORT = 4


@pytest.mark.long
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_and_told_shortly(name: str) -> None:
    def tell(story: Story) -> Outcome:
        return run(story, PLANTED[name])

    found = next((outcome for outcome in (tell(story_of(n, STEPS, Size())) for n in SEEDS) if outcome.failure), None)
    assert found, "nobody noticed"
    short = shrink(found, tell, TELLINGS)
    assert short.kind == found.kind
    assert len(short.story.decisions) <= SHORT, short.told
    assert run(short.story).failure is None, "it is the bug that breaks the law, not the story"
    assert tell(short.story).hash == short.hash
