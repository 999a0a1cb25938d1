"""Each step of a move, a create or a delete has a sentence, which fits a line of a terminal."""

import pytest

from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.history.step_sentences import SENTENCES, sentence_of

SHOWN = ("resize", "migrate", "live_migrate", "evacuate", "unshelve", "create", "delete")
STEPS = [step for saga in SAGAS if saga.name in SHOWN for step in saga.steps]
LONGEST = 40
"""What a terminal of 80 columns has beside the longest name of a step, its duration and outcome."""


def test_each_step_and_undo_of_a_move_has_a_sentence() -> None:
    assert sorted({step.name for step in STEPS} - set(SENTENCES)) == []
    assert sorted({step.name for step in STEPS if step.undo and not SENTENCES[step.name][1]}) == []


def test_no_sentence_is_left_of_a_step_that_is_gone() -> None:
    assert sorted(set(SENTENCES) - {step.name for step in STEPS}) == []


@pytest.mark.parametrize("step", SENTENCES)
def test_a_sentence_fits_its_line(step: str) -> None:
    assert max(map(len, SENTENCES[step])) <= LONGEST
    assert not any(sentence.endswith(".") for sentence in SENTENCES[step])


def test_other_steps_show_their_name_in_words() -> None:
    assert sentence_of("carry_disk") == "copies the disks to the target"
    assert sentence_of("carry_disk", "undo") == "deletes the disks on the target"
    assert sentence_of("plug_nic") == "plug nic"
    assert sentence_of("plug_nic", "undo") == "undoes: plug nic"
