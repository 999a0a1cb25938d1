"""`whimbrel host`: list, show, invite, enable, disable, force down, fence, evacuate, retire and forget hosts."""

import time
from collections.abc import Sequence
from urllib.parse import quote

import msgspec
from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from whimbrel.api.views.hosts import (
    ForgottenHostAnswer,
    HostHardware,
    HostInvitation,
    HostInvitationAnswer,
    HostPciState,
    HostState,
    HostStateAnswer,
    HostStates,
)
from whimbrel.cli import name_lookup, terminal
from whimbrel.cli.client import Api
from whimbrel.cli.listing import Column, Listing
from whimbrel.cli.move import HostArgument, Where
from whimbrel.cli.output_format import Json, Output
from whimbrel.domain.errors import Invalid
from whimbrel.domain.host_nics import GUEST_NICS

URL = "/whimbrel/hosts"
AS_USUAL = Where()
STYLES = {"up": "green", "down": "bold red", "joined": "yellow"}
COLUMNS = (
    Column("host", "name"),
    Column("cell", "name"),
    Column("zone", "name"),
    Column("state"),
    Column("servers"),
    Column("seen"),
    Column("", "reason"),
)
NICS = tuple(map(Column, ("NIC", "MAC", "speed", "MTU", "state", "PCI device")))
DEVICES = (*map(Column, ("PCI device", "ids", "function", "NUMA", "IOMMU")), Column("driver", "more"))

app = App(
    name="host",
    help="Hosts: list, show, invite, enable, disable, force down, fence, evacuate, retire, forget.",
    default_parameter=Parameter(negative=()),
)
app.command("whimbrel.cli.host_evacuate:evacuate", help="Evacuate the servers of a dead host.")
app.command("whimbrel.cli.host_fence:fence", help="Cut the power of a host by its fence device, or show it.")


@app.command(name="list")
def list_hosts(*, output: Output = Output(), where: Where = AS_USUAL) -> None:
    """List the hosts of all cells: whether they are up and enabled, and their numbers of servers."""
    with where.api() as api:
        answer = api.get("compute", URL)
    if output.wrote(answer, "hosts"):
        return
    found = msgspec.convert(answer, HostStates)
    console = terminal.console()
    console.print(listed(found.hosts))
    for cell in found.unreachable:
        console.print(f"[yellow]cell {cell} does not answer; its hosts are missing[/]")


@app.command
def show(host: HostArgument, /, *, output: Output = Output(), where: Where = AS_USUAL) -> None:
    """Show one host."""
    with where.api() as api, name_lookup.of_hosts():
        found = _read(api, host)
    if not output.wrote({"host": found}, "host"):
        console = terminal.console()
        console.print(shown(found))
        for listing in hardware(found.hardware):
            console.print()
            console.print(listing)


@app.command
def invite(name: str, /, *, cell: str | None = None, json: Json = False, where: Where = AS_USUAL) -> None:
    """Print a token with which a machine joins the cloud as this host, once, within an hour.

    The token is a secret: whoever has it can join as this host. An earlier invitation of the host becomes invalid. A
    host that has joined before gets a new key when it joins again.

    Parameters
    ----------
    name
        Name of the host: letters, digits, dots, dashes and underscores. It need not be the machine's own name.
    cell
        The cell that it joins. Default: the only one.
    """
    requested = {"name": name} | ({"cell": cell} if cell else {})
    with where.api() as api:
        answer = api.post("compute", URL, {"host": requested})
    if json:
        terminal.write_json(answer)
    else:
        terminal.console().print(invited(msgspec.convert(answer, HostInvitationAnswer).invitation), soft_wrap=True)


@app.command
def enable(host: HostArgument, /, *, json: Json = False, where: Where = AS_USUAL) -> None:
    """Enable a host: servers are placed on it."""
    with where.api() as api, name_lookup.of_hosts():
        _switch(api, host, {"enabled": True})
        found = _read(api, host)
    _print(found, f"host {host} takes servers", json)


@app.command
def disable(host: HostArgument, /, *, reason: str | None = None, json: Json = False, where: Where = AS_USUAL) -> None:
    """Disable a host: no more servers are placed on it. Its servers stay there and work as before.

    Parameters
    ----------
    reason
        The reason, which `whimbrel host show` prints.
    """
    with where.api() as api, name_lookup.of_hosts():
        _switch(api, host, {"enabled": False} | ({"disabled_reason": reason} if reason else {}))
        found = _read(api, host)
    there = f"the {found.servers} that it has stay and work" if found.servers else "there are none on it"
    _print(found, f"host {host} takes no more servers; {there}", json)


@app.command
def force_down(
    host: HostArgument,
    /,
    *,
    reason: str | None = None,
    undo: bool = False,
    json: Json = False,
    where: Where = AS_USUAL,
) -> None:
    """Record that a host is dead, or undo that. Its servers can be evacuated then: be certain that it is off.

    Your name, the time and the reason are recorded, and kept with each evacuation that relies on them.

    Parameters
    ----------
    reason
        How you know that nothing runs on it, in a sentence.
    undo
        The host is in order again. What evacuations left on it is destroyed when its agent answers.
    """
    if undo == bool(reason):
        raise Invalid("state how you know that it is dead with --reason, or give --undo")
    with where.api() as api, name_lookup.of_hosts():
        api.put("compute", f"{_url(host)}/force-down", {"force_down": {"forced_down": not undo, "reason": reason}})
        found = _read(api, host)
    sentence = f"host {host} counts as dead; next: whimbrel host evacuate {host}"
    _print(found, f"host {host} is not forced down any more" if undo else sentence, json)


@app.command
def retire(host: HostArgument, /, *, where: Where = AS_USUAL) -> None:
    """Remove a host from the cloud, and revoke the key of its agent. Refused while it has servers or open runs."""
    with where.api() as api, name_lookup.of_hosts():
        api.delete("compute", _url(host))
    print(f"host {host} is no part of the cloud any more; its agent can be stopped")


@app.command
def forget(host: HostArgument, /, *, json: Json = False, where: Where = AS_USUAL) -> None:
    """Remove a host that never returns from the cloud, and revoke the key of its agent.

    It has to be evident that nothing runs on it, as for an evacuation: it fences itself, its fence device confirms that
    it is off (its power is cut), or an administrator says so (whimbrel host force-down). Refused while the host is up,
    its agent answers, or it has servers, allocations or open runs. A host that answers is retired instead.
    """
    with where.api() as api, name_lookup.of_hosts():
        answer = api.post("compute", f"{_url(host)}/forget", {"forget": None})
    if json:
        terminal.write_json(answer)
        return
    evidence = msgspec.convert(answer, ForgottenHostAnswer).forgotten.evidence
    why = f": {evidence.kind}, by {evidence.origin} at {terminal.moment(evidence.at)} UTC" if evidence else ""
    print(f"host {host} is no part of the cloud any more{why}")


def listed(hosts: list[HostState]) -> RenderableType:
    now = time.time()
    rows = [
        (each.name, each.cell, each.zone, _state(each), str(each.servers),
         f"{terminal.span(now - each.seen_at)} ago" if each.seen_at else None, each.disabled_reason)
        for each in hosts
    ]  # fmt: skip
    return Listing(COLUMNS, rows, none="no hosts: invite one with: whimbrel host invite NAME")


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
        "forced down": _word(host),
        "servers": str(host.servers),
        "size": f"{host.vcpus} vCPUs, {host.memory_mib} MiB of memory, {host.disk_gib} GiB of disk",
        "driver": host.driver,
        "guests' NICs": GUEST_NICS.get(host.guest_nics),
        "mismatches": "\n".join(host.hardware.mismatches) if host.hardware else None,
        "agent": _agent(host),
        "self-fencing": _self_fencing(host),
        "last seen": terminal.moment(host.seen_at) if host.seen_at else "never",
        "joined": terminal.moment(host.joined_at) if host.joined_at else None,
    }
    if host.state == "joined":
        rows = {name: rows[name] for name in ("host", "cell", "state", "joined")}
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    return table


def hardware(found: HostHardware | None) -> list[Listing]:
    """Return what was found on a host; nothing: that was not reported."""
    if found is None:
        return []
    nics = [
        (nic.name, nic.mac, f"{nic.speed_mbps} Mbit/s" if nic.speed_mbps else None, _text(nic.mtu), nic.state,
         nic.pci_address)
        for nic in found.nics or ()
    ]  # fmt: skip
    devices = [
        (one.address, f"{one.vendor_id}:{one.product_id}", _function(one), _text(one.numa_node), _text(one.iommu_group),
         one.driver)
        for one in found.pci or ()
    ]  # fmt: skip
    return [
        Listing(NICS, nics, none=_none("NICs", found.nics)),
        Listing(DEVICES, devices, none=_none("PCI devices", found.pci)),
    ]


def _function(device: HostPciState) -> str | None:
    if device.physical_function:
        return f"virtual, of {device.physical_function}"
    return f"physical, up to {device.virtual_functions} virtual" if device.virtual_functions else None


def _none(what: str, found: Sequence[object] | None) -> str:
    return f"{what}: they cannot be listed on this host" if found is None else f"{what}: none"


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


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


def _word(host: HostState) -> str | None:
    if not host.forced_down or host.forced_down_at is None:
        return None
    reason = f": {host.forced_down_reason}" if host.forced_down_reason else ""
    return f"by {host.forced_down_by} at {terminal.moment(host.forced_down_at)}{reason}"


def _agent(host: HostState) -> str:
    return f"release {host.release}, session {host.session}" if host.session else "in the process of the cloud"


def _self_fencing(host: HostState) -> str | None:
    if host.self_fence_s is None or host.self_fence_counted_s is None:
        return None
    counted = f"counted on {host.self_fence_counted_s:.0f} s after it was last seen"
    return f"stops its guests when it was cut off for {host.self_fence_s:g} s; {counted}"


def _read(api: Api, host: str) -> HostState:
    return msgspec.convert(api.get("compute", _url(host)), HostStateAnswer).host


def _switch(api: Api, host: str, requested: dict[str, object]) -> None:
    api.put("compute", _url(host), {"host": requested})


def _url(host: str) -> str:
    return f"{URL}/{quote(host, safe='')}"


def _print(host: HostState, sentence: str, json: bool) -> None:
    if json:
        terminal.write_json({"host": host})
    else:
        print(sentence)
