"""What every store of hosts reports of changes: of the rows, and of what is on the hosts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.listings import a_server
from tests.contracts.test_hosts import CELL, host
from whimbrel.adapters.sql.cell.hosts import SqlHosts
from whimbrel.adapters.sql.cell.pci_devices import SqlDevices
from whimbrel.adapters.sql.cell.servers import SqlServers
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.tables.cell import host_changes as changes
from whimbrel.adapters.sql.tables.cell import hosts as table
from whimbrel.domain.guest import GuestKey, Order
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName, RunId, ServerId, Slot
from whimbrel.domain.pci import PciDevice, PciRequest
from whimbrel.ports.stores.fleet import Load
from whimbrel.ports.stores.hosts import HostNews

A, B = HostName("a"), HostName("b")
RUN = RunId("run")
ORDER = Order(RUN, 1)
S1 = ServerId("s1")
DEVICE = PciDevice(address="0000:81:00.1", vendor_id="8086", product_id="1572")
ONE_DEVICE = PciRequest(id="r", vendor_id="8086")


class Stores:
    def __init__(self, db: Database) -> None:
        self.hosts, self.servers, self.devices = SqlHosts(db, CELL), SqlServers(db), SqlDevices(db)


@pytest.fixture
async def database(open_store: Opener) -> AsyncIterator[Database]:
    async with open_store("cell") as database:
        yield database


@pytest.fixture
async def stores(database: Database) -> Stores:
    """Two hosts; a server, locked by a run, and a device are on the first one."""
    stores = Stores(database)
    await stores.hosts.register_all([host("a"), host("b")])
    await stores.servers.insert(ORDER, a_server(S1, host=A))
    await stores.devices.register(A, [DEVICE])
    return stores


async def test_everything_is_news_to_a_new_reader(stores: Stores) -> None:
    await stores.hosts.build_failed(Order(RunId("other"), 1), B, 2e9)
    await stores.servers.insert(ORDER, a_server("s2", host=A, vm_state="building", image_id=None))
    await stores.servers.insert(ORDER, a_server("gone", host=B, vm_state="deleted", deleted_at=5.0))
    news = await stores.hosts.news(None, images=True)
    assert news.hosts == await stores.hosts.all()
    assert news.loads == {A: Load(servers=2, io_ops=1, pci=1, free_pci=1), B: Load(failed_builds=1)}
    assert news.images == {A: {"image": 1}}
    assert (await stores.hosts.news(None)).images == {}


async def test_without_a_change_there_are_no_news(stores: Stores, database: Database) -> None:
    if database.dialect != "sqlite":
        return  # as long as an older transaction is in progress anywhere on the server, changes are reported again
    mark = (await stores.hosts.news(None)).mark
    news = await stores.hosts.news(mark, images=True)
    assert news == HostNews(mark=news.mark, newest=news.newest, changed=frozenset())


async def _move(stores: Stores) -> None:
    await stores.servers.change_by_run(ORDER, S1, {"host": B})


async def _rename(stores: Stores) -> None:
    await stores.servers.change_by_run(ORDER, S1, {"name": "new", "updated_at": 9e9})


async def _disable(stores: Stores) -> None:
    await stores.hosts.set_service(B, enabled=False, disabled_reason="why", forced_down=False)


CHANGES: dict[str, tuple[Callable[[Stores], Awaitable[object]], set[HostName]]] = {
    "a host is added": (lambda stores: stores.hosts.register(host("c")), {HostName("c")}),
    "a host grows": (lambda stores: stores.hosts.register(host("b", vcpus=99)), {B}),
    "a host is registered as it was": (lambda stores: stores.hosts.register(host("b")), set()),
    "a service is disabled": (_disable, {B}),
    "a host is deleted": (lambda stores: stores.hosts.delete(B), {B}),
    "a heartbeat": (lambda stores: stores.hosts.seen([A, B], 9e9), set()),
    "metrics": (lambda stores: stores.hosts.tell({A: {"cpu.percent": 1.0}}), set()),
    "a server arrives": (lambda stores: stores.servers.insert(ORDER, a_server("s2", host=B)), {B}),
    "a server moves": (_move, {A, B}),
    "a server gets a name": (_rename, set()),
    "a server is busy": (lambda stores: stores.servers.show_task(ORDER, S1, "image_uploading", 9e9), {A}),
    "a copy counts no more": (lambda stores: stores.servers.stand(ORDER, S1, "frozen"), {A}),
    "a server is erased": (lambda stores: stores.servers.erase(ORDER, S1), {A}),
    "a device is offered": (lambda stores: stores.devices.register(B, [DEVICE]), {B}),
    "a device is claimed": (
        lambda stores: stores.devices.claim(ORDER, A, GuestKey(S1, Slot("slot")), [ONE_DEVICE]),
        {A},
    ),
    "a build fails": (lambda stores: stores.hosts.build_failed(ORDER, B, 9e9), {B}),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_changes_are_reported(stores: Stores, database: Database, change: str) -> None:
    act, expected = CHANGES[change]
    before = await stores.hosts.news(None)
    await act(stores)
    async with database.read() as tx:
        noted = await tx.rows(sa.select(changes.c.host).where(changes.c.number > before.newest))
    assert {host for (host,) in noted} == expected
    assert expected <= (await stores.hosts.news(before.mark)).changed


def by_name(news: HostNews) -> dict[HostName, Host]:
    return {one.name: one for one in news.hosts}


async def test_what_is_read_of_changes_adds_up_to_the_whole(stores: Stores) -> None:
    news, random = await stores.hosts.news(None, images=True), Random(16)
    hosts, loads, images = by_name(news), news.loads, news.images
    names = [HostName(f"h{number}") for number in range(5)]
    await stores.hosts.register_all([host(name) for name in names])
    for number in range(60):
        name = random.choice(names)
        server = a_server(f"s{random.randrange(8)}", host=name, image_id=f"i{random.randrange(3)}")
        match random.randrange(4):
            case 0:
                state = random.choice(["active", "building"])
                await stores.servers.insert(ORDER, replace(server, vm_state=state, launched_at=float(number)))
            case 1:
                await stores.servers.erase(ORDER, server.id)
            case 2:
                await stores.hosts.build_failed(ORDER, name, 30.0)
            case _:
                await stores.hosts.register(host(name, vcpus=number + 1))
        if random.random() < 0.5:
            continue
        news = await stores.hosts.news(news.mark, images=True)
        hosts = {name: one for name, one in hosts.items() if name not in news.changed} | by_name(news)
        loads = {name: one for name, one in loads.items() if name not in news.changed} | news.loads
        images = {name: one for name, one in images.items() if name not in news.changed} | news.images
        whole = await stores.hosts.news(None, images=True)
        assert hosts == by_name(whole)
        assert (loads, images) == (whole.loads, whole.images)


async def test_a_transaction_that_commits_late_is_not_missed(stores: Stores, database: Database) -> None:
    if database.dialect == "sqlite":
        return  # one writer after the other
    mark, changed, seen = (await stores.hosts.news(None)).mark, asyncio.Event(), asyncio.Event()

    async def late() -> None:
        async with database.write() as tx:
            await tx.run(sa.update(table).where(table.c.name == A).values(vcpus=99))
            changed.set()
            await seen.wait()

    writing = asyncio.create_task(late())
    await changed.wait()
    await _disable(stores)
    news = await stores.hosts.news(mark)
    assert B in news.changed
    assert not has_99(news)
    seen.set()
    await writing
    assert has_99(await stores.hosts.news(news.mark))


def has_99(news: HostNews) -> bool:
    """Check whether a host with this number of processors is in the news."""
    return any(host.vcpus == 99 for host in news.hosts)


async def test_old_changes_are_forgotten_and_numbers_are_not_used_again(stores: Stores) -> None:
    newest = (await stores.hosts.news(None)).newest
    await stores.hosts.forget_news(newest)
    news = await stores.hosts.news(None)
    assert news.newest == newest
    await stores.hosts.forget_news(newest)
    await _disable(stores)
    after = await stores.hosts.news(news.mark)
    assert after.newest > newest
    assert B in after.changed


async def test_heartbeats_are_read_by_themselves(stores: Stores) -> None:
    await stores.hosts.seen([A], 77.0)
    await stores.hosts.tell({B: {"cpu.percent": 3.0}})
    assert await stores.hosts.beats() == {A: (77.0, {}), B: (0.0, {"cpu.percent": 3.0})}
