"""Released lists of steps are as they were released: a run that began on one may be driven by any release.

released_lists.json has the lists and the fields of their facts. `python -m tools.released` adds new ones to it.
"""

import json
from typing import Any

import pytest

from tools.released import LISTS, facts_of, lists_of, with_lists
from whimbrel.conductor.saga_registry import KNOWN_BEFORE_0_2, SAGAS
from whimbrel.domain.release import number_of

RELEASED: dict[str, Any] = json.loads(LISTS.read_text())
NOW = lists_of(SAGAS)
FACTS = facts_of(SAGAS)

FROZEN = "is released and therefore frozen: put it back, and add the next version of the list beside it"


def in_present_names(name: str, released: dict[str, Any]) -> dict[str, Any]:
    """Return a released list with the present names of its steps; see `was` in saga/step.py."""
    saga, version = name.split()
    renamed = SAGAS.renamed(saga, int(version))

    def line(words: str) -> str:
        step, *rest = words.split(" ")
        return " ".join([renamed.get(step, step), *map(waiting, rest)])

    def waiting(word: str) -> str:
        key, _, steps = word.partition("=")
        present = sorted(renamed.get(step, step) for step in steps.split(","))
        return f"after={','.join(present)}" if key == "after" else word

    parts = {part: [line(each) for each in released[part]] for part in ("undoable", "forward_only")}
    return {key: value for key, value in released.items() if key != "since"} | parts


@pytest.mark.parametrize("name", RELEASED["lists"])
def test_a_released_list_is_as_it_was(name: str) -> None:
    assert NOW.get(name) == in_present_names(name, RELEASED["lists"][name]), f"{name} {FROZEN}"


def test_every_list_is_in_the_file() -> None:
    assert set(NOW) <= set(RELEASED["lists"]), "run: python -m tools.released"


@pytest.mark.parametrize("kind", FACTS)
def test_fields_of_facts_are_as_they_were(kind: str) -> None:
    """A type may only gain alternatives, and fields with defaults, which older programs keep and ignore."""
    released, now = RELEASED["facts"][kind], FACTS[kind]
    for field, was in released.items():
        assert field in now, f"{kind}.{field} {FROZEN}"
        assert is_compatible(was, now[field]), f"{kind}.{field} was {was!r} and is {now[field]!r}: it {FROZEN}"
    added = {field: text for field, text in now.items() if field not in released}
    assert not added, (
        "processes of older releases ignore these fields: if a step of a released list acts on one, it needs a new"
        " version of the list. Then run: python -m tools.released"
    )


def is_compatible(was: str, now: str) -> bool:
    types, _, default = was.partition(" = ")
    types_now, _, default_now = now.partition(" = ")
    return default == default_now and set(types.split(" | ")) <= set(types_now.split(" | "))


def test_a_new_field_without_a_default_is_not_added_to_the_file() -> None:
    """Facts that an older program wrote lack it."""
    released = {**RELEASED, "facts": {"HealFacts": {}, "LostFacts": {}}}
    with pytest.raises(SystemExit, match=r"HealFacts: .* without a default"):
        with_lists(released, "9.9")


def test_the_lists_of_0_1_are_what_its_processes_are_taken_to_know() -> None:
    known = {f"{name} {version}" for name, versions in KNOWN_BEFORE_0_2.items() for version in versions}
    since = {name: number_of(each["since"]) for name, each in RELEASED["lists"].items()}
    assert known == {name for name, release in since.items() if release < (0, 2)}


@pytest.mark.parametrize(
    ("was", "now", "compatible"),
    [
        ("string", "string", True),
        ("string", "string | null", True),
        ("string | null = null", "string = null", False),
        ("string", "integer", False),
        ("integer = 0", "integer = 1", False),
        ("integer", "integer = 0", False),
    ],
)
def test_changes_that_older_documents_survive(was: str, now: str, compatible: bool) -> None:
    assert is_compatible(was, now) == compatible
