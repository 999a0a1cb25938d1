"""`whimbrel heal`: correct the allocations of servers for their ports."""

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from cyclopts import App, Parameter
from rich.console import Console, Group, RenderableType
from rich.text import Text

from whimbrel.api.views.moves import Move, MoveAnswer
from whimbrel.api.views.port_healings import HealingAnswer, PortFinding, PortHealings
from whimbrel.cli import SAYS_NO, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.move import POLL_S, Where
from whimbrel.cli.output_format import Json
from whimbrel.domain.errors import NotFound, Refused

URL = "/whimbrel/port-healings"
AS_USUAL = Where()

app = App(
    name="heal", help="Correct the allocations of servers for their ports.", default_parameter=Parameter(negative=())
)


class Outcome(msgspec.Struct, kw_only=True):
    """The result for a server. message: why it was not healed."""

    server_id: str
    healed: bool
    move_id: str | None = None
    message: str | None = None


@app.command
def ports(*, dry_run: bool = False, json: Json = False, server: str | None = None, where: Where = AS_USUAL) -> int:
    """Give servers the allocations that their ports request, and update the ports' profiles; nothing else changes.

    Servers with an operation in progress, or that wait for a verdict, are left out. Exit code 1: not all could be
    healed.

    Parameters
    ----------
    dry_run
        Only show what is wrong and what would be changed.
    server
        Only this server (id).
    """
    with where.api() as api:
        document = api.get("compute", URL + ("?" + urlencode({"server_id": server}) if server else ""))
        found = msgspec.convert(document, PortHealings).port_healings
        console = terminal.console()
        if not json:
            console.print(listing(found))
        if dry_run:
            outcomes = [_as_it_is(one) for one in found if one.obstacle]
        else:
            outcomes = [_heal(api, one, None if json else console) for one in found]
    if json:
        terminal.write_json({**document, "dry_run": dry_run, "outcomes": outcomes})
    return 0 if all(outcome.healed for outcome in outcomes) else SAYS_NO


def _heal(api: Api, one: PortFinding, console: Console | None) -> Outcome:
    """Heal a server, if possible, and return the result. console: for progress, None: none."""
    if console is None:
        return _try_to_heal(api, one)
    with console.status(f"healing the ports of {one.server_name} ({one.server_id})"):
        outcome = _try_to_heal(api, one)
    console.print(result(one, outcome))
    return outcome


def _try_to_heal(api: Api, one: PortFinding) -> Outcome:
    if one.obstacle:
        return _as_it_is(one)
    try:
        answer = api.post("compute", URL, {"healing": {"server_id": one.server_id}})
        move_id = msgspec.convert(answer, HealingAnswer).healing.move_id
        move = wait_until_over(api, move_id)
    except (NotFound, Refused) as no:
        return Outcome(server_id=one.server_id, healed=False, message=no.reason)
    message = "it stopped at a bug" if move.problem else move.message
    return Outcome(server_id=one.server_id, healed=move.state == "done", move_id=move_id, message=message)


def _as_it_is(one: PortFinding) -> Outcome:
    return Outcome(server_id=one.server_id, healed=False, message=one.obstacle)


def wait_until_over(api: Api, move_id: str, timeout_s: float = math.inf) -> Move:
    """Wait until a move is over, stopped at a bug, or the timeout has passed; return it."""
    until = time.monotonic() + timeout_s
    while True:
        move = msgspec.convert(api.get("compute", f"/whimbrel/moves/{move_id}"), MoveAnswer).move
        if move.is_over or move.problem or time.monotonic() > until:
            return move
        time.sleep(POLL_S)


# Output


def listing(found: Sequence[PortFinding]) -> RenderableType:
    """Show the findings and the changes, a line each, by server."""
    if not found:
        return Text("the requests of the ports of all idle servers are served")
    return Group(*(line for one in found for line in _lines(one)))


def _lines(one: PortFinding) -> Iterator[Text]:
    yield Text.assemble((one.server_name, "bold"), f" on {one.host}", (f"  (server {one.server_id})", "dim"))
    for each in one.problems:
        subject = f"port {each.port_id}: " if each.port_id else ""
        yield Text.assemble("  ", (f"{'wrong':<18}", "yellow"), subject, each.sentence)
    if one.obstacle:
        yield Text.assemble("  ", (f"{'cannot be healed':<18}", "bold red"), one.obstacle)
    for sentence in changes(one):
        yield Text.assemble("  ", (f"{'would change':<18}", "cyan"), sentence)


def result(one: PortFinding, outcome: Outcome) -> RenderableType:
    """Show what was changed, or why nothing was."""
    server = f"{one.server_name} ({one.server_id})"
    if not outcome.healed:
        return Text.assemble(("not healed", "bold red"), f": {server}: {outcome.message}")
    return Group(Text.assemble(("healed", "green"), f": {server}"), *(Text(f"  {each}") for each in changes(one)))


def changes(one: PortFinding) -> list[str]:
    """Return the changes of healing a server, as sentences."""
    held, due = ({part.provider: part for part in parts} for parts in (one.held, one.due))
    said = []
    for provider, part in {**held, **due}.items():
        before, after = (claim[provider].resources if provider in claim else {} for claim in (held, due))
        for name in {**before, **after}:
            if before.get(name, 0) != after.get(name, 0):
                whose = part.provider_name or provider
                said.append(f"{name} of {whose}: {before.get(name, 0)} -> {after.get(name, 0)}")
    return said + [
        f"profile of port {each.port_id}: {_words(each.before)} -> {_words(each.after)}" for each in one.profiles
    ]


def _words(allocation: Any) -> str:
    if not allocation:
        return "nothing"
    return ", ".join(map(str, allocation.values())) if isinstance(allocation, dict) else str(allocation)
