"""`whimbrel host`: list, show, invite, enable, disable and retire hosts."""

from urllib.parse import quote

import msgspec
from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from whimbrel.api.views.hosts import (
    HostInvitation,
    HostInvitationAnswer,
    HostState,
    HostStateAnswer,
    HostStates,
)
from whimbrel.cli import terminal
from whimbrel.cli.client import Api
from whimbrel.cli.move import Where

URL = "/whimbrel/hosts"
AS_USUAL = Where()
STYLES = {"up": "green", "down": "bold red", "joined": "yellow"}

app = App(
    name="host",
    help="Hosts: list, show, invite, enable, disable, retire.",
    default_parameter=Parameter(negative=()),
)


@app.command(name="list")
def list_hosts(*, json: bool = False, where: Where = AS_USUAL) -> None:
    """List the hosts of all cells: whether they are up and enabled, and their numbers of servers.

    Parameters
    ----------
    json
        One JSON document instead of a table.
    """
    with where.api() as api:
        answer = api.get("compute", URL)
    if json:
        terminal.write_json(answer)
        return
    found = msgspec.convert(answer, HostStates)
    console = terminal.console()
    console.print(listed(found.hosts))
    for cell in found.unreachable:
        console.print(f"[yellow]cell {cell} does not answer; its hosts are missing[/]")


@app.command
def show(host: str, /, *, json: bool = False, where: Where = AS_USUAL) -> None:
    """Show one host.

    Parameters
    ----------
    host
        Name of the host.
    json
        One JSON document instead of a table.
    """
    with where.api() as api:
        found = _read(api, host)
    _tell(found, json)


@app.command
def invite(name: str, /, *, cell: str | None = None, json: bool = False, where: Where = AS_USUAL) -> None:
    """Print a token with which a machine joins the cloud as this host, once, within an hour.

    The token is a secret: whoever has it can join as this host. An earlier invitation of the host becomes invalid. A
    host that has joined before gets a new key when it joins again.

    Parameters
    ----------
    name
        Name of the host: letters, digits, dots, dashes and underscores. It need not be the machine's own name.
    cell
        The cell that it joins. Default: the only one.
    json
        One JSON document instead of text.
    """
    requested = {"name": name} | ({"cell": cell} if cell else {})
    with where.api() as api:
        answer = api.post("compute", URL, {"host": requested})
    if json:
        terminal.write_json(answer)
    else:
        terminal.console().print(invited(msgspec.convert(answer, HostInvitationAnswer).invitation), soft_wrap=True)


@app.command
def enable(host: str, /, *, json: bool = False, where: Where = AS_USUAL) -> None:
    """Enable a host: servers are placed on it.

    Parameters
    ----------
    host
        Name of the host.
    json
        One JSON document instead of text.
    """
    with where.api() as api:
        _switch(api, host, {"enabled": True})
        found = _read(api, host)
    _say(found, f"host {host} takes servers", json)


@app.command
def disable(host: str, /, *, reason: str | None = None, json: bool = False, where: Where = AS_USUAL) -> None:
    """Disable a host: no more servers are placed on it. Its servers stay there and work as before.

    Parameters
    ----------
    host
        Name of the host.
    reason
        The reason, which `whimbrel host show` prints.
    json
        One JSON document instead of text.
    """
    with where.api() as api:
        _switch(api, host, {"enabled": False} | ({"disabled_reason": reason} if reason else {}))
        found = _read(api, host)
    there = f"the {found.servers} that it has stay and work" if found.servers else "there are none on it"
    _say(found, f"host {host} takes no more servers; {there}", json)


@app.command
def retire(host: str, /, *, where: Where = AS_USUAL) -> None:
    """Remove a host from the cloud, and revoke the key of its agent. Refused while it has servers or open runs.

    Parameters
    ----------
    host
        Name of the host.
    """
    with where.api() as api:
        api.delete("compute", _url(host))
    print(f"host {host} is no part of the cloud any more; its agent can be stopped")


def listed(hosts: list[HostState]) -> RenderableType:
    table = terminal.plain_table("host", "cell", "zone", "state", "servers", "seen", "")
    for host in hosts:
        seen = terminal.moment(host.seen_at) if host.seen_at else "-"
        table.add_row(
            host.name, host.cell, host.zone or "-", _state(host), str(host.servers), seen, host.disabled_reason or ""
        )
    return table


def shown(host: HostState) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    rows: dict[str, str | Text | None] = {
        "host": host.name,
        "cell": host.cell,
        "zone": host.zone or "-",
        "state": _state(host),
        "reason": host.disabled_reason,
        "servers": str(host.servers),
        "size": f"{host.vcpus} vCPUs, {host.memory_mib} MiB of memory, {host.disk_gib} GiB of disk",
        "driver": host.driver,
        "agent": _agent(host),
        "last seen": terminal.moment(host.seen_at) if host.seen_at else "never",
        "joined": terminal.moment(host.joined_at) if host.joined_at else None,
    }
    if host.state == "joined":
        rows = {name: rows[name] for name in ("host", "cell", "state", "joined")}
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    return table


def invited(invitation: HostInvitation) -> RenderableType:
    until = terminal.moment(invitation.expires_at)
    return Text.assemble(
        f"On the machine of host {invitation.host}, as root, once, until {until} UTC:\n\n",
        (f"whimbrel agent join {invitation.token}", "bold"),
        f"\n\nThen start its agent there, and here: whimbrel host enable {invitation.host}",
    )


def _state(host: HostState) -> Text:
    state = Text(host.state, STYLES[host.state])
    if host.state != "joined" and not host.enabled:
        state.append(", disabled", "yellow")
    if host.forced_down:
        state.append(", forced down", "yellow")
    return state


def _agent(host: HostState) -> str:
    return f"release {host.release}, session {host.session}" if host.session else "in the process of the cloud"


def _read(api: Api, host: str) -> HostState:
    return msgspec.convert(api.get("compute", _url(host)), HostStateAnswer).host


def _switch(api: Api, host: str, requested: dict[str, object]) -> None:
    api.put("compute", _url(host), {"host": requested})


def _url(host: str) -> str:
    return f"{URL}/{quote(host, safe='')}"


def _tell(host: HostState, json: bool) -> None:
    if json:
        terminal.write_json({"host": host})
    else:
        terminal.console().print(shown(host))


def _say(host: HostState, sentence: str, json: bool) -> None:
    if json:
        terminal.write_json({"host": host})
    else:
        print(sentence)
