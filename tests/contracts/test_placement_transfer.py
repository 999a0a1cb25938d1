"""Copies between Whimbrel's tables and those of OpenStack Placement: complete, or refused with the reason."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests import real_placement
from tests.contracts.databases import own_postgres, postgres
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.placement_transfer import openstack_tables as theirs
from whimbrel.adapters.sql.placement_transfer.copying import Report, compare, copy
from whimbrel.adapters.sql.placement_transfer.transfer_databases import open_openstack, open_own
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, RunId, UserId
from whimbrel.placement.provider import Claim
from whimbrel.ports.placement.placement import Inventory, Owner

__all__ = ["own_postgres", "postgres"]  # fixtures

NOW = datetime(2026, 11, 24, tzinfo=UTC)
HOST, NIC, LATER, GONE = (ProviderId(f"11111111-0000-4000-8000-00000000000{number}") for number in range(1, 5))
SERVER, MOVE = (ConsumerId(f"22222222-0000-4000-8000-00000000000{number}") for number in range(1, 3))
ZONE = "33333333-0000-4000-8000-000000000001"
OWNER = Owner(ProjectId("project"), UserId("user"))
RATIO = 1.23456789  # more digits than a FLOAT of MariaDB shows
ROWS = {
    "resource classes": 1,
    "traits": 1,
    "providers": 2,
    "inventories": 3,
    "traits of providers": 2,
    "aggregates of providers": 1,
    "consumers": 2,
    "allocations": 3,
}


class Pair:
    """Two databases. theirs: the URL of OpenStack Placement's, own: of Whimbrel's."""

    def __init__(self, theirs: str, own: str) -> None:
        self.theirs = theirs
        self.own = own

    def transfer(self, back: bool = False, verify: bool = False, replace: bool = False) -> Report:
        with (
            open_openstack(self.theirs, NOW, writes=back and not verify) as openstack,
            open_own(self.own, writes=not back and not verify) as own,
        ):
            pair = (own, openstack) if back else (openstack, own)
            return compare(*pair, _show) if verify else copy(*pair, replace=replace, show=_show)

    def run(self, *statements: str) -> None:
        """Change OpenStack Placement's database."""
        with self._connected() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def value(self, statement: str) -> object:
        with self._connected() as connection:
            return connection.scalar(sa.text(statement))

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        driver = "+pymysql" if "mysql" in self.theirs else "+psycopg"
        engine = sa.create_engine(real_placement.DRIVER.sub(driver, self.theirs, count=1), poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            yield connection

    def prepare(self) -> None:
        """Do what `placement-manage db sync` does."""
        with self._connected() as connection:
            theirs.metadata.create_all(connection)
            version = theirs.KNOWN_VERSIONS[-1]
            connection.execute(sa.insert(theirs.alembic_version).values(version_num=version))


def _show(_what: str, _done: int, _total: int) -> None:
    pass


@pytest.fixture(params=["mariadb", "postgresql"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Return two empty databases; Whimbrel's is on PostgreSQL if the other one is not."""
    with ExitStack() as ending:
        url = ending.enter_context(real_placement.new_database(request.param))
        own = request.getfixturevalue("own_postgres") if request.param == "mariadb" else f"sqlite:///{tmp_path}/own"
        made = Pair(url, own)
        made.prepare()
        prepare(own, "placement")
        yield made


@pytest.fixture
async def store(pair: Pair) -> AsyncIterator[SqlPlacement]:
    """Open Whimbrel's database."""
    database = open_database(pair.own, "placement")
    yield SqlPlacement(database)
    await database.close()


async def fill(store: SqlPlacement) -> None:
    await store.create_resource_class("CUSTOM_PORT")
    await store.create_trait("CUSTOM_GOLD")
    await store.create_provider(HOST, "host", None)
    await store.create_provider(NIC, "nic", HOST)
    cpus = Inventory(total=8, reserved=1, min_unit=1, max_unit=4, step_size=1, allocation_ratio=RATIO)
    await store.set_inventories(HOST, None, {"VCPU": cpus, "DISK_GB": Inventory(total=100)})
    await store.set_inventories(NIC, None, {"CUSTOM_PORT": Inventory(total=3)})
    await store.set_traits(HOST, None, ["CUSTOM_GOLD", "HW_CPU_X86_AVX2"])
    await store.put_aggregates(HOST, None, [ZONE])
    held = {HOST: {"VCPU": 2}, NIC: {"CUSTOM_PORT": 1}}
    await store.rewrite([Claim(consumer=SERVER, owner=OWNER, held=held, type="INSTANCE")])
    await store.rewrite([Claim(consumer=MOVE, owner=OWNER, held={HOST: {"VCPU": 1}})])


def sizes(report: Report) -> dict[str, int]:
    return {each.kind: each.rows for each in report.kinds}


async def test_all_goes_there_and_comes_back(pair: Pair, store: SqlPlacement) -> None:
    await fill(store)
    before = {uuid: node.traits for uuid, node in (await store.provider_index()).nodes.items()}
    assert sizes(pair.transfer(back=True)) == ROWS
    assert pair.transfer(back=True, verify=True).is_equal
    assert pair.transfer(verify=True).is_equal
    assert sizes(pair.transfer(replace=True)) == ROWS
    stocks = (await store.provider_index()).nodes[HOST].stocks
    assert stocks["VCPU"].used == 3
    assert stocks["VCPU"].inventory.allocation_ratio == pytest.approx(RATIO, rel=1e-5)
    assert {uuid: node.traits for uuid, node in (await store.provider_index()).nodes.items()} == before
    assert (await store.claim_of(SERVER))[0].generation == 1
    assert await store.miscounts() == []


async def test_a_running_process_learns_of_a_copy(pair: Pair, store: SqlPlacement) -> None:
    await fill(store)
    await store.create_provider(GONE, "gone by then", None)
    pair.transfer(back=True)
    await store.delete_provider(GONE)
    pair.run(f"UPDATE resource_providers SET name = 'renamed' WHERE uuid = '{HOST}'")
    await store.create_provider(LATER, "later", None)
    assert set((await store.provider_index()).nodes) == {HOST, NIC, LATER}
    pair.transfer(replace=True)
    index = await store.provider_index()
    names = {HOST: "renamed", NIC: "nic", GONE: "gone by then"}
    assert {uuid: node.provider.name for uuid, node in index.nodes.items()} == names
    assert await store.check_index()


async def test_what_is_there_is_kept_unless_it_is_to_be_replaced(pair: Pair, store: SqlPlacement) -> None:
    await fill(store)
    with pytest.raises(Refused, match="--replace"):
        pair.transfer()
    assert (await store.claim_of(SERVER)) is not None
    pair.transfer(back=True)
    with pytest.raises(Refused, match="--replace"):
        pair.transfer(back=True)
    pair.transfer(back=True, replace=True)
    assert pair.value("SELECT count(*) FROM allocations") == 3
    pair.run("DELETE FROM allocations", "DELETE FROM consumers")
    assert sizes(pair.transfer(replace=True))["consumers"] == 0
    assert (await store.claim_of(SERVER)) is None


async def test_the_database_of_a_cloud_is_never_replaced(pair: Pair, store: SqlPlacement) -> None:
    await store.note_order(Order(RunId(MOVE), 1))
    for replace in (False, True):
        with pytest.raises(Refused, match="belongs to a cloud"):
            pair.transfer(replace=replace)


async def test_a_copy_that_ends_half_way_leaves_nothing(pair: Pair, store: SqlPlacement) -> None:
    await fill(store)
    pair.transfer(back=True)
    before = pair.value("SELECT max(id) FROM resource_providers")

    def end(what: str, _done: int, _total: int) -> None:
        if what == "comparing allocations":
            raise KeyboardInterrupt

    for imports in (True, False):
        with (
            pytest.raises(KeyboardInterrupt),
            open_openstack(pair.theirs, NOW, writes=not imports) as openstack,
            open_own(pair.own, writes=imports) as own,
        ):
            copy(*((openstack, own) if imports else (own, openstack)), replace=True, show=end)
    assert pair.transfer(verify=True).is_equal
    assert pair.value("SELECT max(id) FROM resource_providers") == before


_CONSUMER = "INSERT INTO consumers (uuid, project_id, user_id, generation) VALUES ('{uuid}', {project}, 1, 0)"
_ALLOCATION = (
    "INSERT INTO allocations (consumer_id, resource_provider_id, resource_class_id, used)"
    " SELECT '{consumer}', id, {number}, 1 FROM resource_providers WHERE uuid = '" + NIC + "'"
)

# What is in OpenStack Placement's database, and what the refusal says.
UNUSABLE = {
    "a consumer that is gone": ([_ALLOCATION.format(consumer=LATER, number=10_000)], "no such consumer"),
    "no inventory": ([_ALLOCATION.format(consumer=SERVER, number=2)], "no such inventory"),
    "twice": ([_ALLOCATION.format(consumer=SERVER, number=10_000)], "there twice"),
    "reserved": (["UPDATE inventories SET reserved = 9999 WHERE resource_class_id = 2"], "PUT a valid inventory"),
    "a class that is gone": (["UPDATE inventories SET resource_class_id = 555 WHERE resource_class_id = 2"], "is gone"),
    "no root": (["UPDATE resource_providers SET root_provider_id = NULL"], "online_data_migrations"),
    "another root": (
        [f"UPDATE resource_providers SET root_provider_id = id WHERE uuid = '{NIC}'"],
        "not that of the parent",
    ),
    "a project that is gone": (
        [_CONSUMER.format(uuid=LATER, project=555), _ALLOCATION.format(consumer=LATER, number=10_000)],
        "project or user is gone",
    ),
    "another schema": (["UPDATE alembic_version SET version_num = 'abcdef123456'"], "abcdef123456"),
}


@pytest.mark.parametrize("what", UNUSABLE)
async def test_rows_that_cannot_be_copied_are_named(pair: Pair, store: SqlPlacement, what: str) -> None:
    await fill(store)
    pair.transfer(back=True)
    statements, says = UNUSABLE[what]
    pair.run(*statements)
    with pytest.raises(Refused, match=says):
        pair.transfer(replace=True)
    assert len((await store.provider_index()).nodes) == 2


async def test_rows_that_no_client_sees_are_left_out(pair: Pair, store: SqlPlacement) -> None:
    await fill(store)
    pair.transfer(back=True)
    pair.run(
        _CONSUMER.format(uuid=LATER, project=1),
        "INSERT INTO allocations (consumer_id, resource_provider_id, resource_class_id, used)"
        f" VALUES ('{SERVER}', 999, 0, 1)",
        "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,"
        " step_size, allocation_ratio) VALUES (999, 0, 1, 0, 1, 1, 1, 1.0)",
        "INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES (999, 1)",
    )
    report = pair.transfer(replace=True)
    assert sizes(report) == ROWS
    assert report.left_out == {
        "inventories of providers that are gone": 1,
        "aggregates of providers that are gone": 1,
        "consumers without allocations": 1,
        "allocations of providers that are gone": 1,
    }


# Changes of OpenStack Placement's database, by the kind of rows that then differ.
CHANGES = {
    "resource classes": "INSERT INTO resource_classes (id, name) VALUES (10500, 'CUSTOM_NEW')",
    "traits": "INSERT INTO traits (id, name) VALUES (10500, 'CUSTOM_NEW')",
    "providers": f"UPDATE resource_providers SET generation = generation + 1 WHERE uuid = '{HOST}'",
    "inventories": "UPDATE inventories SET allocation_ratio = 3.5 WHERE resource_class_id = 2",
    "traits of providers": "DELETE FROM resource_provider_traits",
    "aggregates of providers": "DELETE FROM resource_provider_aggregates",
    "consumers": f"UPDATE consumers SET generation = generation + 1 WHERE uuid = '{SERVER}'",
    "allocations": f"UPDATE allocations SET used = 3 WHERE consumer_id = '{MOVE}'",
}


@pytest.mark.parametrize("kind", CHANGES)
async def test_every_difference_is_found(pair: Pair, store: SqlPlacement, kind: str) -> None:
    await fill(store)
    pair.transfer(back=True)
    pair.run(CHANGES[kind])
    for back in (False, True):
        report = pair.transfer(back=back, verify=True)
        assert [each.kind for each in report.kinds if not each.is_equal] == [kind]


async def test_uuids_are_looked_up_in_lower_case(pair: Pair, store: SqlPlacement) -> None:
    """MariaDB finds them in any case, Whimbrel only as clients write them."""
    upper = "AAAAAAAA-0000-4000-8000-00000000000A"
    await fill(store)
    pair.transfer(back=True)
    pair.run(
        f"UPDATE consumers SET uuid = '{upper}' WHERE uuid = '{SERVER}'",
        f"UPDATE allocations SET consumer_id = '{upper}' WHERE consumer_id = '{SERVER}'",
    )
    pair.transfer(replace=True)
    assert (await store.claim_of(ConsumerId(upper.lower()))) is not None


async def test_standard_names_of_a_newer_placement_stay_there(pair: Pair, store: SqlPlacement) -> None:
    await fill(store)
    newer = "INSERT INTO traits (id, name) VALUES (10500, 'HW_FROM_THE_FUTURE')"
    pair.run(newer)
    assert pair.transfer(back=True).is_equal
    pair.transfer(replace=True)
    assert "HW_FROM_THE_FUTURE" in await store.traits()
