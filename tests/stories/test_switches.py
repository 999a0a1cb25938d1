"""The owner changes the record at every instant of a move between cells: acknowledged changes are kept."""

import pytest

from tests.stories.move_stories import STORIES
from tools.scenarios.moves import Story, Trial
from whimbrel.domain.errors import Conflict
from whimbrel.domain.server import Server
from whimbrel.servers import edit, lookup
from whimbrel.sim.faults.chaos import changes

TOLD = tuple(story for story in STORIES if story.name.startswith("resize to another cell") and story.end != "turn back")


class Edited(Trial):
    """Its owner looks at the record after one touch, and changes what he saw so many touches later."""

    def __init__(self, story: Story, at: int, later: int) -> None:
        super().__init__(story)
        self._looks = at + 1
        self._changes = at + 1 + later
        self._seen: Server | None = None
        self.answer = ""

    async def after_each(self, touch: str) -> None:
        await super().after_each(touch)
        number = len(self.incarnations[0].touches)
        if number == self._looks:
            self._seen = await lookup.find(self.world.cloud, self.server.id)
        if number == self._changes and self._seen:
            try:
                await edit.change(self.world.cloud, self._seen, {"metadata": {"changed": "yes"}})
            except Conflict:
                self.answer = "no"
            else:
                self.answer = "yes"


@pytest.mark.long
@pytest.mark.parametrize("later", [0, 2], ids=lambda later: f"{later} touches later")
@pytest.mark.parametrize("story", TOLD, ids=str)
async def test_what_an_owner_changes_is_in_the_record_wherever_it_goes(story: Story, later: int) -> None:
    await edited_at_every_touch(story, later)


async def edited_at_every_touch(story: Story, later: int) -> None:
    result = await Trial(story).play()
    await result.world.close()
    touches = result.incarnations[0].touches
    breaks = [at for at in range(len(touches) - later) if changes(touches[at + later])]
    answers = [await _edited(story, at, later) for at in breaks]
    assert answers.count("yes") > len(answers) / 2, "a move keeps nobody from that for long"


async def _edited(story: Story, at: int, later: int) -> str:
    trial = Edited(story, at, later)
    result = await trial.play()
    now = await lookup.find(result.world.cloud, result.server.id)
    await result.world.close()
    kept = now.metadata == {"changed": "yes"}
    assert kept is (trial.answer == "yes"), f"{story}: told {trial.answer!r} at touch {at}, and has {now.metadata}"
    return trial.answer
