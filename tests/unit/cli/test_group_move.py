"""How the move of a group looks: where each server is, and what is to be done next."""

from typing import Any

import msgspec

from tests.unit.cli.test_heal import lines
from whimbrel.api.views.server_groups import ServerGroup
from whimbrel.cli import group_move

MEMBER: dict[str, Any] = {"id": "a1", "name": "anna", "status": "VERIFY_RESIZE", "host": "n2", "arrived": True}
MEMBER |= {"moves_along": True, "move_id": "m1", "move_state": "parked", "reason": None}
OTHER = {"id": "b2", "name": "bob", "status": "ERROR", "host": "n1", "arrived": False, "moves_along": False}
GROUP: dict[str, Any] = {"id": "g1", "name": "db", "policy": "affinity", "hosts": ["n2"], "moving_to": "n2"}


def group(state: str, *servers: dict[str, Any], **fields: Any) -> ServerGroup:
    return msgspec.convert(GROUP | fields | {"state": state, "servers": list(servers), "more": 1}, ServerGroup)


def test_who_has_arrived_waits_to_be_confirmed() -> None:
    assert lines(group_move.shown(group("waiting", MEMBER))) == [
        "server  host  status         why",
        "anna    n2    VERIFY_RESIZE",
        "",
        "All have arrived on n2 and wait to be confirmed: whimbrel server move --group g1 --confirm, or"
        " openstack server migration confirm (or revert), one by one: a1",
    ]


def test_who_is_left_behind_is_named_with_the_reason() -> None:
    shown = lines(group_move.shown(group("split", MEMBER, OTHER | {"reason": "no room"}, hosts=["n1", "n2"])))
    assert shown[1:3] == ["anna    n2    VERIFY_RESIZE", "bob     n1    ERROR          no room"]
    assert shown[-1].startswith("The group is split: bob did not get to n2.")
    assert shown[-1].endswith("whimbrel server move --group g1")
    assert group_move.sentence_of(group("split", OTHER)).startswith(
        "They are all where they were, and did not get to n2."
    )


def test_a_group_that_rests_says_where() -> None:
    assert group_move.sentence_of(group("resting", MEMBER, moving_to=None)) == "All are on n2."
    assert group_move.sentence_of(group("resting", moving_to=None, hosts=[])) == "All are on no host."
    assert group_move.sentence_of(group("moving", MEMBER)) == "It is on its way to n2."


def test_only_who_came_with_the_group_awaits_its_verdict() -> None:
    def awaits(**fields: Any) -> bool:
        return group("waiting", MEMBER | fields).servers[0].awaits_verdict

    assert awaits()
    assert not awaits(moves_along=False)
    assert not awaits(arrived=False)
    assert not awaits(move_state="open")
