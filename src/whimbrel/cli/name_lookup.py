"""Find objects by id, or by name if it is unique."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from whimbrel.api.views.cells import Cells
from whimbrel.api.views.moves import MoveRow, Moves
from whimbrel.cli.client import Api
from whimbrel.domain.errors import NotFound, Refused, Unavailable

MOST_CANDIDATES = 5
"""How many moves are listed if several match."""


def server(api: Api, wanted: str) -> Any:
    """Find a server, for administrators in any project.

    Raises: NotFound; Unavailable: it may be in a cell that is down; Refused: several have this name.
    """
    if is_id(wanted):
        try:
            return api.get("compute", f"/servers/{wanted}")["server"]
        except NotFound:
            pass  # it may be a name
    found = [one for one in _servers(api, wanted) if one["name"] == wanted]
    if not found:
        _check_cells(api, wanted)
    return _only("server", wanted, found)


def server_id(api: Api, wanted: str) -> str:
    """Return the id of a server; an id is returned unchanged, since the server may be deleted. Raises: as `server`."""
    return wanted if is_id(wanted) else str(server(api, wanted)["id"])


def move_id(api: Api, wanted: str) -> str:
    """Return the id of a move, or of another run of a server: by a prefix of it, or by the server, whose newest move it
    is: its name or id.

    Raises: NotFound; Refused: several match, which are named.
    """
    if is_id(wanted):
        return wanted if _exists(api, wanted) else _newest_move(api, wanted, wanted)
    of_servers = [one for one in _servers(api, wanted) if one["name"] == wanted]
    found = [*_with_prefix(api, wanted), *(run for one in of_servers for run in _moves(api, server=one["id"], limit=1))]
    candidates = {run.id: run for run in found}
    if not candidates:
        if of_servers:
            return _newest_move(api, str(of_servers[0]["id"]), wanted)
        raise NotFound(
            f"no move has an id that begins with '{wanted}', and no server that is not deleted has this name: whimbrel"
            " move list shows the moves that there are"
        )
    if len(candidates) > 1:
        shown = [f"{run.id} ({run.saga} of {run.server_name or run.server_id})" for run in candidates.values()]
        more = ["and more"] if len(shown) > MOST_CANDIDATES else []
        raise Refused(
            f"several moves match '{wanted}', of their ids or the names of their servers; give more of the id of one:"
            f" {', '.join([*shown[:MOST_CANDIDATES], *more])}"
        )
    return next(iter(candidates))


def _exists(api: Api, move: str) -> bool:
    try:
        api.get("compute", f"/whimbrel/moves/{move}")
    except NotFound:
        return False
    except Refused:  # owners of servers may read decisions only
        return True
    return True


def _newest_move(api: Api, server: str, wanted: str) -> str:
    """Raises: NotFound: it has none, or there is no such server."""
    if found := _moves(api, server=server, limit=1):
        return found[0].id
    raise NotFound(
        f"there is no move {wanted}, and a server of this id or name has not moved: whimbrel move list shows the moves"
        " that there are"
    )


def _with_prefix(api: Api, wanted: str) -> list[MoveRow]:
    if not re.fullmatch("[0-9a-fA-F-]{1,36}", wanted):
        return []
    return _moves(api, id_prefix=wanted.lower(), kind="any", limit=MOST_CANDIDATES + 1)


def _moves(api: Api, **query: str | int) -> list[MoveRow]:
    return msgspec.convert(api.get("compute", f"/whimbrel/moves?{urlencode(query)}"), Moves).moves


@contextmanager
def of_hosts() -> Iterator[None]:
    """Add to the error of a host that is not found how hosts are listed. Raises: NotFound."""
    try:
        yield
    except NotFound as no:
        hint = "whimbrel host list shows those that there are; one that is 'joined' has to start its agent first"
        raise NotFound(f"{no.reason}: {hint}") from None


def flavor(api: Api, wanted: str) -> Any:
    """Find a flavor. Raises: NotFound; Refused: several have this name."""
    flavors = api.get("compute", "/flavors?is_public=None")["flavors"]
    found = [one for one in flavors if one["id"] == wanted] or [one for one in flavors if one["name"] == wanted]
    return _only("flavor", wanted, found)


def _servers(api: Api, name: str) -> list[Any]:
    query = {"name": f"^{re.escape(name)}$"}
    try:
        found = api.get("compute", f"/servers?{urlencode(query | {'all_tenants': 'true'})}")
    except Refused:  # without the administrator's role only the requester's own are found
        found = api.get("compute", f"/servers?{urlencode(query)}")
    servers: list[Any] = found["servers"]
    return servers


def _check_cells(api: Api, wanted: str) -> None:
    """Raises: Unavailable: a cell is down, so the names of its servers are unknown."""
    try:
        cells = msgspec.convert(api.get("compute", "/whimbrel/cells"), Cells).cells
    except Refused:
        return  # only administrators can list cells
    if down := [cell.name for cell in cells if cell.state == "down"]:
        raise Unavailable(
            f"no server {wanted} is found, but the names of servers in cell {', '.join(down)} are not known while it is"
            " down: name it by its id, or try again later"
        )


def _only(kind: str, wanted: str, found: list[Any]) -> Any:
    if not found:
        raise NotFound(f"there is no {kind} {wanted}: openstack {kind} list shows those that there are")
    if len(found) > 1:
        ids = ", ".join(str(one["id"]) for one in found)
        raise Refused(f"{len(found)} {kind}s are named {wanted}: name one by its id: {ids}")
    return found[0]


def is_id(wanted: str) -> bool:
    try:
        UUID(wanted)
    except ValueError:
        return False
    return True
