"""Each step of which a journal may tell is known: by its name, or as a former name of the step that does its work.

released_steps.json has every name that a step ever had, by saga and version: all lists of all commits. Names are only
added: a run that is open at an upgrade, or over since long, names the steps of the release that drove it.
"""

import json
from pathlib import Path

import pytest

from whimbrel.conductor.saga_registry import SAGAS

RELEASED: dict[str, dict[str, list[str]]] = json.loads(Path(__file__).with_name("released_steps.json").read_text())
LISTS = [(saga, int(version)) for saga, versions in RELEASED.items() for version in versions]


@pytest.mark.parametrize(("saga", "version"), LISTS, ids=str)
def test_every_released_name_leads_to_a_step(saga: str, version: int) -> None:
    """Resolve it as the journal does when it reads a row, and the engine when it takes the run."""
    [known] = [one for one in SAGAS if (one.name, one.version) == (saga, version)]
    for name in RELEASED[saga][str(version)]:
        assert SAGAS.has_step(saga, version, name), f"{name}: list it in `was` of the step that does its work now"
        present = SAGAS.renamed(saga, version).get(name, name)
        assert known.step(present).name == present


def test_every_present_name_is_among_the_released() -> None:
    """So that a rename is noticed."""
    missing = {
        (saga.name, saga.version, step.name)
        for saga in SAGAS
        for step in saga.steps
        if step.name not in RELEASED.get(saga.name, {}).get(str(saga.version), ())
    }
    assert not missing, "add them to released_steps.json"
