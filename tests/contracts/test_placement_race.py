"""What holds when eight clients write at once, as tasks of one process and as processes: nothing is given twice.

Who loses is told to look again only where that can help; and nobody locks anybody out, which would end as Unavailable.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
import sqlalchemy as sa

from tests.contracts import racers
from tests.contracts.databases import Opener, Postgres
from tests.contracts.racers import BOTH, CLIENTS, EMPTY, FULL, HOST, OTHER, ROUNDS, TRIES, UNITS, Ends, Race
from tests.contracts.test_placement import check_sums
from tests.processes import HANG_S
from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.postgres import PostgresDatabase
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.placement.claims import read_held
from whimbrel.domain.errors import Conflict
from whimbrel.domain.ids import GroupId, ProviderId
from whimbrel.placement.errors import NoRoom, Stale
from whimbrel.placement.provider import Claim
from whimbrel.placement_api import problems
from whimbrel.ports.placement.placement import Inventory


class Where(NamedTuple):
    url: str
    schema: str


T = TypeVar("T")
Run = Callable[[Race, Where], list[Ends]]


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """Return where two providers are that have as many VCPU as the racers want too many of."""
    place = Where(f"sqlite:///{tmp_path}", "placement")
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        place = Where(server.url, server.make_schema("placement"))
    asyncio.run(_prepare(place))
    return place


async def _prepare(where: Where) -> None:
    database = open_database(*where)
    await create_all(database, "placement")
    store = SqlPlacement(database)
    for uuid in (HOST, OTHER):
        await store.create_provider(uuid, uuid, None)
        inventory = Inventory(total=UNITS // 4 + 3, reserved=3, allocation_ratio=4.0)
        await store.add_inventory(uuid, "VCPU", inventory)
    for host in EMPTY:
        await store.register_host(host, host, {"VCPU": Inventory(total=CLIENTS)})
    await database.close()


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    """Return eight processes, which start together whatever they are given to do."""
    context = get_context("spawn")
    with ProcessPoolExecutor(CLIENTS, context, racers.ready, (context.Barrier(CLIENTS),)) as pool:
        yield pool


@pytest.fixture(params=["one process", "eight processes"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a race and tell how it ended for each client."""
    return _in_eight(request.getfixturevalue("processes")) if request.param == "eight processes" else _in_one


def with_store(where: Where, work: Callable[[SqlPlacement, Database], Awaitable[T]]) -> T:
    """Return what `work` does with the store, in an event loop of its own."""

    async def main() -> T:
        database = open_database(*where)
        try:
            return await work(SqlPlacement(database), database)
        finally:
            await database.close()

    return asyncio.run(main())


def _in_one(race: Race, where: Where) -> list[Ends]:
    async def all_of_them(store: SqlPlacement, _: Database) -> list[Ends]:
        return await asyncio.gather(*(race(store, number) for number in range(CLIENTS)))

    return with_store(where, all_of_them)


def _in_eight(processes: Executor) -> Run:
    def run(race: Race, where: Where) -> list[Ends]:
        clients = [processes.submit(racers.alone, race, *where, number) for number in range(CLIENTS)]
        return [client.result(HANG_S) for client in clients]

    return run


def write(where: Where, claims: list[Claim]) -> None:
    with_store(where, lambda store, _: store.rewrite(claims))


def used(where: Where) -> list[int]:
    """Check the books, and tell how much of each provider is in use."""

    async def read(store: SqlPlacement, database: Database) -> list[int]:
        await check_sums(database)
        return [(await store.node(uuid)).stocks["VCPU"].used for uuid in (HOST, OTHER)]

    return with_store(where, read)


def places(where: Where, number: int) -> frozenset[tuple[str, str]]:
    """Return where the servers of a group are."""
    return with_store(where, lambda store, _: store.group_places(GroupId(f"group {number}"))).held


def held_and_in_another_zone(where: Where) -> tuple[set[str], set[str]]:
    """Return of which of the empty hosts something is held by now, and which are in another zone."""
    zoned = with_store(where, lambda store, _: store.zoned_hosts())
    return set(claims_by_host(where)), {one.root for one in zoned}


def claims_by_host(where: Where) -> Counter[ProviderId]:
    return Counter(one.provider for one in with_store(where, lambda store, _: store.allocations()))


def filled(where: Where) -> None:
    """Make two consumers hold all of a provider each."""
    write(where, [racers.claim(consumer, {provider: FULL}, None) for consumer, provider in BOTH])


def test_the_last_units_are_given_once(where: Where, run: Run) -> None:
    ends = sum(run(racers.take_units, where), Ends())
    assert ends == {"done": UNITS, "NoRoom": CLIENTS * TRIES - UNITS}
    assert used(where) == [UNITS, 0]


def test_of_a_group_that_is_to_be_apart_one_gets_a_host(where: Where, run: Run) -> None:
    ends = sum(run(racers.claim_apart, where), Ends())
    assert ends == {"done": TRIES, "Refused": (CLIENTS - 1) * TRIES}
    assert used(where) == [TRIES, 0]


def test_groups_that_are_to_be_together_are(where: Where, run: Run) -> None:
    ends = sum(run(racers.claim_together, where), Ends())
    assert ends == {"done": CLIENTS // 2 * TRIES, "Refused": CLIENTS // 2 * TRIES}
    assert sum(used(where)) == CLIENTS // 2 * TRIES
    for place in range(TRIES):
        assert len({root for _, root in places(where, place)}) == 1


def test_no_server_arrives_on_a_host_that_goes_to_another_zone(where: Where, run: Run) -> None:
    ends = sum(run(racers.claim_where_zones_change, where), Ends())
    held, elsewhere = held_and_in_another_zone(where)
    half = CLIENTS // 2
    assert ends == Ends(done=half * TRIES, HostInUse=half * len(held), Refused=half * len(elsewhere))
    assert (held | elsewhere, held & elsewhere) == (set(EMPTY), set())


@pytest.mark.long
def test_no_server_arrives_on_a_host_once_it_is_disabled(where: Where, run: Run) -> None:
    """Each client that disabled a host found there, right then, all that is there in the end."""
    ends = sum(run(racers.claim_where_hosts_are_disabled, where), Ends())
    half = CLIENTS // 2
    held = claims_by_host(where)
    assert ends["done"] + ends["Refused"] == half * TRIES
    assert ends["done"] == held.total()
    found = Ends({f"{held[host]} held at {place}": half for place, host in enumerate(EMPTY)})
    assert Ends({key: number for key, number in ends.items() if "held" in key}) == found


def test_of_those_who_make_one_consumer_one_wins(where: Where, run: Run) -> None:
    ends = sum(run(racers.make_one_consumer, where), Ends())
    assert ends["done"] == TRIES
    # Stale where the other was there already, Conflict where he came in between: to look again helps in both.
    assert ends["Stale"] + ends["Conflict"] == (CLIENTS - 1) * TRIES
    assert sum(used(where)) == TRIES


def test_swaps_of_two_consumers_all_succeed(where: Where, run: Run) -> None:
    """Both providers are full all the time."""
    filled(where)
    assert run(racers.swap, where) == [{"done": ROUNDS}] * CLIENTS
    assert used(where) == [UNITS, UNITS]


def test_who_looks_again_gets_his_turn(where: Where, run: Run) -> None:
    filled(where)
    for ends in run(racers.swap_as_seen, where):
        assert ends["done"] == ROUNDS
        assert ends.keys() <= {"done", "Stale"}
    assert used(where) == [UNITS, UNITS]


def test_writes_of_all_kinds_do_not_lock_each_other_out(where: Where, run: Run) -> None:
    ends = sum(run(racers.do_everything, where), Ends())
    assert ends.keys() <= {"done", "Stale", "Conflict"}
    assert ends["done"] >= CLIENTS * ROUNDS
    used(where)


async def test_who_is_made_between_the_lock_and_the_look_is_not_taken_for_locked(open_store: Opener) -> None:
    """Else the next writer would change it under us, and what we give back would be what it held before."""
    async with open_store("placement") as database, open_store("placement") as elsewhere:
        if not isinstance(database, PostgresDatabase):
            pytest.skip("on SQLite one writer waits for the other")
        other = SqlPlacement(elsewhere)
        await other.register_host(HOST, "host", {"VCPU": Inventory(total=8)})

        class Slow(Tx):
            dialect = "postgresql"
            asked = 0

            async def rows(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Any:
                found = await tx.rows(statement, values)
                self.asked += 1
                if self.asked == 1:
                    await other.rewrite([racers.claim(racers.FIRST, {HOST: {"VCPU": 1}})])
                return found

        async with database.write() as tx:
            with pytest.raises(Conflict):
                await read_held(Slow(), [racers.FIRST], lock=True)


def test_what_the_losers_hear() -> None:
    """The code that tells a client to try again is for those whom that can help."""
    assert problems.translate(Stale("")).code == problems.translate(Conflict("")).code == problems.CONCURRENT_UPDATE
    assert (problems.translate(NoRoom("")).status, problems.translate(NoRoom("")).code) == (409, problems.UNDEFINED)
