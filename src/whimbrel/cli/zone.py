"""`whimbrel zone`: list, rename and delete availability zones."""

from typing import Any
from urllib.parse import quote

import msgspec
from cyclopts import App, Parameter
from rich.console import RenderableType

from whimbrel.api.views.zones import Zone, Zones
from whimbrel.cli import terminal
from whimbrel.cli.client import Api
from whimbrel.cli.listing import Column, Listing
from whimbrel.cli.move import Where
from whimbrel.cli.output_format import Output
from whimbrel.domain.errors import NotFound

URL = "/whimbrel/zones"
AS_USUAL = Where()
COLUMNS = (Column("zone", "name"), Column("id", "id"), Column("hosts", "reason"), Column(""))

app = App(name="zone", help="Availability zones: list, rename, delete.", default_parameter=Parameter(negative=()))


@app.command(name="list")
def list_zones(*, output: Output = Output(), where: Where = AS_USUAL) -> None:
    """List zones with their ids and hosts, also those without hosts."""
    with where.api() as api:
        answer = api.get("compute", URL)
    if not output.wrote(answer, "zones"):
        terminal.console().print(shown(_read(answer)))


@app.command
def rename(zone: str, name: str, /, *, where: Where = AS_USUAL) -> None:
    """Rename a zone. Servers stay where they are, and servers pinned to the zone stay pinned to it.

    Parameters
    ----------
    zone
        Name or id of the zone.
    name
        Its new name.
    """
    with where.api() as api:
        found = _find(api, zone)
        api.put("compute", f"{URL}/{quote(found.id, safe='')}", {"zone": {"name": name}})
    terminal.console().print(f"zone {found.name} is now {name}; its id is {found.id} as before")


@app.command
def delete(zone: str, /, *, where: Where = AS_USUAL) -> None:
    """Delete a zone that no aggregate has and no server is in or pinned to. An error names what still uses it.

    Parameters
    ----------
    zone
        Name or id of the zone.
    """
    with where.api() as api:
        found = _find(api, zone)
        api.delete("compute", f"{URL}/{quote(found.id, safe='')}")
    terminal.console().print(f"zone {found.name} is deleted")


def shown(zones: list[Zone]) -> RenderableType:
    rows = [(zone.name, zone.id, ", ".join(zone.hosts), "default" if zone.is_default else "") for zone in zones]
    return Listing(COLUMNS, rows, none="no zones")


def _find(api: Api, wanted: str) -> Zone:
    """Find a zone by its name, else by its id. Raises: NotFound."""
    zones = _read(api.get("compute", URL))
    for zone in [*(one for one in zones if one.name == wanted), *(one for one in zones if one.id == wanted)]:
        return zone
    raise NotFound(f"there is no availability zone {wanted}: whimbrel zone list shows those that there are")


def _read(answer: Any) -> list[Zone]:
    return msgspec.convert(answer, Zones).zones
