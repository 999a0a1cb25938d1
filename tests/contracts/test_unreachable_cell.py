"""A cell on a PostgreSQL server that stops answering, over real sockets."""

from dataclasses import replace as but

from msgspec.structs import replace

from tests.contracts.databases import Postgres
from tests.postgres_proxy import Proxy
from tests.processes import HANG_S
from tests.stories.test_lookup import C1, C2, HOSTS, A, B, settle
from whimbrel.adapters.sql.cell.servers import SqlServers
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers.listing.all_cells import AllCells
from whimbrel.servers.listing.cell_fanout import LEFT_ALONE_S
from whimbrel.sim.cloud.cloud import World


async def test_an_unreachable_server_is_given_up_and_used_again_when_it_talks(postgres: Postgres) -> None:
    async def story(endpoint: Proxy) -> None:
        schema = postgres.schema("cell_c2")
        prepare(postgres.url, schema)
        world, database = await World.build(cells=HOSTS), open_database(endpoint.url, schema)
        records = SqlServers(database)
        cells = {**world.cloud.cells, C2: but(world.cloud.cells[C2], servers=records)}
        cloud = but(world.cloud, cells=cells, rules=replace(world.cloud.rules, cell_timeout_s=0.3))
        for server in (A, B):
            await settle(cloud, server)

        async def listed(by: Cloud) -> list[tuple[str | None, str]]:
            found = await AllCells(by, ServerQuery(sort=[("id", "asc")])).take(with_absent=True)
            absent = [("absent", entry.server_id) for entry in found.absent]
            return [(server.cell, server.id) for server in found.servers] + absent

        both = [(C1, A.id), (C2, B.id)]
        patient = but(cloud, rules=replace(cloud.rules, cell_timeout_s=HANG_S))
        assert await listed(patient) == both
        endpoint.silence()
        assert await listed(cloud) == [(C1, A.id), ("absent", B.id)]
        assert await listed(patient) == [(C1, A.id), ("absent", B.id)]  # it is known, and not waited for again
        endpoint.talk()
        world.remains.clock.advance(LEFT_ALONE_S)
        assert await listed(patient) == both
        await database.close()
        await world.close()

    async with Proxy(postgres.url) as endpoint:
        await story(endpoint)
