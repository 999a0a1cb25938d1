"""`whimbrel server`: move servers and groups to other zones and hosts; show the history of a server."""

import time
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from cyclopts import App, Parameter

from whimbrel.api.views.histories import HistoryAnswer
from whimbrel.api.views.moves import Move, MoveAnswer
from whimbrel.cli import SAYS_NO, account_names, group_move, name_lookup, terminal
from whimbrel.cli import history_table as histories
from whimbrel.cli.client import Api
from whimbrel.cli.move import POLL_S, Where
from whimbrel.cli.output_format import Json
from whimbrel.domain.errors import Invalid, Refused

AS_USUAL = Where()


@Parameter(name="*")
@dataclass(frozen=True)
class How:
    """What a live migration may do to the guest; omitted: as the flavor, the project or the cloud has it."""

    longest_pause_ms: int | None = None
    "With --live: longest pause of the guest at the switch-over."
    deadline_s: float | None = None
    "With --live: after this time the ladder is climbed."
    ladder: str | None = None
    "With --live: what is done after the deadline, comma-separated: throttle, longer_pause, post_copy, suspend, abort."
    bandwidth_mib_s: int | None = None
    "With --live: limit of the transfer; 0: none."

    @property
    def policy(self) -> dict[str, Any]:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return given if self.ladder is None else {**given, "ladder": [rung for rung in self.ladder.split(",") if rung]}


NO_POLICY = How()

app = App(
    name="server",
    help="Servers: move them to zones and hosts, show their history.",
    default_parameter=Parameter(negative=()),
)


@app.command
def move(
    server: str | None = None,
    /,
    *,
    zone: str | None = None,
    host: str | None = None,
    leave_zone: bool = False,
    flavor: str | None = None,
    group: str | None = None,
    confirm: bool = False,
    live: bool = False,
    how: How = NO_POLICY,
    wait: bool = False,
    json: Json = False,
    where: Where = AS_USUAL,
) -> int:
    """Move a server, or with --group all servers of an affinity group together.

    The server then waits for a verdict as after a resize: openstack server resize confirm (or revert). After confirm a
    pinned server is pinned to its new zone; after revert, or if the move is refused, it is as before. With --live it
    runs on, there is no verdict, and the pin changes when the server has arrived.

    Parameters
    ----------
    server
        Id or name of the server.
    zone
        To this availability zone (its name), regardless of its own or pinned zone.
    host
        To this host only.
    leave_zone
        With --host: it may leave the zone that it would have to stay in.
    flavor
        Resize it to this flavor (id or name).
    group
        Id or name of an affinity group, instead of a server.
    confirm
        Confirm each server of the group when it has arrived.
    live
        Move it while it runs.
    wait
        Wait until the server has arrived and waits for its verdict, or the move was undone; with --live until the move
        has ended.
    """
    if (server is None) == (group is None):
        raise Invalid("name a server, or a group with --group")
    if group is not None:
        _refuse_with_group({"--leave-zone": leave_zone, "--flavor": flavor, "--live": live, "--wait": wait})
        return group_move.move(group, host=host, zone=zone, confirm=confirm, json=json, where=where)
    if confirm:
        raise Invalid("--confirm is for --group; a server is confirmed with openstack server resize confirm")
    assert server is not None, "a server or a group"
    if how.policy and not live:
        raise Invalid(f"--{next(iter(how.policy)).replace('_', '-')} is for --live")
    with where.api() as api:
        found = name_lookup.server(api, server)
        requested: dict[str, Any] = {"availability_zone": zone, "host": host, "leave_zone": leave_zone}
        requested |= {"live": True, "policy": how.policy} if live else {}
        requested["flavor"] = None if flavor is None else name_lookup.flavor(api, flavor)["id"]
        seen = api.post("compute", f"/whimbrel/servers/{quote(found['id'])}/move", {"move": requested})
        if wait:
            seen = _follow(api, seen)
        move = _read(seen)
    if json:
        terminal.write_json(seen)
    else:
        _print_next(move, found["name"])
    return SAYS_NO if move.state == "undone" else 0


@app.command
def history(server: str, /, *, at: str | None = None, json: Json = False, where: Where = AS_USUAL) -> None:
    """Show the history of a server, step by step: requesters, decisions with reasons, what was done and undone.

    Deleted servers have a history too. Owners of servers see no hosts. Users and projects are shown by name if the
    identity service knows it, else by id; JSON has both.

    Parameters
    ----------
    server
        Id or name of the server; the id if it is deleted.
    at
        Show its state at this time instead: 2026-01-31T10:00:00, or 10:00:00 for today; UTC.
    """
    query = "" if at is None else f"?{urlencode({'at': histories.time_asked(at)})}"
    with where.api() as api:
        found = name_lookup.server_id(api, server)
        answer = api.get("compute", f"/whimbrel/servers/{quote(found)}/history{query}")
        account_names.add_names(api, answer["history"]["entries"])
    if json:
        terminal.write_json(answer)
    else:
        terminal.console().print(histories.whole(msgspec.convert(answer, HistoryAnswer).history))


def _print_next(move: Move, name: str) -> None:
    """Print the next action. Raises: Refused: the move was undone."""
    if move.state == "undone":
        raise Refused(f"server {name} stays where it was: {move.message}")
    then = f"openstack server resize confirm {name} (or revert)"
    if move.state == "open":
        sentence = f"server {name} moves; watch it:\nwhimbrel move show {move.id} --watch"
        sentence += "" if move.is_live else f"\nthen: {then}"
    elif move.is_live:
        sentence = f"server {name} runs on {move.target}"
    else:
        sentence = f"server {name} is on {move.target}; it waits for its verdict: {then}"
    terminal.console().print(sentence)


def _follow(api: Api, answer: Any) -> Any:
    """Return the answer once the move waits for its verdict, or is over."""
    while (move := _read(answer)).state == "open":
        time.sleep(POLL_S)
        answer = api.get("compute", f"/whimbrel/moves/{quote(move.id)}")
    return answer


def _read(answer: Any) -> Move:
    return msgspec.convert(answer, MoveAnswer).move


def _refuse_with_group(options: dict[str, Any]) -> None:
    """Raises: Invalid: an option that is for one server."""
    for option, given in options.items():
        if given:
            raise Invalid(f"{option} is for one server, not for a group")
