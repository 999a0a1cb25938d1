"""Drain a cell: move its servers to other cells, several at a time, until none is left that can move.

Invariant: nothing is stored here. The servers of the cell and the moves out of it are read from the cloud, so an
interrupted drain can be repeated; and a server is moved only if a plan shows that it would leave the cell.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from whimbrel.api.views.cells import Cell
from whimbrel.api.views.moves import Move, MoveAnswer, Moves
from whimbrel.api.views.plans import PlanAnswer
from whimbrel.cli.listing import Column, Listing
from whimbrel.cli.move import POLL_S
from whimbrel.cli.terminal import counted
from whimbrel.domain.errors import NotFound, Refused, Unavailable

PAGE = 1000
LEFT = (Column("server", "name"), Column("id", "id"), Column("host", "name"), Column("why it is left", "reason"))
MAY_NOT = (
    "no server may leave the cell: the policy rule compute:servers:resize:cross_cell denies it; allow it to"
    ' administrators in a policy file ("compute:servers:resize:cross_cell": "role:admin") and start the cloud with'
    " --policy FILE"
)


class LeavingServer(msgspec.Struct, kw_only=True):
    """A server that is to leave. reason: why it did not."""

    id: str
    name: str
    host: str | None = None
    move_id: str | None = None
    reason: str | None = None


class Outcome(msgspec.Struct, kw_only=True):
    """The result of a drain. waiting: servers that have arrived and wait for their verdict."""

    cell: str
    moved: list[LeavingServer] = []
    waiting: list[LeavingServer] = []
    left: list[LeavingServer] = []


class ComputeApi(Protocol):
    """The part of cli.client.Api that is used here."""

    def get(self, service: str, path: str) -> Any: ...

    def post(self, service: str, path: str, body: Any) -> Any: ...


class Drain:
    def __init__(
        self, api: ComputeApi, cell: Cell, at_once: int, confirm: bool, show: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        """show: called with a sentence for each event. sleep: waits between two reads."""
        self._sleep = sleep
        self._api = api
        self._cell = cell
        self._hosts = frozenset(cell.hosts)
        self._at_once = at_once
        self._confirm = confirm
        self._show = show
        self._under_way: dict[str, LeavingServer] = {}  # by the ids of their moves
        self._confirmed: set[str] = set()
        self._tried: set[str] = set()
        self._outcome = Outcome(cell=cell.name)

    def run(self) -> Outcome:
        """Move servers until none is left that can move.

        Raises: Refused: the policy lets no server leave; Unavailable: the cell is down.
        """
        if self._cell.state == "down":
            raise Unavailable(
                f"cell {self._cell.name} is down ({self._cell.problem}): it takes no more servers, and those in it can"
                " be moved when it is up again"
            )
        try:
            self._take_up()
            while waiting := [one for one in self._residents() if one.id not in self._tried]:
                self._move(waiting)
            self._move([])
        except KeyboardInterrupt:
            on_their_way = counted(len(self._under_way), "move")
            self._show(f"stopped; {on_their_way} under way will go on: run it again to go on with the others")
            raise
        return self._outcome

    # Moves, several at a time

    def _move(self, waiting: list[LeavingServer]) -> None:
        """Move these, and wait for all moves to end."""
        while waiting or self._under_way:
            while waiting and len(self._under_way) < self._at_once:
                self._begin(waiting.pop(0))
            for passenger in list(self._under_way.values()):
                self._look_after(passenger)
            if self._under_way:
                self._sleep(POLL_S)

    def _begin(self, one: LeavingServer) -> None:
        self._tried.add(one.id)
        try:
            if obstacle := self._obstacle(one):
                self._leave(one, obstacle)
                return
            begun = self._api.post("compute", f"/whimbrel/servers/{one.id}/move", {"move": {}})
        except NotFound:
            return  # the server was deleted meanwhile
        except Refused as no:
            if no.reason == MAY_NOT:
                raise
            self._leave(one, no.reason)
            return
        one.move_id = msgspec.convert(begun, MoveAnswer).move.id
        self._under_way[one.move_id] = one
        self._show(f"{one.name} ({one.id}) leaves {one.host}")

    def _obstacle(self, one: LeavingServer) -> str | None:
        """Return the reason why a move would fail; None: it would leave. Raises: Refused: no server may leave."""
        requested = {"plan": {"server": one.id, "action": "migrate"}}
        plan = msgspec.convert(self._api.post("compute", "/whimbrel/plans", requested), PlanAnswer).plan
        if not plan.found:
            return f"{plan.summary} {plan.change or ''}".strip()
        if plan.chosen[0] in self._hosts:
            raise Refused(MAY_NOT)
        return None

    def _look_after(self, one: LeavingServer) -> None:
        assert one.move_id
        move = self._look(one.move_id)
        if move.problem:
            self._end(one, "it stopped at a bug: whimbrel move show " + one.move_id)
        elif move.state == "undone":
            self._end(one, move.message or "its move was turned back")
        elif move.state in ("parked", "done") and move.target in self._hosts:
            self._end(one, "it has moved inside the cell")
        elif move.state == "done":
            self._arrive(one, move, self._outcome.moved)
        elif move.state == "parked" and not self._confirm:
            self._arrive(one, move, self._outcome.waiting)
        elif move.state == "parked" and one.move_id not in self._confirmed:
            self._confirm_move(one)

    def _confirm_move(self, one: LeavingServer) -> None:
        assert one.move_id
        self._confirmed.add(one.move_id)
        try:
            self._api.post("compute", f"/servers/{one.id}/action", {"confirmResize": None})
        except (Refused, NotFound) as no:
            if self._look(one.move_id).state == "parked":  # else the verdict was given elsewhere
                self._end(one, f"it has arrived, and cannot be confirmed: {no.reason}")

    def _arrive(self, one: LeavingServer, move: Move, where: list[LeavingServer]) -> None:
        assert one.move_id
        del self._under_way[one.move_id]
        one.host = move.target
        where.append(one)
        self._show(f"{one.name} ({one.id}) is on {one.host}" + (", unconfirmed" if move.state == "parked" else ""))

    def _end(self, one: LeavingServer, reason: str) -> None:
        assert one.move_id
        del self._under_way[one.move_id]
        self._leave(one, reason)

    def _leave(self, one: LeavingServer, reason: str) -> None:
        one.reason = reason
        self._outcome.left.append(one)
        self._show(f"{one.name} ({one.id}) stays: {reason}")

    # Reads

    def _look(self, move_id: str) -> Move:
        return msgspec.convert(self._api.get("compute", f"/whimbrel/moves/{move_id}"), MoveAnswer).move

    def _take_up(self) -> None:
        """Resume the migrations of an earlier drain that are open or wait for a verdict."""
        query = urlencode({"open": "true", "limit": PAGE})
        for move in msgspec.convert(self._api.get("compute", f"/whimbrel/moves?{query}"), Moves).moves:
            leaves = move.source in self._hosts and move.target not in self._hosts
            if move.saga == "migrate" and move.old_flavor == move.new_flavor and leaves:
                name = move.server_name or move.server_id
                one = LeavingServer(id=move.server_id, name=name, host=move.source, move_id=move.id)
                self._under_way[move.id] = one
                self._tried.add(one.id)

    def _residents(self) -> list[LeavingServer]:
        """Return the servers on hosts of the cell, host by host."""
        return [one for host in self._cell.hosts for one in self._on(host)]

    def _on(self, host: str) -> Iterator[LeavingServer]:
        marker: dict[str, Any] = {}
        while True:
            query = urlencode({"all_tenants": 1, "host": host, "limit": PAGE, **marker})
            page = self._api.get("compute", f"/servers/detail?{query}")["servers"]
            for server in page:
                yield LeavingServer(id=server["id"], name=server["name"], host=server["OS-EXT-SRV-ATTR:host"])
            if len(page) < PAGE:
                return
            marker = {"marker": page[-1]["id"]}


def summary(outcome: Outcome) -> RenderableType:
    """Show how many servers have left, which are left, and why."""
    counts = f"cell {outcome.cell}: {counted(len(outcome.moved), 'server')} moved away"
    if outcome.waiting:
        counts += f"; arrived elsewhere, and not yet confirmed: {len(outcome.waiting)}"
    if not outcome.left:
        return Text(f"{counts}; none is left", "green")
    left = Listing(LEFT, [(one.name, one.id, one.host, one.reason) for one in outcome.left])
    return Group(Text(f"{counts}; left: {len(outcome.left)}", "yellow"), left)
