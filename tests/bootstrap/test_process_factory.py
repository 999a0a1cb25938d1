"""A process made of its settings: what does not fit what is stored is refused, and nothing is changed by it."""

import os
import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from whimbrel import settings
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.bootstrap import process_factory
from whimbrel.bootstrap.hypervisors import ledger_stores
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.process_base import Start, prepare_stores
from whimbrel.bootstrap.registration import this_process
from whimbrel.bootstrap.roles import CONDUCTOR, UP
from whimbrel.domain.errors import Invalid, NotFound, Unavailable
from whimbrel.domain.guest_hardware import TRAITS
from whimbrel.domain.ids import CellName, HostName, ProjectId
from whimbrel.moves import requests
from whimbrel.placement.inventory import TRAITS_OF_HOSTS
from whimbrel.placement.resource_names import standard_traits
from whimbrel.ports.stores.catalog import zone_of
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.settings.datadir import DataDir
from whimbrel.sim.cloud.cloud import SMALL, World

CELL = '[[cell]]\nname = "{}"\n'
HOST = '[[cell.host]]\nname = "{}"\nzone = "z"\nvcpus = 4\nmemory_mib = 4096\ndisk_gib = 40\ndriver = "simulated"\n'
ONE = CELL.format("one") + HOST.format("n1") + HOST.format("n2")


class Home:
    """A data directory, and settings that change between two starts."""

    def __init__(self, path: Path) -> None:
        self.data = DataDir(path / "data")
        self.data.make()
        self._file = path / "cloud.toml"

    def config(self, text: str) -> settings.CloudConfig:
        self._file.write_text(text)
        return settings.load(self._file, needs_cells=False)

    async def start(self, text: str, database_url: str = "") -> Process:
        """database_url: of an empty database; none: SQLite."""
        config, url = self.config(text), database_url or self.data.database_url
        prepare_stores(url)
        record = this_process("up", "main", "here", "lock")
        role = replace(UP, has_conductor=False)
        return await process_factory.open_process(Start(role, config, url, record, self.data))

    async def hosts(self, text: str) -> dict[str, str]:
        """Start with these settings; return the hosts that are known, with their cells."""
        process = await self.start(text)
        hosts = {host.name: cell.name for cell in process.cloud.cells.values() for host in await cell.hosts.all()}
        await process.close()
        return dict(hosts)

    async def refusal(self, text: str) -> str:
        with pytest.raises(Invalid) as refused:
            await self.start(text)
        return refused.value.reason


async def test_hosts_may_come_and_go(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert await home.hosts(ONE) == {"n1": "one", "n2": "one"}
    assert await home.hosts(ONE + HOST.format("n3")) == {"n1": "one", "n2": "one", "n3": "one"}
    # A host that the settings do not have any more is down, until an operator deletes its service.
    assert await home.hosts(CELL.format("one") + HOST.format("n2")) == {"n1": "one", "n2": "one", "n3": "one"}


async def test_files_of_uploads_that_died_are_removed_at_the_start(tmp_path: Path) -> None:
    home = Home(tmp_path)
    await home.hosts(ONE)
    for name in ("of-a-killed-upload.part", "of-no-image", "of-a-lost-record"):
        (home.data.images / name).write_bytes(b"x" * 1000)
    os.utime(home.data.images / "of-no-image", (0, 0))
    await home.hosts(ONE)
    assert os.listdir(home.data.images) == ["of-a-lost-record"], "a restore may have lost the record of a young one"


async def test_a_hosts_pci_devices_are_those_of_the_settings(tmp_path: Path) -> None:
    home = Home(tmp_path)
    device = '[[cell.host.pci]]\naddress = "{}"\nvendor_id = "10de"\nproduct_id = "1eb8"\n'
    first, second = "0000:01:00.0", "0000:02:00.0"
    for addresses in ([first, second], [second]):
        pci = "".join(map(device.format, addresses)) + "live_migratable = true\n"
        process = await home.start(CELL.format("one") + HOST.format("n1") + pci + HOST.format("n2"))
        devices = process.cloud.cells[CellName("one")].devices
        offered = [held.device for held in await devices.of(HostName("n1"))]
        assert [one.address for one in offered] == addresses
        assert [one.address for one in offered if one.is_live_migratable] == [second]
        assert await devices.of(HostName("n2")) == []
        await process.close()


async def test_what_a_host_offers_is_that_of_the_settings_and_what_operators_added(tmp_path: Path) -> None:
    home = Home(tmp_path)
    offers = 'dedicated_vcpus = 2\ntraits = ["CUSTOM_SSD"]\nresources = { CUSTOM_GPU = 3, VGPU = 1 }\n'
    for text in (HOST.format("n1") + offers, HOST.format("n1") + offers.replace("2", "1")):
        process = await home.start(CELL.format("one") + text)
        [node] = (await process.placement.provider_index()).nodes.values()
        assert {name: stock.capacity for name, stock in node.stocks.items()} == {
            "VCPU": 16, "MEMORY_MB": 4096, "DISK_GB": 40,
            "PCPU": int(text[text.index("dedicated_vcpus") + 18]), "CUSTOM_GPU": 3, "VGPU": 1,
        }  # fmt: skip
        assert node.stocks["CUSTOM_GPU"].inventory.max_unit == 3
        if text.endswith(offers):
            assert node.traits == {*TRAITS_OF_HOSTS, *TRAITS, "CUSTOM_SSD"}
            await process.placement.create_trait("CUSTOM_OURS")
            await process.placement.set_traits(node.provider.uuid, None, ["CUSTOM_OURS"])
        else:
            assert node.traits == {*TRAITS_OF_HOSTS, *TRAITS, "CUSTOM_SSD", "CUSTOM_OURS"}
        await process.close()
    process = await home.start(CELL.format("one") + HOST.format("n1"))
    [node] = (await process.placement.provider_index()).nodes.values()
    assert node.traits == {*TRAITS_OF_HOSTS, *TRAITS, "CUSTOM_OURS"}
    await process.close()


def test_traits_that_all_hosts_have_are_standard_ones() -> None:
    assert standard_traits() >= {*TRAITS_OF_HOSTS, *TRAITS}


async def test_a_host_is_in_one_cell(tmp_path: Path) -> None:
    home = Home(tmp_path)
    await home.hosts(ONE)
    moved = CELL.format("one") + HOST.format("n2") + CELL.format("two") + HOST.format("n3") + HOST.format("n1")
    assert "host 'n1' of cell 'two' is known" in await home.refusal(moved)
    assert "host 'n1' of cell 'two' is known" in await home.refusal(CELL.format("two") + HOST.format("n1"))
    both = ONE + CELL.format("two") + HOST.format("n3")
    assert await home.hosts(both) == {"n1": "one", "n2": "one", "n3": "two"}


async def test_a_cell_in_which_servers_live_stays(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(ONE)
    outside = await World.build()
    requester, server = outside.requester(), outside.new_server("s", SMALL)
    server.image_id = None
    await create.accept(process.cloud, process.engine, requester, [server])
    await _drive(process)
    await process.close()
    await outside.close()
    said = await home.refusal(CELL.format("two") + HOST.format("m1"))
    assert "no cell 'one', which has 1 server of this cloud" in said
    assert set(await home.hosts(ONE + CELL.format("two") + HOST.format("m1"))) == {"n1", "n2", "m1"}
    said = await home.refusal(ONE.replace('"one"\n', f'"one"\ndatabase = "sqlite:///{tmp_path}"\n'))
    assert "cell 'one' has 1 server" in said
    assert "knows nothing of them: put back the one that it had" in said
    assert set(await home.hosts(ONE)) == {"n1", "n2"}
    (tmp_path / "moved").mkdir()
    for file in (tmp_path / "data" / "db").glob("cell_one.sqlite*"):
        file.rename(tmp_path / "moved" / file.name)
    moved = ONE.replace('"one"\n', f'"one"\ndatabase = "sqlite:///{tmp_path}/moved"\n')
    assert set(await home.hosts(moved)) == {"n1", "n2"}
    assert "cannot be used" in await home.refusal(moved.replace("/moved", "/cloud.toml"))
    assert set(await home.hosts(ONE)) == {"n1", "n2"}  # without a word of its database it has the one that it had


async def test_a_cell_to_which_a_server_may_yet_go_back_stays(tmp_path: Path) -> None:
    """It waits for its verdict in another cell, so nobody lives in the first one."""
    home = Home(tmp_path)
    two = CELL.format("two") + HOST.format("m1")
    process = await home.start(ONE + two)
    outside = await World.build()
    requester, new = outside.requester(), outside.new_server("s", SMALL)
    new.image_id = None
    await create.accept(process.cloud, process.engine, requester, [new], HostName("n1"))
    await _drive(process)
    server = await lookup.find(process.cloud, new.id)
    await requests.migrate(process.cloud, process.engine, requester, server, HostName("m1"), leaves_cell=True)
    await _drive(process)
    assert await process.cloud.directory.homes() == {"two": 1}
    await process.close()
    assert "no cell 'one', and moves from or to it are not over" in await home.refusal(two)
    elsewhere = ONE.replace('"one"\n', f'"one"\ndatabase = "sqlite:///{tmp_path}"\n')
    assert "cell 'one' has open moves from or to it" in await home.refusal(elsewhere + two)

    process = await home.start(ONE + two)
    server = await lookup.find(process.cloud, new.id)
    await requests.revert(process.cloud, process.engine, requester, server)
    await _drive(process)
    assert await process.cloud.directory.homes() == {"one": 1}
    await process.close()
    assert set(await home.hosts(ONE)) == {"n1", "n2"}
    await outside.close()


async def test_a_journal_with_a_row_that_cannot_be_read_keeps_no_cloud_from_starting(tmp_path: Path) -> None:
    """Only where cells are left out or get other databases does it matter who is on the way."""
    home = Home(tmp_path)
    process = await home.start(ONE)
    outside = await World.build()
    new = outside.new_server("s", SMALL)
    new.image_id = None
    await create.accept(process.cloud, process.engine, outside.requester(), [new])
    await outside.close()
    await process.close()
    with closing(sqlite3.connect(tmp_path / "data/db/global.sqlite")) as by_hand, by_hand:
        by_hand.execute("UPDATE runs SET facts = 'nonsense'")
    assert set(await home.hosts(ONE)) == {"n1", "n2"}
    with pytest.raises(Unavailable, match="the journal's row of run"):
        await home.start(CELL.format("two") + HOST.format("m1"))


async def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    """Wherever it fails: before any part is made, between two, and at the settings."""

    def open_files() -> list[str]:
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [target for target in map(_target, links) if target.startswith(str(tmp_path))]

    home = Home(tmp_path)
    await home.hosts(ONE)
    assert open_files() == []
    await home.refusal(CELL.format("two") + HOST.format("n1"))
    assert open_files() == []
    config = settings.load(tmp_path / "cloud.toml")
    record = this_process("conductor", "c1", "here", "other lock")
    with pytest.raises(NotFound, match="no cloud has been started") as failed:  # where the agents are
        await process_factory.open_process(Start(CONDUCTOR, config, home.data.database_url, record, home.data))
    assert open_files() == [], failed  # which refers to what was made


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # the one by which the directory was listed
        return ""


async def _drive(process: Process) -> None:
    while runs := await process.cloud.journal.take(process.engine.name, 1e12, 60, 10):
        for run in runs:
            await process.engine.drive(run)


NIC = '[[cell.host.nic]]\nname = "ens5"\nphysnet = "physnet0"\negress_kbps = 7\n'


async def test_servers_and_moves_reach_the_network_service_and_placement_knows_the_cards(tmp_path: Path) -> None:
    home = Home(tmp_path)
    text = CELL.format("one") + HOST.format("n1") + NIC
    for _ in range(2):  # the second start finds it all
        process = await home.start(text)
        await process.network_service.seed("p")
        [network] = await process.cloud.network.networks(ProjectId("p"))
        assert (network.name, network.physnets) == ("private", ("physnet0",))
        index = await process.placement.provider_index()
        names = {node.provider.name for node in index.nodes.values()}
        assert names == {"n1", "n1:Open vSwitch agent", "n1:Open vSwitch agent:ens5"}
        await process.close()


async def test_a_zone_that_was_renamed_stays_the_zone_that_the_settings_mean(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(ONE)
    zones = {zone.name: zone.id for zone in await process.cloud.zones.all()}
    await process.cloud.zones.rename(zones["z"], "boreal")
    await process.cloud.zones.rename("nova", "main")
    await process.close()
    in_main = HOST.format("n4").replace('"z"', '"main"')
    process = await home.start(ONE + HOST.format("n3") + in_main)
    assert {zone.name: zone.id for zone in await process.cloud.zones.all()} == {
        "boreal": zones["z"],
        "main": "nova",
    }
    aggregates = await process.cloud.aggregates.all()
    of = {name: zone_of(HostName(name), aggregates) for name in ("n1", "n2", "n3", "n4")}
    assert of == dict.fromkeys(("n1", "n2", "n3"), zones["z"]) | {"n4": None}  # None: the default zone
    await process.close()


async def test_the_default_zone_is_another_one_by_its_id_only(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(ONE)
    zones = {zone.name: zone.id for zone in await process.cloud.zones.all()}
    await process.close()
    rule = '[rules]\ndefault_availability_zone = "{}"\n'
    assert f"give its id, '{zones['z']}'" in await home.refusal(rule.format("z") + ONE)
    process = await home.start(rule.format(zones["z"]) + ONE)
    assert {zone.name: zone.id for zone in await process.cloud.zones.all()} == zones
    await process.close()


async def test_the_ledger_of_a_real_host_is_not_among_the_databases_of_the_cloud(tmp_path: Path) -> None:
    """A backup that is put back must leave it as it is: it tells what the host has carried out."""
    home, real = Home(tmp_path), HOST.format("n1").replace("simulated", "libvirt") + 'uri = "test:///default"\n'
    config = home.config(CELL.format("one") + real + HOST.format("n2"))
    async with AsyncExitStack() as opened:
        keep, databases = MemoryKeyValueStore(), Databases()
        await keep.put("fence/n1", "run-1", b"as an older release has written it")
        ledger_of = await ledger_stores(config, home.data, databases, keep, opened)
        assert ledger_of(HostName("n2")) is keep
        assert await ledger_of(HostName("n1")).get("fence/n1", "run-1") == b"as an older release has written it"
        assert list(home.data.agents.iterdir())
        assert home.data.agents != Path(home.data.database_url.removeprefix("sqlite:///"))
