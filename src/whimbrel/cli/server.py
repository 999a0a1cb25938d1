"""`whimbrel server move`: a server goes to another zone or host, or a group of servers goes to another host."""

from typing import Any
from urllib.parse import quote

import msgspec
from cyclopts import App, Parameter

from whimbrel.cli import groups, names, terminal
from whimbrel.cli.move import Where
from whimbrel.cli.move import show as show_move
from whimbrel.domain.errors import Invalid

AS_USUAL = Where()

app = App(name="server", help="Move servers to where they are wanted.", default_parameter=Parameter(negative=()))


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
    watch: bool = False,
    json: bool = False,
    where: Where = AS_USUAL,
) -> int:
    """Move a server, or with --group all servers of an affinity group together.

    It waits for its verdict as after a resize: openstack server resize confirm (or revert). A pinned server is pinned
    to its new zone when it is confirmed; reverted, or refused, it is as before.

    Parameters
    ----------
    server
        Id or name of the server.
    zone
        To this availability zone (its name), whatever zone it is in or pinned to.
    host
        To this host only.
    leave_zone
        It may leave the zone that it would have to stay in: for --host.
    flavor
        With this flavor (id or name) from then on.
    group
        Id or name of an affinity group, instead of a server.
    confirm
        Confirm each server of the group when it has arrived.
    watch
        Stay until the move of the server waits for its verdict or is over.
    json
        One JSON document instead of text.
    """
    if (server is None) == (group is None):
        raise Invalid("name a server, or a group with --group")
    if group is not None:
        _refuse_with_group({"--leave-zone": leave_zone, "--flavor": flavor, "--watch": watch})
        return groups.move(group, host=host, zone=zone, confirm=confirm, json=json, where=where)
    if confirm:
        raise Invalid("--confirm is for --group; a server is confirmed with openstack server resize confirm")
    assert server is not None, "a server or a group"
    with where.api() as api:
        found = names.server(api, server)
        wish = {"availability_zone": zone, "host": host, "leave_zone": leave_zone}
        wish["flavor"] = None if flavor is None else names.flavor(api, flavor)["id"]
        begun = api.post("compute", f"/whimbrel/servers/{quote(found['id'])}/move", {"move": wish})
    _tell(begun, found["name"], watch=watch, json=json, where=where)
    return 0


def _tell(begun: Any, name: str, *, watch: bool, json: bool, where: Where) -> None:
    move_id = begun["move"]["id"]
    if watch:
        show_move(move_id, watch=True, json=json, where=where)
    elif json:
        print(msgspec.json.encode(begun).decode())
    else:
        terminal.console().print(
            f"server {name} moves; watch it: whimbrel move show {move_id} --watch"
            f"\nthen: openstack server resize confirm {name} (or revert)"
        )


def _refuse_with_group(options: dict[str, Any]) -> None:
    """Raises: Invalid: an option that is for one server."""
    for option, given in options.items():
        if given:
            raise Invalid(f"{option} is for one server, not for a group")
