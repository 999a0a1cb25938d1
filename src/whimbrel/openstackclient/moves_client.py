"""Moves, as the API has them, for the commands `openstack move ...`."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from osc_lib.exceptions import CommandError

from whimbrel.api.views.moves import Move, MoveAnswer, MoveRow, Moves
from whimbrel.openstackclient.session_api import SessionApi

URL = "/whimbrel/moves"


class MovesClient:
    """Raises, all calls: as SessionApi."""

    def __init__(self, api: SessionApi) -> None:
        self._api = api

    def moves(self, query: Sequence[tuple[str, str]]) -> list[MoveRow]:
        """Return moves, the newest first. query: as of GET /v2.1/whimbrel/moves."""
        return msgspec.convert(self._api.get(f"{URL}?{urlencode(query)}"), Moves).moves

    def move(self, wanted: str, server: str | None) -> Move:
        """Return a move by a prefix of its id, or the newest move of a server.

        server: the id of the server that `wanted` names; None: there is none.
        Raises: CommandError: none, or several.
        """
        return msgspec.convert(self._api.get(f"{URL}/{self._id(wanted, server)}"), MoveAnswer).move

    def act(self, move: str, action: str) -> None:
        """Send an action to a move: retry, turn_back, complete."""
        self._api.post(f"{URL}/{move}/action", {action: None})

    def judge(self, server: str, verdict: str) -> None:
        """Confirm or revert the move of a server: confirmResize, revertResize."""
        self._api.post(f"/servers/{server}/action", {verdict: None})

    def _id(self, wanted: str, server: str | None) -> str:
        found: list[MoveRow] = []
        if re.fullmatch("[0-9a-fA-F-]{1,36}", wanted):
            found = self.moves([("id_prefix", wanted.lower()), ("kind", "any"), ("limit", "2")])
        if server is not None:
            found += self.moves([("server", server), ("limit", "1")])
        candidates = {move.id: f"{move.id} ({move.saga} of {move.server_name or move.server_id})" for move in found}
        if not candidates:
            raise CommandError(f"no move has an id that begins with '{wanted}', and no server of this name has moved")
        if len(candidates) > 1:
            raise CommandError(f"several moves match '{wanted}', such as {', '.join(candidates.values())}")
        return next(iter(candidates))


def query_of(options: Any) -> list[tuple[str, Any]]:
    """Return the query of `openstack move list`."""
    query = [("state", state) for state in options.state or ()]
    query += [("open", "true")] if options.open else []
    query += [("host", options.host)] if options.host else []
    query += [("changes-since", options.changes_since)] if options.changes_since else []
    return query + ([("kind", "any")] if options.all_kinds else [])
