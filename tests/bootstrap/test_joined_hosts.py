"""Hosts that join a cloud while it runs: nothing is restarted, and a restart leaves them alone."""

from pathlib import Path

from tests.bootstrap.test_process_factory import CELL, HOST, ONE, Home
from tests.unit.hosts.descriptions import NEW, description
from tests.unit.hosts.no_grants import NoGrants
from whimbrel.bootstrap.process import Process
from whimbrel.domain.host_nics import HostNet, HostNic
from whimbrel.domain.ids import CellName, HostName
from whimbrel.hosts import admission
from whimbrel.hosts.control_plane_service import ControlPlaneService
from whimbrel.ports.hosts.bus_access import NoBus
from whimbrel.ports.hosts.control_plane import AgentHello
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.host_keys import Invitation

ONE_NAME = CellName("one")
NET = HostNet(host=NEW, cards=(HostNic(name="ens5", physnet="front", egress_kbps=1000, ingress_kbps=1000),))


async def admit(process: Process, host: HostName, cell: CellName = ONE_NAME) -> None:
    keys, now = process.cloud.host_keys, process.cloud.clock.now()
    await keys.invite(Invitation(token_hash="t" * 64, host=host, cell=cell, created_at=now, expires_at=now + 60))
    await keys.join("t" * 64, "U" + "A" * 55, now)


async def register(process: Process, cell: CellName = ONE_NAME) -> None:
    """Register and enable a new host that joins."""
    await admit(process, NEW, cell)
    control_plane = ControlPlaneService(process.cloud, process.registrar, NoGrants())
    await control_plane.register(NEW, AgentHello(release="0.4.0", verbs={}, description=description(net=NET)))
    hosts = process.cloud.cell(cell).hosts
    await hosts.set_service(NEW, enabled=True, disabled_reason=None, forced_down=False)


async def test_services_know_a_host_that_joined(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(ONE)
    assert NEW not in await process.network_service.nics.all()
    await register(process)
    assert (await process.network_service.nics.including(NEW))[NEW] == NET
    nodes = (await process.placement.provider_index()).nodes.values()
    assert {"n17:Open vSwitch agent", "n17:Open vSwitch agent:ens5"} <= {node.provider.name for node in nodes}
    fleet = await process.cloud.fleets.now()
    assert NEW in fleet.names
    await process.close()


async def test_a_restart_leaves_a_host_that_joined_as_it_is(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(ONE)
    await register(process)
    before = await process.cloud.cell(ONE_NAME).hosts.get(NEW)
    await process.close()
    process = await home.start(ONE + HOST.format("n3"))
    assert await process.cloud.cell(ONE_NAME).hosts.get(NEW) == before
    assert (await process.network_service.nics.all())[NEW] == NET
    await process.close()


async def test_a_host_of_the_settings_with_an_agent_of_its_own_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(ONE)
    await admit(process, HostName("n2"))
    await process.close()
    assert "whimbrel host retire n2" in await home.refusal(ONE)
    process = await home.start(CELL.format("one") + HOST.format("n1"))
    hosts = process.cloud.cell(ONE_NAME).hosts
    await hosts.set_service(HostName("n2"), enabled=False, disabled_reason=None, forced_down=True)
    await admission.retire(process.cloud, NoBus(), HostName("n2"))
    await process.close()
    await (await home.start(ONE)).close()


async def test_a_new_cloud_without_cells_in_its_settings_has_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start("")
    assert [info.name for info in await process.cloud.cell_infos.all()] == ["cell1"]
    await register(process, CellName("cell1"))
    await process.close()
    process = await home.start("")
    assert [host.name for host in await process.cloud.cell(CellName("cell1")).hosts.all()] == [NEW]
    await process.close()


async def test_cells_stay_when_the_settings_name_none(tmp_path: Path) -> None:
    home = Home(tmp_path)
    await (await home.start(ONE)).close()
    process = await home.start("")
    assert [info.name for info in await process.cloud.cell_infos.all()] == ["one"]
    await process.close()


async def test_a_cell_that_hosts_have_joined_stays_in_the_settings(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(ONE + CELL.format("two") + HOST.format("m1"))
    await register(process, CellName("two"))
    await process.close()
    assert "whimbrel host retire n17" in await home.refusal(ONE)


async def test_a_host_joins_a_cell_that_was_added_while_the_cloud_runs(tmp_path: Path) -> None:
    home, two = Home(tmp_path), CellName("two")
    process = await home.start(ONE)
    cloud = process.cloud
    [aggregate] = await cloud.aggregates.all()
    await cloud.aggregates.remove_host(aggregate.id, HostName("n1"), cloud.clock.now())
    await cloud.cell_infos.add(CellInfo(name=two, database=f"sqlite:///{tmp_path / 'second'}"))
    await process.cells.look(process.arrived)
    await register(process, two)
    assert {"n1", "n2", NEW} == set((await cloud.fleets.now()).names)
    assert [host.name for host in await cloud.cell(two).hosts.all()] == [NEW]
    assert [each.hosts for each in await cloud.aggregates.all() if each.id == aggregate.id] == [["n2"]]
    await process.close()


async def test_volumes_can_be_in_the_zone_of_a_host_that_joined(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(ONE)
    await register(process)
    assert process.embedded_volumes
    assert await process.embedded_volumes.service.zones() == ("nova", "z", "north")
    await process.close()
