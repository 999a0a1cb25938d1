"""The doctor finds the same in databases of MariaDB and PostgreSQL as in files, and both take the SQL that it names."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from tests.doctor.nova_copy import DATABASES, NOW, OLD, NovaCopy, moment, server
from tests.real_placement import new_database
from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.adapters.sql.nova_databases.read_only import reading
from whimbrel.adapters.sql.placement_transfer.openstack_tables import alembic_version as version
from whimbrel.doctor import repairs
from whimbrel.domain.errors import Refused

SHORT = {repairs.API: "api", repairs.PLACEMENT: "placement"}
"""Databases of the copy, by the names that commands have."""
DRIVERS = {"mariadb": "mysql+pymysql", "postgresql": "postgresql+psycopg"}


@contextmanager
def database(kind: str) -> Iterator[str]:
    """Make an empty database, and yield its URL for tests."""
    with new_database(kind) as url:
        yield sa.make_url(url).set(drivername=DRIVERS[kind]).render_as_string(hide_password=False)


@pytest.fixture(params=list(DRIVERS))
def copy(request: pytest.FixtureRequest) -> Iterator[NovaCopy]:
    with ExitStack() as opened:
        made = NovaCopy({name: opened.enter_context(database(request.param)) for name in DATABASES})
        opened.callback(made.close)
        yield made


def fill(copy: NovaCopy) -> None:
    """Add a server for each way in which a database is read or mended."""
    copy.add_server(1)
    copy.add_server(2, task_state="resize_prep")
    copy.release(server(2))
    copy.hold(copy.add_migration(2, "pre-migrating"), "n1")
    copy.add_server(3, "n2", vm_state="resized")
    copy.hold(copy.add_migration(3, "confirming"), "n1")
    copy.add_server(4, "n2", vm_state="resized", task_state="resize_reverting")
    copy.hold(copy.add_migration(4, "reverted"), "n1")
    copy.add_record(5, None, vm_state="shelved_offloaded", task_state="unshelving")
    copy.add_mapping(5, "one")
    copy.add_server(6, vm_state="shelved_offloaded")
    copy.release(server(6))
    copy.add_server(7)
    copy.hold(server(7), "n2")
    copy.hold(copy.add_migration(8, "error", deleted=8), "n1")
    copy.add_server(9, "s1")
    copy.add_record(9, "n1", hidden=True)
    copy.add_mapping(10, "one")
    copy.add_server(11)
    copy.change("api", nova.instance_mappings, {"instance_uuid": server(11)}, cell_id=3)
    copy.add_server(12)
    copy.change("api", nova.request_specs, {"instance_uuid": server(12)}, spec='{"nova_object.data": {}}')
    copy.add("one", nova.pci_devices, compute_node_id=1, address="0000:02:00.0", dev_type="type-VF", status="allocated",
             instance_uuid=server(99), deleted=0)  # fmt: skip
    copy.use_volume(99, "v", "a")
    copy.add_server(13, at=NOW - 1800.0, task_state="migrating")
    copy.add_server(14, project_id="p")
    copy.change("api", nova.instance_mappings, {"instance_uuid": server(14)}, project_id="q")
    copy.add_server(15)
    copy.release(server(15), also_consumer=False)
    lost = copy.add_provider(50, "n9")
    copy.add("one", nova.compute_nodes, id=9, uuid=lost, host="n9", hypervisor_hostname="n9", deleted=9,
             deleted_at=moment(OLD))  # fmt: skip
    copy.hold_of(server(99), 50)
    copy.change("one", nova.services, {"host": "n1"}, last_seen_up=moment(NOW - 1000.0))


def test_it_finds_the_same_as_in_files_and_its_sql_is_taken(copy: NovaCopy, tmp_path: Path) -> None:
    in_files = NovaCopy.in_files(tmp_path)
    for each in (copy, in_files):
        fill(each)
    found, expected = copy.look(), in_files.look()
    assert msgspec.to_builtins(found) == msgspec.to_builtins(expected)
    assert {each.kind for each in found.findings} >= {"stuck_server", "hidden_copy", "allocation_of_gone_server"}

    for table, column in repairs.OF_INSTANCES:  # those of which the doctor reads nothing
        copy.execute("one", f"CREATE TABLE IF NOT EXISTS {table} ({column} VARCHAR(36))")
    for each in found.findings:
        lines = [(command.sql_in, command.line) for command in each.commands if command.sql_in]
        changed = [copy.execute(SHORT.get(name, name), line) for name, line in lines]
        assert any(changed) == bool(lines), each
    mended = {
        "consumer_left",
        "wrong_owner",
        "hidden_copy",
        "mapping_of_nothing",
        "mapping_to_wrong_cell",
        "offloaded_on_host",
    }
    assert mended <= {each.kind for each in found.findings}
    assert mended.isdisjoint(each.kind for each in copy.look().findings)


@pytest.fixture(params=list(DRIVERS))
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with database(request.param) as made:
        yield made


def test_it_reads_known_schemas_only_and_cannot_write(url: str) -> None:
    with pytest.raises(Refused, match="no table alembic_version"), reading("it", url, ("1",), any_schema=False):
        pass
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        version.create(connection)
        connection.execute(sa.insert(version).values(version_num="2"))
    with (
        pytest.raises(Refused, match="has schema version 2, and only 1 are known"),
        reading("it", url, ("1",), any_schema=False),
    ):
        pass
    with (
        reading("it", url, ("1",), any_schema=True) as connection,
        pytest.raises(sa.exc.DBAPIError, match=r"(?i)read.only"),
    ):
        connection.execute(sa.delete(version))
