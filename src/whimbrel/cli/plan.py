"""`whimbrel plan`: the host that a move would choose, and the reasons; nothing is moved.

Invariant: exit code 0: a host was found; 3: none was; 1 and 2 as with all commands.
"""

from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from rich.text import Text

from whimbrel.api.views.plans import Plan, PlanAnswer
from whimbrel.cli import decision_table, group_move, name_lookup, terminal
from whimbrel.cli.move import Where
from whimbrel.cli.output_format import Json

NO_HOST = 3
URL = "/whimbrel/plans"
AS_USUAL = Where()
ShowsAll = Annotated[bool, Parameter(help="Show every host, not only as many as fit the terminal.")]

app = App(
    name="plan", help="Show what a move would do, and why; nothing is moved.", default_parameter=Parameter(negative=())
)


@app.command
def resize(server: str, /, *, flavor: str, all: ShowsAll = False, json: Json = False, where: Where = AS_USUAL) -> int:
    """Show the host that a resize would choose now, and why the other hosts were not chosen.

    Exit code 0: a host was found; 3: none was, and the last sentence says what would help.

    Parameters
    ----------
    server
        Id or name of the server.
    flavor
        Id or name of the flavor.
    """
    with where.api() as api:
        requested = {"action": "resize", "flavor": name_lookup.flavor(api, flavor)["id"]}
        found = name_lookup.server(api, server)
        answer = api.post("compute", URL, {"plan": {"server": found["id"], **requested}})
    return _print(answer, found["name"], all, json)


@app.command
def migrate(
    server: str,
    /,
    *,
    host: str | None = None,
    zone: str | None = None,
    live: bool = False,
    all: ShowsAll = False,
    json: Json = False,
    where: Where = AS_USUAL,
) -> int:
    """Show the host that a migration would choose now, and why the other hosts were not chosen.

    Exit code 0: a host was found; 3: none was, and the last sentence says what would help.

    Parameters
    ----------
    server
        Id or name of the server.
    host
        Consider only this host.
    zone
        To this availability zone (its name), regardless of the server's own or pinned zone.
    live
        Plan a live migration: the target also needs the processor and the hypervisor of the running guest.
    """
    with where.api() as api:
        found = name_lookup.server(api, server)
        requested: dict[str, Any] = {"action": "migrate", "host": host, "availability_zone": zone}
        requested |= {"live": True} if live else {}
        answer = api.post("compute", URL, {"plan": {"server": found["id"], **requested}})
    return _print(answer, found["name"], all, json)


@app.command
def group(
    group: str,
    /,
    *,
    host: str | None = None,
    zone: str | None = None,
    all: ShowsAll = False,
    json: Json = False,
    where: Where = AS_USUAL,
) -> int:
    """Show the host that a move of an affinity group would choose now, and why the other hosts were not chosen.

    The host needs capacity for all servers of the group together. Exit code 0: a host was found, and each server can
    begin to move there; 3: otherwise.

    Parameters
    ----------
    group
        Id or name of the server group.
    host
        Consider only this host.
    zone
        To this availability zone (its name), regardless of the servers' own or pinned zones.
    """
    with where.api() as api:
        requested = {"action": "migrate", "host": host, "availability_zone": zone}
        answer = api.post("compute", URL, {"plan": {"server_group": group_move.id_of(api, group), **requested}})
    return _print(answer, group, all, json)


def _print(answer: Any, name: str, everything: bool, json: bool) -> int:
    plan = msgspec.convert(answer, PlanAnswer).plan
    stays = not_moving(plan)
    if json:
        terminal.write_json(answer)
    else:
        console = terminal.console()
        console.print(head(plan, name))
        console.print(Text())
        console.print(decision_table.whole(plan, everything))
        for sentence in stays:
            console.print(Text(sentence, "yellow"))
    return 0 if plan.found and not stays else NO_HOST


def head(plan: Plan, name: str) -> Text:
    text = Text.assemble((f"live {plan.action}" if plan.live else plan.action, "bold"), " of ", (name, "bold"))
    if sources := _sources(plan):
        text.append(f" on {' and '.join(sources)}")
    if plan.action == "resize":
        text.append(f" to {plan.flavor}")
    return text.append("; nothing is moved", "dim")


def not_moving(plan: Plan) -> list[str]:
    """Return a sentence for each server of a group that would refuse to move."""
    return [f"{server.name} would not move: {server.reason}" for server in plan.servers or () if server.reason]


def _sources(plan: Plan) -> list[str]:
    """Return the hosts that the move would leave, as far as the requester may see them."""
    if plan.servers:
        return sorted({server.source for server in plan.servers if server.source})
    return [plan.source] if plan.source else []
