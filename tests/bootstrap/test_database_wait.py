"""A process that starts during a fail-over of its database waits for it; a wrong setting is reported at once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from tests.bootstrap.test_process_factory import ONE
from tests.contracts.databases import own_postgres, postgres
from tests.postgres_proxy import Proxy
from whimbrel import settings
from whimbrel.bootstrap import process_factory
from whimbrel.bootstrap.database_wait import TIMEOUT_S, opened_after_outage
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.process_base import Start, prepare_stores
from whimbrel.bootstrap.registration import this_process
from whimbrel.bootstrap.roles import CONDUCTOR
from whimbrel.domain.errors import Unavailable
from whimbrel.settings.datadir import DataDir, Running
from whimbrel.sim.world.clock import JumpingClock

__all__ = ["own_postgres", "postgres"]

AWAY_S = 25.0


class OutageClock(JumpingClock):
    """A clock at which the outage ends after AWAY_S."""

    def __init__(self, ends: Callable[[], Awaitable[None]]) -> None:
        super().__init__(now=0.0)
        self._ends = ends
        self._is_over = False

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        if self.now() >= AWAY_S and not self._is_over:
            self._is_over = True
            await self._ends()


class Cloud:
    """A conductor on a database."""

    def __init__(self, path: Path) -> None:
        (path / "cloud.toml").write_text(ONE)
        self._config = settings.load(path / "cloud.toml")
        self._data = DataDir(path / "data")
        self._data.make()
        self._data.announce(Running("http://127.0.0.1:1", 1, "of no importance", None))
        self.stop = asyncio.Event()

    async def started(self, url: str, clock: JumpingClock) -> Process | None:
        record = this_process("conductor", "main", str(self._data.path), "a lock")
        start = Start(CONDUCTOR, self._config, url, record, self._data, "http://127.0.0.1:1")
        return await opened_after_outage(lambda: process_factory.open_process(start), self.stop, clock, clock.now)


async def never() -> None:
    raise AssertionError("nothing was waited for")


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


async def test_a_process_waits_for_its_database(own_postgres: str, tmp_path: Path) -> None:
    prepare_stores(own_postgres)
    async with Proxy(own_postgres) as proxy:
        await proxy.shut()
        with capture_logs() as logged:
            process = await Cloud(tmp_path).started(proxy.url, OutageClock(proxy.open))
        assert process
        waits = [line for line in logged if line["event"] == "waiting for the database"]
        assert [line["gives_up_in_s"] for line in waits] == [60, 50, 40]
        assert "Connection refused" in waits[0]["reason"]
        await process.close()


async def test_a_process_waits_for_a_replica_to_be_promoted(own_postgres: str, tmp_path: Path) -> None:
    prepare_stores(own_postgres)
    name = sa.make_url(own_postgres).database
    execute(own_postgres, f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    async def promote() -> None:
        writable = f"{own_postgres}?options=-cdefault_transaction_read_only%3Doff"
        execute(writable, f"ALTER DATABASE {name} SET default_transaction_read_only = off")

    async with Proxy(own_postgres) as gone:
        port = sa.make_url(gone.url).port
        await gone.shut()
        url = sa.make_url(own_postgres)
        both = f"postgresql://postgres@127.0.0.1:{port},{url.host}:{url.port}/{name}?target_session_attrs=read-write"
        process = await Cloud(tmp_path).started(both, OutageClock(promote))
        assert process
        await process.close()
        await gone.open()


async def test_a_process_ends_if_its_database_stays_away(tmp_path: Path) -> None:
    async with Proxy("postgresql://postgres@127.0.0.1/test") as proxy:
        await proxy.shut()
        clock = JumpingClock(now=0.0)
        with pytest.raises(Unavailable, match="Connection refused"):
            await Cloud(tmp_path).started(proxy.url, clock)
        assert clock.now() == TIMEOUT_S
        await proxy.open()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"database": "no_such_database"}, 'database "no_such_database" does not exist'),
        ({"username": "no_such_user"}, 'role "no_such_user" does not exist'),
        ({"host": "no-such-host.invalid"}, "failed to resolve host"),
    ],
)
async def test_a_wrong_url_is_reported_at_once(
    own_postgres: str, tmp_path: Path, change: dict[str, str], said: str
) -> None:
    url = sa.make_url(own_postgres).set(**change).render_as_string(hide_password=False)  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match=said):
        await Cloud(tmp_path).started(url, OutageClock(never))


async def test_a_process_that_waits_can_be_stopped(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path)

    async def stop() -> None:
        cloud.stop.set()

    async with Proxy("postgresql://postgres@127.0.0.1/test") as proxy:
        await proxy.shut()
        assert await cloud.started(proxy.url, OutageClock(stop)) is None
        await proxy.open()
