"""The demo's story: which steps of a move it shows."""

import json
from typing import Any

import pytest

from tests.unit.cli.test_move_view import DOCUMENT
from whimbrel.cli.demo import story
from whimbrel.cli.demo.actors import Operator
from whimbrel.cli.demo.output import JsonLines


class Conductor:
    name, pid, killed = "c1", 4711, False

    def kill(self) -> None:
        self.killed = True


class Cloud:
    """A move that goes on as soon as its conductor is dead: two steps are taken before somebody looks."""

    def __init__(self) -> None:
        self.conductors = {"c1": Conductor()}

    def get(self, service: str, path: str) -> Any:
        assert (service, path) == ("compute", "/whimbrel/moves/m1")
        steps = ["lock"]
        if self.conductors["c1"].killed:
            return document(*steps, "carry_disk", "start_on_target", state="parked", owner="c2@vm-2", epoch=2)
        return document(*steps, state="open", owner="c1@vm-1", epoch=1)


def document(*steps: str, **more: Any) -> Any:
    taken = [{"step": step, "way": "forward", "took_s": 1.0, "outcome": "done"} for step in steps]
    return {"move": DOCUMENT | {"id": "m1", "steps": taken, **more}}


def test_steps_that_are_taken_before_the_first_look_after_a_kill_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    cloud: Any = Cloud()
    operator = Operator(cloud, JsonLines())
    story._follow_through_a_kill(JsonLines(), operator, cloud, operator.move("m1"))
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["step"] for event in events if event["event"] == "step"] == ["carry_disk", "start_on_target"]
