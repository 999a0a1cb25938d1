"""Released verbs of agents are as they were released: an agent may be of any release since 0.2.

released_verbs.json has the verbs of each release, with their arguments. `python -m tools.released` adds this release.
"""

import json

import pytest

from tools.released import VERBS_FILE, release, verbs
from whimbrel.adapters.bus.verbs import ADDED, VERBS

RELEASED: dict[str, dict[str, dict[str, str]]] = json.loads(VERBS_FILE.read_text())
NOW = verbs()
FIRST = "0.2.0"
"""The first release with agents of their own."""

PAIRS = [(number, verb) for number in RELEASED for verb in RELEASED[number]]


@pytest.mark.parametrize(("number", "verb"), PAIRS)
def test_a_released_verb_has_its_arguments(number: str, verb: str) -> None:
    assert verb in NOW, f"agents of {number} are still asked to {verb}"
    now = NOW[verb]
    for field, was in RELEASED[number][verb].items():
        assert now.get(field) == was or _is_wider(was, now.get(field, "")), (
            f"argument {field} of {verb} is released: add another one instead"
        )
    new = now.keys() - RELEASED[number][verb].keys()
    for field in (one for one in new if not any(one.startswith(f"{parent}.") for parent in new)):
        assert " = " in now[field], f"agents of {number} do not know {field} of {verb}: it needs a default"


def _is_wider(was: str, now: str) -> bool:
    """Check whether a field has all words that it had, and the same default.

    Of answers only what an older conductor does not order causes new ones. An older agent refuses an order with a word
    that it does not know, with a sentence that says to upgrade it (`order_decoding`).
    """
    (words, _, default), (more, _, still) = was.partition(" = "), now.partition(" = ")
    return words.startswith('"') and default == still and set(words.split(" | ")) <= set(more.split(" | "))


def test_verbs_of_this_release_are_in_the_file() -> None:
    assert RELEASED.get(release()) == NOW, "run: python -m tools.released"


def test_what_not_every_agent_has_is_in_the_table() -> None:
    """Only these questions cost a look at what the agent has."""
    first = RELEASED.get(FIRST, NOW)
    added = {name: frozenset() for name in VERBS if name not in first}
    for name in first:
        if arguments := {each for each in VERBS[name].question.__struct_fields__ if each not in first[name]}:
            added[name] = frozenset(arguments)
    assert added == ADDED
