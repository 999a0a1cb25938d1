"""How a cell is emptied, with a played API: so many at once, every end told, and nothing that was begun forgotten."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from whimbrel.api.views.cells import Cell
from whimbrel.cli import drain
from whimbrel.cli.drain import Drain, Outcome
from whimbrel.domain.errors import NotFound, Refused, Unavailable

OLD = Cell(name="old", enabled=False, state="up", hosts=["n1", "n2"])


class PlayedCloud:
    """Two hosts of the cell, n1 and n2, and one of another, m1. A move needs one look to arrive, and one to be over."""

    def __init__(self, **servers: str) -> None:
        """servers: with their hosts."""
        self.hosts = dict(servers)
        self.moves: dict[str, dict[str, Any]] = {}
        self.refusals: dict[str, str] = {}  # of plans
        self.ends_badly: dict[str, str] = {}
        self.leads_to = "m1"
        self.most_at_once = 0

    def get(self, service: str, path: str) -> Any:
        assert service == "compute"
        url = urlsplit(path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path == "/servers/detail":
            return {"servers": self._page(query["host"], query.get("marker", ""), int(query["limit"]))}
        if url.path == "/whimbrel/moves":
            shown = [_shown(move) for move in self.moves.values()]
            return {"moves": [move for move in shown if move["state"] in ("open", "parked")]}
        return {"move": self._look(url.path.removeprefix("/whimbrel/moves/"))}

    def post(self, service: str, path: str, body: Any) -> Any:
        assert service == "compute"
        if path == "/whimbrel/plans":
            return {"plan": self._plan(body["plan"]["server"])}
        name = path.split("/")[-2]
        if path == f"/servers/{name}/action":
            self._open_move(name)["state"] = "confirmed"
            return None
        return {"move": self.begin(name)}

    def begin(self, name: str) -> dict[str, Any]:
        move = {
            "id": f"move-{name}", "saga": "migrate", "server_id": name, "server_name": name, "source": self.hosts[name],
            "target": None, "old_flavor": "f", "new_flavor": "f", "state": "open", "status": "migrating",
            "way": "forward", "at": "choose", "created_at": 0.0,
        }  # fmt: skip
        self.moves[f"move-{name}"] = move
        under_way = [each for each in self.moves.values() if each["state"] not in ("done", "undone")]
        self.most_at_once = max(self.most_at_once, len(under_way))
        return move

    def _open_move(self, name: str) -> dict[str, Any]:
        return self.moves[f"move-{name}"]

    def _look(self, move_id: str) -> dict[str, Any]:
        move = self.moves[move_id]
        name = move["server_id"]
        if move["state"] == "open" and name in self.ends_badly:
            move |= {"state": "undone", "message": self.ends_badly[name]}
        elif move["state"] == "open":
            move |= {"state": "parked", "target": self.leads_to}
            self.hosts[name] = self.leads_to
        elif move["state"] == "confirmed":
            move["state"] = "done"
        return _shown(move)

    def _plan(self, name: str) -> dict[str, Any]:
        if name not in self.hosts:
            raise NotFound(f"no server {name}")
        if name in self.refusals:
            return {"action": "migrate", "found": False, "summary": self.refusals[name], "change": "Add one."}
        return {"action": "migrate", "found": True, "summary": "", "change": None, "chosen": [self.leads_to]}

    def _page(self, host: str, marker: str, limit: int) -> list[dict[str, Any]]:
        here = sorted(name for name, at in self.hosts.items() if at == host and name > marker)
        return [{"id": name, "name": name, "OS-EXT-SRV-ATTR:host": host} for name in here[:limit]]


def _shown(move: dict[str, Any]) -> dict[str, Any]:
    return dict(move, state="open") if move["state"] == "confirmed" else move


def drained(cloud: PlayedCloud, said: list[str] | None = None, *, at_once: int = 2, confirm: bool = True) -> Outcome:
    tell = [] if said is None else said
    return Drain(cloud, OLD, at_once, confirm, tell.append, sleep=lambda _: None).run()


def names(passengers: list[Any]) -> list[str]:
    return sorted(one.name for one in passengers)


def test_all_leave_so_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "PAGE", 2)
    cloud = PlayedCloud(a="n1", b="n1", c="n1", d="n2", e="n2", f="m1")
    said: list[str] = []
    outcome = drained(cloud, said)
    assert (names(outcome.moved), outcome.waiting, outcome.left) == (["a", "b", "c", "d", "e"], [], [])
    assert cloud.most_at_once == 2
    assert set(cloud.hosts.values()) == {"m1"}
    assert said[0] == "a (a) leaves n1"
    assert "a (a) is on m1" in said


def test_who_cannot_leave_is_reported_with_the_reason_and_the_others_leave() -> None:
    cloud = PlayedCloud(a="n1", b="n1", c="n2")
    cloud.refusals["a"] = "No host has room."
    cloud.ends_badly["b"] = "the target went away"
    outcome = drained(cloud)
    assert names(outcome.moved) == ["c"]
    assert {one.name: one.reason for one in outcome.left} == {
        "a": "No host has room. Add one.",
        "b": "the target went away",
    }


def test_nobody_is_moved_where_nobody_may_leave() -> None:
    cloud = PlayedCloud(a="n1", b="n2")
    cloud.leads_to = "n2"
    with pytest.raises(Refused, match="compute:servers:resize:cross_cell"):
        drained(cloud)
    assert cloud.moves == {}


def test_without_confirmation_they_wait_and_a_later_drain_confirms_them() -> None:
    cloud = PlayedCloud(a="n1")
    first = drained(cloud, confirm=False)
    assert (first.moved, names(first.waiting)) == ([], ["a"])
    second = drained(cloud)
    assert (names(second.moved), second.waiting, second.left) == (["a"], [], [])


def test_a_resize_that_its_owner_has_to_look_at_is_not_confirmed() -> None:
    cloud = PlayedCloud(a="n1", b="n1")
    cloud.begin("a")["new_flavor"] = "larger"
    cloud.get("compute", "/whimbrel/moves/move-a")  # it has arrived
    assert names(drained(cloud).moved) == ["b"]
    assert cloud.moves["move-a"]["state"] == "parked"


def test_a_drain_that_is_stopped_says_what_goes_on_and_goes_on_when_it_is_run_again() -> None:
    cloud = PlayedCloud(a="n1", b="n1", c="n1")
    said: list[str] = []

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Drain(cloud, OLD, 2, True, said.append, sleep=interrupted).run()
    assert said[-1] == "stopped; 2 moves under way will go on: run it again to go on with the others"
    assert names(drained(cloud).moved) == ["a", "b", "c"]


def test_a_move_that_had_begun_before_is_seen_to_its_end_wherever_it_leads() -> None:
    cloud = PlayedCloud(a="n1", b="n1")
    cloud.begin("a")
    cloud.leads_to = "n2"
    cloud.refusals["b"] = "No."
    outcome = drained(cloud)
    assert {one.name: one.reason for one in outcome.left} == {"a": "it has moved inside the cell", "b": "No. Add one."}
    assert cloud.moves["move-a"]["state"] == "parked"


def test_a_cell_that_is_down_is_not_drained() -> None:
    down = Cell(name="old", enabled=False, state="down", problem="its database is away", hosts=[])
    with pytest.raises(Unavailable, match="its database is away"):
        Drain(PlayedCloud(), down, 1, True, print).run()
