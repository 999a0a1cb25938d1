"""`whimbrel server move --group`: an affinity group goes to another host, all of it."""

import time
from collections.abc import Mapping
from urllib.parse import quote

import msgspec
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from whimbrel.api.views.server_groups import ServerGroup, ServerGroupAnswer
from whimbrel.cli import SAYS_NO, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.listing import Column, Listing
from whimbrel.cli.move import POLL_S, Where
from whimbrel.domain.errors import NotFound, Refused

URL = "/whimbrel/server-groups"
COLUMNS = (Column("server", "name"), Column("host", "name"), Column("status"), Column("why", "reason"))
STATES = {"resting": "green", "moving": "yellow", "waiting": "cyan", "split": "red"}


def move(group: str, *, host: str | None, zone: str | None, confirm: bool, json: bool, where: Where) -> int:
    """Move the servers of a group (id or name) together, and wait until each has arrived or failed.

    confirm: confirm each server as it arrives. Return the exit code: 1 if not all have arrived.
    Raises: NotFound; Refused: with the API's reason; Unavailable.
    """
    console = terminal.console()
    with where.api() as api:
        found = _look(api, id_of(api, group))
        if found.state != "waiting" or host or zone:
            found = _begin(api, found.id, host, zone)
        if not json:
            console.print(f"server group {found.name} moves to {found.moving_to}")
        refused = {server.id: server.reason for server in found.servers if server.reason}
        found = _with_reasons(_follow(api, found.id, confirm), refused)
    if json:
        terminal.write_json({"server_group": found})
    else:
        console.print(shown(found))
    return SAYS_NO if found.state == "split" else 0


def shown(group: ServerGroup) -> RenderableType:
    """Show the location of each server, and the next action."""
    rows = [
        (one.name, one.host, one.status, one.reason if group.state == "split" and not one.arrived else None)
        for one in group.servers
    ]
    return Lines(Listing(COLUMNS, rows), Text(), Text(sentence_of(group), STATES.get(group.state, "")))


def sentence_of(group: ServerGroup) -> str:
    """Return the state of the group as a sentence."""
    if group.state == "resting":
        return f"All are on {' and '.join(group.hosts) or 'no host'}."
    if group.state == "waiting":
        names = " ".join(server.id for server in group.servers if server.awaits_verdict)
        return (
            f"All have arrived on {group.moving_to} and wait to be confirmed: whimbrel server move --group {group.id}"
            f" --confirm, or openstack server migration confirm (or revert), one by one: {names}"
        )
    if group.state == "split":
        left = [server.name for server in group.servers if not server.arrived]
        is_split = len(left) < len(group.servers)
        what = f"The group is split: {', '.join(left)}" if is_split else "They are all where they were, and"
        return (
            f"{what} did not get to {group.moving_to}. Remove the cause, then repeat:"
            f" whimbrel server move --group {group.id}"
        )
    return f"It is on its way to {group.moving_to}."


# Internals


def id_of(api: Api, wanted: str) -> str:
    """Raises: NotFound; Refused: several groups have this name."""
    groups = api.get("compute", "/os-server-groups?all_projects=True")["server_groups"]
    if any(group["id"] == wanted for group in groups):
        return wanted
    named = [str(group["id"]) for group in groups if group["name"] == wanted]
    if not named:
        raise NotFound(f"there is no server group {wanted}: openstack server group list --all-projects shows them")
    if len(named) > 1:
        raise Refused(f"{len(named)} server groups are named {wanted}: name one by its id: {', '.join(named)}")
    return named[0]


def _begin(api: Api, group: str, host: str | None, zone: str | None) -> ServerGroup:
    requested = {key: value for key, value in (("host", host), ("zone", zone)) if value is not None}
    return _read(api.post("compute", f"{URL}/{quote(group)}/move", {"move": requested}))


def _follow(api: Api, group: str, confirm: bool) -> ServerGroup:
    """Poll until no move is in progress; with `confirm`, confirm arrivals."""
    confirmed: set[str | None] = set()
    while True:
        now = _look(api, group)
        new = [
            server for server in now.servers if confirm and server.awaits_verdict and server.move_id not in confirmed
        ]
        for server in new:
            api.post("compute", f"/servers/{quote(server.id)}/action", {"confirmResize": None})
            confirmed.add(server.move_id)
        if now.state != "moving" and not new:
            return now
        time.sleep(POLL_S)


def _look(api: Api, group: str) -> ServerGroup:
    return _read(api.get("compute", f"{URL}/{quote(group)}"))


def _read(document: object) -> ServerGroup:
    return msgspec.convert(document, ServerGroupAnswer).server_group


def _with_reasons(group: ServerGroup, refused: Mapping[str, str]) -> ServerGroup:
    """Add the reasons why servers could not begin to move: the journal does not contain them."""
    for server in group.servers:
        server.reason = server.reason or refused.get(server.id)
    return group
