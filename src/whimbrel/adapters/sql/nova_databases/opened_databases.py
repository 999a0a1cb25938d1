"""Opens all databases of a Nova and its Placement, found by its API database: one look of the doctor."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa

from whimbrel.adapters.sql.nova_databases import nova_tables as tables
from whimbrel.adapters.sql.nova_databases.read_only import Engines, reading
from whimbrel.adapters.sql.nova_databases.record_reader import RecordReader
from whimbrel.adapters.sql.placement_transfer.openstack_tables import KNOWN_VERSIONS
from whimbrel.domain.errors import Refused


@dataclass(frozen=True)
class NovaUrls:
    """api, placement: URLs. main: of [database], from which templates of cell_mappings are filled. cells: overrides."""

    api: str
    placement: str
    main: str | None = None
    cells: Mapping[str, str] = field(default_factory=dict)
    default_zone: str = "nova"
    any_schema: bool = False


@contextmanager
def open_nova(urls: NovaUrls, engines: Engines | None = None) -> Iterator[RecordReader]:
    """Open one snapshot of each database. engines: what is kept between looks; None: nothing.

    Raises: Invalid; Refused; Unavailable: one cannot be read.
    """
    with ExitStack() as opened:

        def read(title: str, url: str, versions: tuple[str, ...]) -> sa.Connection:
            return opened.enter_context(reading(title, url, versions, any_schema=urls.any_schema, engines=engines))

        api = read("Nova's API database", urls.api, tables.API_VERSIONS)
        cells, names, uuids = {}, {}, {}
        c = tables.cell_mappings.c
        for row in api.execute(sa.select(c.id, c.uuid, c.name, c.database_connection).order_by(c.id)).all():
            name = row.name if row.name and row.name not in uuids else row.uuid
            names[row.id], uuids[name] = name, row.uuid
            url = urls.cells.get(name) or filled(row.database_connection, urls.main)
            cells[name] = read(f"the database of cell {name}", url, tables.CELL_VERSIONS)
        if not cells:
            raise Refused("Nova's API database names no cells: is it the right database?")
        placement = read("Placement's database", urls.placement, KNOWN_VERSIONS)
        yield RecordReader(api, cells, placement, names, uuids, urls.default_zone)


def filled(template: str, main: str | None) -> str:
    """Fill a template of cell_mappings ({username}, {hostname} and so on) from the URL of [database].

    Raises: Refused: there is no such URL.
    Source: Nova's documentation of cells, "Template URLs in Cell Mappings".
    """
    if "{" not in template:
        return template
    if main is None:
        raise Refused("cell_mappings has templates of URLs, and nova.conf has no connection in its section [database]")
    url = sa.make_url(main)
    parts = {
        "scheme": url.drivername,
        "username": url.username or "",
        "password": str(url.password or ""),
        "hostname": url.host or "",
        "port": str(url.port or ""),
        "path": url.database or "",
        "query": "&".join(f"{key}={value}" for key, value in url.query.items()),
    }
    for name, value in parts.items():
        template = template.replace("{" + name + "}", value)
    return template
