"""What every store of PCI devices does: one holder for each, claims that may be repeated, nothing that is lost."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.cell.pci_devices import SqlDevices
from whimbrel.adapters.sql.cell.servers import SqlServers
from whimbrel.domain.errors import Refused, Superseded
from whimbrel.domain.guest import GuestKey, Order
from whimbrel.domain.ids import HostName, RunId, ServerId, Slot
from whimbrel.domain.pci import HeldDevice, PciDevice, PciRequest
from whimbrel.ports.stores.pci_devices import DeviceCount

H1, H2 = HostName("h1"), HostName("h2")
MOVE = RunId("move")
FIRST, SECOND = Order(MOVE, 1), Order(MOVE, 2)
ONE, TWO = GuestKey(ServerId("one"), Slot("a")), GuestKey(ServerId("two"), Slot("a"))
ONE_THERE = GuestKey(ServerId("one"), Slot("b"))

GPUS = [PciDevice(address=f"0000:0{n}:00.0", vendor_id="10de", product_id="1eb8") for n in range(3)]
VFS = [
    PciDevice(
        address=f"0000:8{pf}:00.{vf}",
        vendor_id="8086",
        product_id="154c",
        physnet="data",
        parent_ifname=f"ens{pf}f0",
    )
    for pf in (1, 2)
    for vf in (1, 2)
]
GPU = PciRequest(id="alias:gpu", alias="gpu", vendor_id="10de", product_id="1eb8")
PORT = PciRequest(id="port-1", physnet="data", parent_ifname="ens2f0")


@pytest.fixture
async def devices(open_store: Opener) -> AsyncIterator[SqlDevices]:
    async with open_store("cell") as database:
        devices = SqlDevices(database)
        await devices.register(H1, [*VFS, *GPUS])
        yield devices


async def holders(devices: SqlDevices, host: HostName = H1) -> dict[str, GuestKey]:
    return {held.device.address: held.holder for held in await devices.of(host) if held.holder}


async def test_counts_what_hosts_offer_and_what_is_free_of_it(devices: SqlDevices) -> None:
    assert await devices.counts() == {H1: DeviceCount(offered=7, free=7)}
    await devices.claim(FIRST, H1, ONE, [replace(GPU, count=2)])
    await devices.register(H2, [GPUS[0]])
    assert await devices.counts() == {H1: DeviceCount(offered=7, free=5), H2: DeviceCount(offered=1, free=1)}
    await devices.register(H1, VFS)  # two of those that are gone are held, and nobody else gets them
    await devices.register(H2, [])
    assert await devices.counts() == {H1: DeviceCount(offered=4, free=4)}


async def test_lists_what_is_held_on_all_hosts(devices: SqlDevices) -> None:
    await devices.register(H2, GPUS)
    assert await devices.held() == []
    await devices.claim(FIRST, H2, TWO, [GPU])
    await devices.claim(FIRST, H1, ONE, [replace(GPU, count=2)])
    everything = [(host, one) for host in (H1, H2) for one in await devices.of(host)]
    assert await devices.held() == [(host, one) for host, one in everything if one.holder]
    assert [host for host, _ in await devices.held()] == [H1, H1, H2]


async def test_lists_what_a_host_offers(devices: SqlDevices) -> None:
    assert await devices.of(H1) == [HeldDevice(device=device) for device in [*GPUS, *VFS]]
    assert await devices.of(H2) == []


async def test_a_claim_may_be_repeated_and_gives_the_same(devices: SqlDevices) -> None:
    first = await devices.claim(FIRST, H1, ONE, [replace(GPU, count=2), PORT])
    assert first == [GPUS[0].address, GPUS[1].address, VFS[2].address]
    await devices.claim(FIRST, H1, TWO, [PORT])
    for order in (FIRST, SECOND):
        assert await devices.claim(order, H1, ONE, [PORT, replace(GPU, count=2)]) == [first[2], *first[:2]]
    assert await holders(devices) == dict.fromkeys(first, ONE) | {VFS[3].address: TWO}
    assert {held.device.address: held.request for held in await devices.of(H1) if held.holder == ONE} == {
        first[0]: "alias:gpu",
        first[1]: "alias:gpu",
        first[2]: "port-1",
    }


async def test_a_claim_is_whole_or_not_at_all(devices: SqlDevices) -> None:
    await devices.claim(FIRST, H1, TWO, [PORT, replace(PORT, id="port-2")])
    with pytest.raises(Refused, match=r"on ens2f0, of physical network data\): 1 wanted, 0 free"):
        await devices.claim(FIRST, H1, ONE, [GPU, replace(PORT, id="port-3")])
    with pytest.raises(Refused, match=r"alias 'gpu', 10de:1eb8\): 4 wanted, 3 free"):
        await devices.claim(FIRST, H1, ONE, [replace(GPU, count=4)])
    with pytest.raises(Refused, match="0 free"):
        await devices.claim(FIRST, H2, ONE, [GPU])
    assert set((await holders(devices)).values()) == {TWO}


async def test_what_is_claimed_later_comes_on_top(devices: SqlDevices) -> None:
    [gpu] = await devices.claim(FIRST, H1, ONE, [GPU])
    [port] = await devices.claim(FIRST, H1, ONE, [PORT])
    grown = await devices.claim(FIRST, H1, ONE, [replace(GPU, count=2)])
    assert grown[0] == gpu
    assert await holders(devices) == dict.fromkeys([*grown, port], ONE)


async def test_slots_of_a_server_hold_their_own(devices: SqlDevices) -> None:
    here, there = await devices.claim(FIRST, H1, ONE, [GPU]), await devices.claim(FIRST, H1, ONE_THERE, [GPU])
    assert here != there
    for _again in range(2):
        await devices.release(FIRST, H1, ONE)
        assert await holders(devices) == {there[0]: ONE_THERE}


async def test_a_release_gives_all_back_or_one_request(devices: SqlDevices) -> None:
    [gpu, _port] = await devices.claim(FIRST, H1, ONE, [GPU, PORT])
    for _again in range(2):
        await devices.release(FIRST, H1, ONE, ["port-1"])
        assert await holders(devices) == {gpu: ONE}
    await devices.release(FIRST, H2, ONE)
    await devices.release(FIRST, H1, TWO)
    assert await holders(devices) == {gpu: ONE}
    await devices.release(FIRST, H1, ONE)
    assert await holders(devices) == {}
    assert await devices.claim(FIRST, H1, TWO, [GPU]) == [gpu]


async def test_an_older_epoch_claims_and_releases_nothing(devices: SqlDevices) -> None:
    await devices.claim(SECOND, H1, ONE, [GPU])
    with pytest.raises(Superseded):
        await devices.claim(FIRST, H1, ONE, [PORT])
    with pytest.raises(Superseded):
        await devices.release(FIRST, H1, ONE)
    assert len(await holders(devices)) == 1
    await devices.release(SECOND, H1, TWO)


async def test_the_fence_is_the_cells(open_store: Opener) -> None:
    async with open_store("cell") as database:
        devices, servers = SqlDevices(database), SqlServers(database)
        await devices.release(SECOND, H1, ONE)
        with pytest.raises(Superseded):
            await servers.erase(FIRST, ONE.server)
        await servers.forget_fences([MOVE])
        await devices.release(FIRST, H1, ONE)


async def test_registering_again_keeps_who_holds_what(devices: SqlDevices) -> None:
    [gpu] = await devices.claim(FIRST, H1, ONE, [GPU])
    renamed = replace(GPUS[0], product_id="ffff")
    for _again in range(2):
        await devices.register(H1, [renamed, *GPUS[1:]])
        held = await devices.of(H1)
        assert [each.device for each in held] == [renamed, *GPUS[1:]]
        assert await holders(devices) == {gpu: ONE}
    await devices.register(H2, VFS)
    assert await holders(devices) == {gpu: ONE}
    assert len(await devices.of(H2)) == len(VFS)


async def test_a_device_that_is_withdrawn_goes_with_its_holder(devices: SqlDevices) -> None:
    [gpu] = await devices.claim(FIRST, H1, ONE, [GPU])
    for _again in range(2):
        await devices.register(H1, [])
        assert await devices.of(H1) == [HeldDevice(device=GPUS[0], holder=ONE, request=GPU.id, is_withdrawn=True)]
        assert await devices.held() == [(H1, one) for one in await devices.of(H1)]
    assert await devices.claim(FIRST, H1, ONE, [GPU]) == [gpu], "who has it keeps it"
    with pytest.raises(Refused):
        await devices.claim(FIRST, H1, TWO, [GPU])
    await devices.release(FIRST, H1, ONE)
    assert await devices.of(H1) == []


async def test_a_device_that_was_withdrawn_can_come_back(devices: SqlDevices) -> None:
    [gpu] = await devices.claim(FIRST, H1, ONE, [GPU])
    await devices.register(H1, [])
    await devices.register(H1, GPUS)
    await devices.release(FIRST, H1, ONE)
    assert await devices.claim(FIRST, H1, TWO, [GPU]) == [gpu]


async def test_of_many_who_want_the_last_one_gets_it(devices: SqlDevices) -> None:
    await devices.register(H1, GPUS[:1])
    keys = [GuestKey(ServerId(f"server-{n}"), Slot("a")) for n in range(8)]
    orders = [Order(RunId(f"run-{n}"), 1) for n in range(8)]
    claims = (devices.claim(order, H1, key, [GPU]) for order, key in zip(orders, keys, strict=True))
    outcomes = await asyncio.gather(*claims, return_exceptions=True)
    assert sorted(isinstance(outcome, Refused) for outcome in outcomes) == [False] + [True] * 7
    winner = keys[[isinstance(outcome, list) for outcome in outcomes].index(True)]
    assert await holders(devices) == {GPUS[0].address: winner}


async def test_a_guest_hands_its_devices_to_another_slot(devices: SqlDevices) -> None:
    [gpu] = await devices.claim(FIRST, H1, ONE, [GPU])
    [function] = await devices.claim(FIRST, H1, TWO, [PORT])
    for _ in range(2):
        await devices.hand(FIRST, H1, ONE, ONE_THERE)
        assert await holders(devices) == {gpu: ONE_THERE, function: TWO}
    assert await devices.claim(FIRST, H1, ONE_THERE, [GPU]) == [gpu], "it is held for the same request"
    await devices.hand(SECOND, H1, ONE_THERE, ONE)
    with pytest.raises(Superseded):
        await devices.hand(FIRST, H1, ONE, ONE_THERE)
    assert await holders(devices) == {gpu: ONE, function: TWO}
