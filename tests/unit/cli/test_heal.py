"""How healing looks: what is wrong in sentences, what would change, what was changed, and why something was not."""

from typing import Any

import msgspec
import pytest
from rich.console import RenderableType

from tests.unit.cli.test_commands import refusal
from whimbrel.api.views.port_healings import PortFinding
from whimbrel.cli import heal, terminal
from whimbrel.cli.heal import Outcome

ROOT = {"provider": "r", "provider_name": "n1", "resources": {"VCPU": 1}}
DOCUMENT: dict[str, Any] = {
    "server_id": "a1b2",
    "server_name": "anna",
    "host": "n1",
    "problems": [
        {"port_id": "p1", "problem": "1000 NET_BW is not claimed where it could be served"},
        {"port_id": None, "problem": "2000 NET_BW of n2:agent:eth0 is claimed for no port"},
    ],
    "obstacle": None,
    "held": [ROOT, {"provider": "c2", "provider_name": None, "resources": {"NET_BW": 2000}}],
    "due": [ROOT, {"provider": "c1", "provider_name": "n1:agent:eth0", "resources": {"NET_BW": 1000}}],
    "profiles": [
        {"port_id": "p1", "allocation": {"r1": "c2"}, "due": {"r1": "c1"}},
        {"port_id": "p2", "allocation": None, "due": "c1"},
        {"port_id": "p3", "allocation": {}, "due": None},
    ],
    "unknown to this client": True,
}
CHANGES = [
    "NET_BW of c2: 2000 -> 0",
    "NET_BW of n1:agent:eth0: 0 -> 1000",
    "profile of port p1: c2 -> c1",
    "profile of port p2: nothing -> c1",
    "profile of port p3: nothing -> nothing",
]


def read(**changes: Any) -> PortFinding:
    return msgspec.convert(DOCUMENT | changes, PortFinding)


def lines(what: RenderableType) -> list[str]:
    console = terminal.console()
    with console.capture() as captured:
        console.print(what)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_what_changes_is_said_and_nothing_else() -> None:
    assert heal.changes(read()) == CHANGES


def test_a_listing_says_what_is_wrong_and_what_would_change() -> None:
    assert lines(heal.listing([read()])) == [
        "anna on n1  (server a1b2)",
        "  wrong             port p1: 1000 NET_BW is not claimed where it could be served",
        "  wrong             2000 NET_BW of n2:agent:eth0 is claimed for no port",
        *(f"  would change      {each}" for each in CHANGES),
    ]


def test_what_cannot_be_healed_says_why() -> None:
    seen = lines(heal.listing([read(obstacle="no room", due=DOCUMENT["held"], profiles=[])]))
    assert seen[3:] == ["  cannot be healed  no room"]


def test_nothing_wrong_is_one_line() -> None:
    assert len(lines(heal.listing([]))) == 1


def test_what_came_of_it() -> None:
    done = lines(heal.result(read(), Outcome(server_id="a1b2", healed=True)))
    assert done == ["healed: anna (a1b2)", *(f"  {each}" for each in CHANGES)]
    failed = lines(heal.result(read(), Outcome(server_id="a1b2", healed=False, message="it is busy")))
    assert failed == ["not healed: anna (a1b2): it is busy"]


def test_healing_needs_a_cloud(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    said = refusal(capsys, 1, "heal", "ports", "--dry-run", "--data-dir", str(tmp_path))
    assert "start a cloud with `whimbrel up`" in said
