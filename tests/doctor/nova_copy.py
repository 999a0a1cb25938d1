"""A small Nova: its databases, as SQLite files or elsewhere, with only the columns that the doctor reads."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.adapters.sql.nova_databases.opened_databases import NovaUrls, open_nova
from whimbrel.adapters.sql.placement_transfer import openstack_tables as placement
from whimbrel.doctor.diagnosis import Checks, Diagnosis, diagnose
from whimbrel.doctor.stuck_limits import StuckLimits

NOW = 1_700_000_000.0
OLD = NOW - 86_400.0
YOUNG = NOW - 10.0
CELLS = {"cell0": 1, "one": 2, "two": 3}
DATABASES = ("api", "placement", *CELLS)
HOSTS = {"n1": "one", "n2": "one", "s1": "two"}
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
AMOUNTS = (1, 512, 1)
LIMITS = StuckLimits()


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def node(host: str) -> str:
    return f"{list(HOSTS).index(host):08x}-0000-4000-8000-00000000000a"


def server(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000001"


def migration(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000002"


def _with_lengths(metadata: sa.MetaData) -> sa.MetaData:
    """Copy tables, with the lengths of strings that MariaDB needs."""
    made = sa.MetaData()
    for table in metadata.sorted_tables:
        for column in table.to_metadata(made).columns:
            if type(column.type) is sa.String and column.type.length is None:
                column.type = sa.String(255)
    return made


def _engine(url: str) -> sa.Engine:
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool if "sqlite" in url else None)
    if engine.dialect.name == "sqlite":  # a test may add thousands of rows: do not wait for the disk
        pragmas = "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY"
        sa.event.listen(engine, "connect", lambda connection, record: connection.executescript(pragmas))
    return engine


def _file_urls(directory: Path) -> dict[str, str]:
    return {name: f"sqlite:///{directory / name}.sqlite" for name in DATABASES}


@cache
def _empty_files() -> dict[str, bytes]:
    with TemporaryDirectory() as directory:
        made = NovaCopy(_file_urls(Path(directory)))
        made.remove("api", nova.cell_mappings)  # they name this directory
        return {name: (Path(directory) / f"{name}.sqlite").read_bytes() for name in DATABASES}


class NovaCopy:
    """Databases at URLs of SQLAlchemy, by name. What is added is a day old unless `at` says otherwise."""

    def __init__(self, urls: Mapping[str, str], *, has_tables: bool = False) -> None:
        self._engines = {name: _engine(url) for name, url in urls.items()}
        self.urls = NovaUrls(api=urls["api"], placement=urls["placement"])
        self._ids = 100
        if not has_tables:
            self._make_tables()
        cells = [{"id": id, "uuid": f"cell-{name}", "name": name, "database_connection": urls[name]}
                 for name, id in CELLS.items()]  # fmt: skip
        with self._engines["api"].begin() as connection:
            connection.execute(sa.insert(nova.cell_mappings), cells)

    def _make_tables(self) -> None:
        """Create the tables, and the rows that are in them wherever the databases are."""
        for name, engine in self._engines.items():
            _with_lengths((placement if name == "placement" else nova).metadata).create_all(engine)
            newest = {"api": nova.API_VERSIONS, "placement": placement.KNOWN_VERSIONS}.get(name, nova.CELL_VERSIONS)[-1]
            with engine.begin() as connection:
                placement.alembic_version.create(connection, checkfirst=True)
                connection.execute(sa.insert(placement.alembic_version).values(version_num=newest))
        for id, name in enumerate(CLASSES, start=1):
            self.add("placement", placement.resource_classes, id=id, name=name)
        for id, (host, cell) in enumerate(HOSTS.items(), start=1):
            self.add("placement", placement.providers, id=id, uuid=node(host), name=host, root_provider_id=id)
            self.add(cell, nova.compute_nodes, id=id, uuid=node(host), host=host, hypervisor_hostname=host, deleted=0)
            self.add(cell, nova.services, host=host, binary="nova-compute", last_seen_up=moment(NOW), deleted=0)

    @classmethod
    def in_files(cls, directory: Path) -> "NovaCopy":
        """Return one whose tables are copied: to create them takes ten times as long."""
        for name, content in _empty_files().items():
            (directory / f"{name}.sqlite").write_bytes(content)
        return cls(_file_urls(directory), has_tables=True)

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def execute(self, database: str, statement: str) -> int:
        """Execute a statement. Return how many rows it changed."""
        with self._engines[database].begin() as connection:
            return connection.execute(sa.text(statement)).rowcount

    def add(self, database: str, table: sa.Table, at: float = OLD, **values: Any) -> None:
        with self._engines[database].begin() as connection:
            connection.execute(sa.insert(table).values(created_at=moment(at), updated_at=moment(at), **values))

    def change(self, database: str, table: sa.Table, where: dict[str, Any], at: float = OLD, **values: Any) -> None:
        chosen = sa.and_(*(table.c[name] == value for name, value in where.items()))
        with self._engines[database].begin() as connection:
            connection.execute(sa.update(table).where(chosen).values(updated_at=moment(at), **values))

    def remove(self, database: str, table: sa.Table, **where: Any) -> None:
        with self._engines[database].begin() as connection:
            connection.execute(sa.delete(table).where(*(table.c[name] == value for name, value in where.items())))

    def change_version(self, database: str, version: str) -> None:
        with self._engines[database].begin() as connection:
            connection.execute(sa.update(placement.alembic_version).values(version_num=version))

    def add_server(self, number: int, host: str = "n1", at: float = OLD, **values: Any) -> str:
        """Add a server on a host, with its mapping, request spec and allocation."""
        self.add_record(number, host, at, **values)
        self.add_mapping(number, HOSTS[host], at)
        self.add_spec(number, at=at)
        self.hold(server(number), host, at=at)
        return server(number)

    def add_record(self, number: int, host: str | None = "n1", at: float = OLD, cell: str = "", **values: Any) -> None:
        row = {
            "uuid": server(number), "display_name": f"s{number}", "host": host, "node": host, "vm_state": "active",
            "vcpus": 1, "memory_mb": 512, "instance_type_id": 1, "hidden": False, "deleted": 0,
            "launched_at": moment(OLD), "image_ref": "image", **values,
        }  # fmt: skip
        cell = cell or HOSTS[host or "n1"]
        self.add(cell, nova.instances, at, **row)
        flavor = {"cur": {"nova_object.data": {"id": 1, "extra_specs": {}}}}
        self.add(cell, nova.instance_extra, at, instance_uuid=row["uuid"], flavor=json.dumps(flavor), deleted=0)

    def add_mapping(self, number: int, cell: str | None, at: float = OLD, *, queued: bool | None = False) -> None:
        id = CELLS[cell] if cell else None
        uuid = server(number)
        self.add("api", nova.instance_mappings, at, instance_uuid=uuid, cell_id=id, queued_for_delete=queued)

    def add_spec(self, number: int, flavor: int = 1, zone: str | None = None, at: float = OLD) -> None:
        data = {"availability_zone": zone, "flavor": {"nova_object.data": {"id": flavor}}}
        text = json.dumps({"nova_object.data": data})
        self.add("api", nova.request_specs, at, instance_uuid=server(number), spec=text)

    def hold(self, consumer: str, host: str, amounts: Iterable[int] = AMOUNTS, at: float = OLD) -> None:
        self.remove("placement", placement.consumers, uuid=consumer)
        self.add("placement", placement.consumers, at, uuid=consumer, project_id=1, user_id=1, generation=1)
        for id, used in enumerate(amounts, start=1):
            self.add("placement", placement.allocations, at, consumer_id=consumer,
                     resource_provider_id=list(HOSTS).index(host) + 1, resource_class_id=id, used=used)  # fmt: skip

    def add_provider(self, id: int, name: str, root: int | None = None, at: float = OLD) -> str:
        """Add a provider that no compute node has. root: the id of its tree's; None: its own. Return its uuid."""
        uuid = f"{id:08x}-0000-4000-8000-00000000000b"
        self.add("placement", placement.providers, at, id=id, uuid=uuid, name=name, root_provider_id=root or id)
        return uuid

    def hold_of(self, consumer: str, provider: int, used: int = 1, at: float = OLD) -> None:
        """Add an allocation of CPUs of a provider. provider: its id in the database."""
        self.add("placement", placement.allocations, at, consumer_id=consumer, resource_provider_id=provider,
                 resource_class_id=1, used=used)  # fmt: skip

    def release(self, consumer: str, *, also_consumer: bool = True) -> None:
        """Delete allocations, and the record of their consumer, as Placement does."""
        self.remove("placement", placement.allocations, consumer_id=consumer)
        if also_consumer:
            self.remove("placement", placement.consumers, uuid=consumer)

    def add_migration(
        self, number: int, status: str, type: str = "resize", source: str = "n1", target: str = "n2", at: float = OLD,
        cell: str = "", **values: Any,
    ) -> str:  # fmt: skip
        row = {
            "uuid": migration(number), "instance_uuid": server(number), "migration_type": type, "status": status,
            "source_compute": source, "source_node": source, "dest_compute": target, "dest_node": target,
            "cross_cell_move": False, "hidden": False, "deleted": 0, **values,
        }  # fmt: skip
        self.add(cell or HOSTS[source], nova.migrations, at, **row)
        return migration(number)

    def use_volume(
        self, number: int, volume: str, attachment: str | None, at: float = OLD, cell: str = "one", **values: Any
    ) -> None:
        self.add(cell, nova.block_device_mapping, at, instance_uuid=server(number), volume_id=volume,
                 attachment_id=attachment, deleted=0, **values)  # fmt: skip

    def look(
        self,
        wait: Any = lambda seconds: None,
        limits: StuckLimits = LIMITS,
        now: float = NOW,
        services: Sequence[Checks] = (),
    ) -> Diagnosis:
        """Look twice. wait: what happens between the two. services: checks of other services."""
        return diagnose(lambda: open_nova(self.urls), lambda: now, wait, 30.0, limits, lambda *_: None, services)

    def kinds(self, **how: Any) -> list[tuple[str, str]]:
        return [each.key for each in self.look(**how).findings]
