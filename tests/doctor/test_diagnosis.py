"""Two looks at a whole Nova, and how its databases are read."""

import socket

import pytest
import sqlalchemy as sa

from tests.contracts.databases import own_postgres, postgres
from tests.doctor.nova_copy import OLD, YOUNG, NovaCopy, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.adapters.sql.nova_databases.read_only import Engines, reading
from whimbrel.doctor.stuck_limits import StuckLimits
from whimbrel.domain.errors import Refused, Unavailable

__all__ = ["own_postgres", "postgres"]  # fixtures


def test_a_healthy_cloud_has_no_findings(copy: NovaCopy) -> None:
    copy.add_server(3, "n2", vm_state="resized")  # waits for its verdict
    copy.hold(copy.add_migration(3, "finished"), "n1")
    copy.add_record(4, None, cell="cell0", vm_state="error", launched_at=None)  # found no host
    copy.add_mapping(4, "cell0")
    copy.add_record(5, None, vm_state="shelved_offloaded")
    copy.add_mapping(5, "one")
    copy.add_spec(5)
    copy.add_server(6, "n2")  # was evacuated, and its source has not come back
    copy.hold(server(6), "n1")
    copy.add_migration(6, "done", "evacuation")
    copy.add_record(7, "n1", deleted=7)  # gone
    copy.add_mapping(7, "one", queued=True)
    copy.add_migration(8, "confirmed", deleted=8)
    found = copy.look()
    assert (found.servers, found.findings, found.in_flight) == (6, [], [])


def test_what_changed_between_the_looks_is_no_finding(copy: NovaCopy) -> None:
    copy.release(server(1))
    later = copy.look(wait=lambda _: copy.change("one", nova.instances, {"uuid": server(1)}, at=OLD + 1.0))
    assert (later.findings, later.passed) == ([], 1)
    assert copy.look(wait=lambda _: copy.hold(server(1), "n1")).findings == []


def test_what_was_written_a_moment_ago_is_in_flight(copy: NovaCopy) -> None:
    copy.release(server(1))
    copy.change("one", nova.instances, {"uuid": server(1)}, at=YOUNG)
    found = copy.look()
    assert (found.findings, [each.subject for each in found.in_flight]) == ([], [server(1)])
    assert copy.kinds(limits=StuckLimits(settle_s=5.0)) == [("no_allocation", server(1))]


def test_many_servers_are_read_by_ranges(copy: NovaCopy) -> None:
    for number in range(2100):
        copy.add_mapping(number * 2_000_000 + 10, "one", queued=True)
    copy.add_server(0xF0000000)
    copy.release(server(0xF0000000))
    copy.add_server(0xFFFFFFFF)
    found = copy.look()
    assert (found.servers, [each.key for each in found.findings]) == (4, [("no_allocation", server(0xF0000000))])


def test_an_unknown_schema_is_refused(copy: NovaCopy) -> None:
    copy.change_version("two", "0123456789ab")
    with pytest.raises(Refused, match="cell two has schema version 0123456789ab"):
        copy.look()


def test_nothing_can_be_written(copy: NovaCopy) -> None:
    with (
        reading("it", copy.urls.api, nova.API_VERSIONS, any_schema=False) as connection,
        pytest.raises(sa.exc.OperationalError, match="readonly"),
    ):
        connection.execute(sa.delete(nova.instance_mappings))


def test_a_connection_is_kept_and_each_snapshot_is_new(own_postgres: str) -> None:
    url = own_postgres.replace("postgresql:", "postgresql+psycopg:")
    other_engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with Engines() as engines:

        def read(statement: str) -> object:
            with reading("it", own_postgres, (), any_schema=True, engines=engines) as connection:
                return connection.exec_driver_sql(statement).scalar()

        process = "SELECT pg_backend_pid()"
        assert read(process) == read(process)
        with other_engine.begin() as other:
            other.exec_driver_sql("CREATE TABLE seen (id int)")
        assert read("SELECT count(*) FROM seen") == 0
        with pytest.raises(Unavailable, match="read-only"):
            read("INSERT INTO seen VALUES (1) RETURNING id")
        with other_engine.begin() as other:
            other.exec_driver_sql(f"SELECT pg_terminate_backend({read(process)})")
        assert read("SELECT count(*) FROM seen") == 0  # one that the server has closed is made anew


def test_a_database_that_is_silent_ends_the_look() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mysql://root@127.0.0.1:{silent.getsockname()[1]}/nova"
        with (
            pytest.raises(Unavailable, match="timed out"),
            reading("it", url, nova.API_VERSIONS, any_schema=False, answer_timeout_s=0.01),
        ):
            pass


def test_a_statement_that_postgresql_does_not_answer_ends_the_look(own_postgres: str) -> None:
    with (
        pytest.raises(Unavailable, match="no answer within"),
        reading("it", own_postgres, nova.API_VERSIONS, any_schema=True, answer_timeout_s=0.01) as connection,
    ):
        connection.exec_driver_sql("SELECT pg_sleep(3600)")
