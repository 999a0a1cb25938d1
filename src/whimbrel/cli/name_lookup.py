"""Find objects by id, or by name if it is unique."""

import re
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from whimbrel.api.views.cells import Cells
from whimbrel.api.views.moves import Moves
from whimbrel.cli.client import Api
from whimbrel.domain.errors import NotFound, Refused, Unavailable

MOST_CANDIDATES = 5
"""How many moves are listed if a prefix of an id is ambiguous."""


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
    """Return the id of a move, or of another run of a server, by its prefix.

    Raises: NotFound; Refused: several ids have this prefix.
    """
    if is_id(wanted):
        return wanted
    none = NotFound(f"no move has an id that begins with '{wanted}': whimbrel move list shows those that there are")
    if not re.fullmatch("[0-9a-fA-F-]{1,36}", wanted):
        raise none
    query = urlencode({"id_prefix": wanted.lower(), "kind": "any", "limit": MOST_CANDIDATES + 1})
    found = msgspec.convert(api.get("compute", f"/whimbrel/moves?{query}"), Moves).moves
    if not found:
        raise none
    if len(found) > 1:
        shown = [f"{one.id} ({one.saga} of {one.server_name or one.server_id})" for one in found]
        more = ["and more"] if len(found) > MOST_CANDIDATES else []
        candidates = ", ".join([*shown[:MOST_CANDIDATES], *more])
        raise Refused(f"several moves have an id that begins with '{wanted}', give more of it: {candidates}")
    return found[0].id


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
