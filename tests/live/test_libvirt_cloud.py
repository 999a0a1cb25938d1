"""A whole cloud of real guests: what its services and its hosts make of ports and volumes fits together.

The member's and the operator's calls go over HTTP to processes of their own; what is left in the end is looked for.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair  # noqa: F401
from tests.live.running_cloud import running_cloud
from tests.processes import HANG_S
from whimbrel.adapters.qemu import own_processes
from whimbrel.adapters.qemu.storage_daemon import PROGRAM
from whimbrel.cli.client import Api, Login
from whimbrel.domain.errors import NotFound
from whimbrel.domain.guest import Guest
from whimbrel.domain.local_disks import GIB
from whimbrel.embedded.tick_guest import Tick, ticks
from whimbrel.settings.datadir import ADMIN_CLOUD, DEMO_CLOUD

pytestmark = pytest.mark.long

POLL_S = 0.1

HOST = """
[[cell.host]]
name = "{name}"
zone = "north"
vcpus = 8
memory_mib = 4096
disk_gib = 100
driver = "libvirt"
uri = "{uri}"
guests_dir = "{directory}"
guest_nics = "user"
peer_uri = "{uri}"
migration_address = "127.0.0.1"
"""


class Cloud:
    """A member and an operator of a cloud whose hosts are those of the pair."""

    def __init__(self, member: Api, operator: Api, pair: LibvirtPair) -> None:
        self.member = member
        self.operator = operator
        self._pair = pair

    def volume(self, image_id: str | None = None) -> str:
        wanted = {"size": 1, "imageRef": image_id}
        made: str = self.member.post("block-storage", "/volumes", {"volume": wanted})["volume"]["id"]
        self.until(lambda: self.volume_status(made) == "available")
        return made

    def volume_status(self, volume: str) -> str:
        status: str = self.member.get("block-storage", f"/volumes/{volume}")["volume"]["status"]
        return status

    def extend(self, volume: str, size_gib: int) -> None:
        """Extend a volume, which may be in use from 3.42 on."""
        url = self.member._url("block-storage", f"/volumes/{volume}/action")
        body, headers = {"os-extend": {"new_size": size_gib}}, {"openstack-api-version": "volume 3.42"}
        self.member._send("POST", url, body, headers=headers)

    def network(self) -> str:
        network: str = self.member.post("network", "/v2.0/networks", {"network": {"name": "n"}})["network"]["id"]
        subnet = {"network_id": network, "ip_version": 4, "cidr": "10.1.0.0/24"}
        self.member.post("network", "/v2.0/subnets", {"subnet": subnet})
        return network

    def boot(self, **wanted: Any) -> str:
        flavor = {"id": "s", "name": "s", "vcpus": 1, "ram": 64, "disk": 1}
        self.operator.post("compute", "/flavors", {"flavor": flavor})
        server = {"name": "one", "flavorRef": "s", "networks": [{"uuid": self.network()}], **wanted}
        made: str = self.member.post("compute", "/servers", {"server": server})["server"]["id"]
        self.until_status(made, "ACTIVE")
        return made

    def tick_image(self) -> str:
        image: str = self.member.get("image", "/v2/images?name=tick")["images"][0]["id"]
        return image

    def act(self, server: str, status: str, action: dict[str, Any]) -> None:
        self.operator.post("compute", f"/servers/{server}/action", action)
        self.until_status(server, status)

    def until_status(self, server: str, status: str) -> None:
        def is_so() -> bool:
            now = self.member.get("compute", f"/servers/{server}")["server"]
            assert now["status"] != "ERROR", now.get("fault")
            return bool(now["status"] == status and now["OS-EXT-STS:task_state"] is None)

        self.until(is_so)

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + HANG_S
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(POLL_S)

    def boots(self, server: str) -> int:
        """Return how often the server's disk was booted from, as its console says."""
        said = self.ticks(server)
        return said[-1].boots if said else 0

    def ticks(self, server: str) -> list[Tick]:
        say = {"os-getConsoleOutput": {}}
        return ticks(self.member.post("compute", f"/servers/{server}/action", say)["output"])

    def guests(self) -> list[tuple[str, Guest]]:
        """List the guests that there are, each with its host, asked of the hosts themselves."""
        found = ((name, asyncio.run(self._pair.host(name).guests())) for name in ("a", "b"))
        return [(name, guest) for name, guests in found for guest in guests]

    def size_gib(self, server: str, device: str) -> int:
        """Return the size that a running guest sees of a disk."""
        [(name, _)] = self.guests()
        with self._pair.hosts.connection(name) as connection:
            capacity: int = connection.lookupByUUIDString(server).blockInfo(device)[0]
            return capacity // GIB

    def newest_action(self, server: str) -> tuple[str, str | None]:
        found = self.member.get("compute", f"/servers/{server}/os-instance-actions")["instanceActions"][0]
        return found["action"], found["message"]


@pytest.fixture
def cloud(libvirt_pair: LibvirtPair) -> Iterator[Cloud]:  # noqa: F811
    with cloud_of(libvirt_pair) as found:
        yield found


@pytest.fixture
def cells(libvirt_pair: LibvirtPair) -> Iterator[Cloud]:  # noqa: F811
    """Make each of the hosts in a cell of its own; operators may have servers go from one to the other."""
    with cloud_of(libvirt_pair, '[[cell]]\nname = "two"\n') as found:
        yield found


@contextmanager
def cloud_of(pair: LibvirtPair, between: str = "") -> Iterator[Cloud]:
    """between: what stands between the hosts in the settings."""
    directory = pair.hosts.daemons["a"].directory / f"cloud-{uuid.uuid4().hex[:8]}"
    directory.mkdir()
    hosts = between.join(
        HOST.format(name=name, uri=pair.hosts.daemons[name].uri, directory=pair.directory(name)) for name in ("a", "b")
    )
    policy = directory / "policy.yaml"
    policy.write_text('"compute:servers:resize:cross_cell": "rule:context_is_admin"')
    try:
        with running_cloud(directory, "--policy", str(policy), hosts=hosts) as running:
            logins = [Login(running.home.clouds, name) for name in (DEMO_CLOUD, ADMIN_CLOUD)]
            with Api(logins[0]) as member, Api(logins[1]) as operator:
                yield Cloud(member, operator, pair)
    finally:
        asyncio.run(end_storage_daemon(directory))


async def end_storage_daemon(directory: Path) -> None:
    """End it, for it outlives its cloud."""
    await own_processes.end(await own_processes.at_work(PROGRAM, directory))


def test_a_server_moves_with_its_port_and_its_volume_and_lets_them_go(cloud: Cloud) -> None:
    volume = cloud.volume()
    server = cloud.boot(imageRef=cloud.tick_image())
    cloud.member.post("compute", f"/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}})
    cloud.until(lambda: cloud.volume_status(volume) == "in-use")
    [(source, before)] = cloud.guests()
    assert (len(before.ports), before.volumes) == (1, (volume,))
    cloud.act(server, "VERIFY_RESIZE", {"migrate": None})
    cloud.act(server, "ACTIVE", {"confirmResize": None})
    [(target, after)] = cloud.guests()
    assert target != source
    assert (after.power, after.ports, after.volumes) == ("running", before.ports, (volume,))
    cloud.until(lambda: cloud.boots(server) == 2)
    cloud.member.delete("compute", f"/servers/{server}/os-volume_attachments/{volume}")
    cloud.until(lambda: cloud.volume_status(volume) == "available")
    [(_, bare)] = cloud.guests()
    assert (bare.power, bare.ports, bare.volumes) == ("running", before.ports, ())


def test_a_volume_is_extended_under_a_running_guest(cloud: Cloud) -> None:
    volume = cloud.volume()
    server = cloud.boot(imageRef=cloud.tick_image())
    cloud.member.post("compute", f"/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}})
    cloud.until(lambda: cloud.volume_status(volume) == "in-use")
    assert cloud.size_gib(server, "vdb") == 1
    cloud.extend(volume, 3)
    cloud.until(lambda: cloud.size_gib(server, "vdb") == 3)
    cloud.until(lambda: cloud.newest_action(server) == ("extend_volume", None))
    cloud.until_status(server, "ACTIVE")


def test_a_server_moves_live_with_its_memory_its_port_and_its_volume(cloud: Cloud) -> None:
    volume = cloud.volume()
    server = cloud.boot(imageRef=cloud.tick_image())
    cloud.member.post("compute", f"/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}})
    cloud.until(lambda: cloud.volume_status(volume) == "in-use")
    cloud.until(lambda: bool(cloud.ticks(server)))
    for _ in range(2):
        [(source, before)], memory = cloud.guests(), cloud.ticks(server)[-1].nonce
        live = {"host": None, "block_migration": "auto"}
        cloud.act(server, "ACTIVE", {"os-migrateLive": live})
        [(target, after)] = cloud.guests()
        assert target != source
        assert (after.power, after.ports, after.volumes) == ("running", before.ports, (volume,))
        cloud.until(lambda: bool(cloud.ticks(server)))
        assert (cloud.ticks(server)[-1].nonce, cloud.boots(server)) == (memory, 1)
    cloud.member.delete("compute", f"/servers/{server}/os-volume_attachments/{volume}")
    cloud.until(lambda: cloud.volume_status(volume) == "available")


def test_a_server_on_a_volume_comes_back_to_what_it_wrote_elsewhere(cloud: Cloud) -> None:
    root = cloud.volume(cloud.tick_image())
    device = {"boot_index": 0, "uuid": root, "source_type": "volume", "destination_type": "volume"}
    server = cloud.boot(block_device_mapping_v2=[{**device, "delete_on_termination": True}])
    [(source, _)] = cloud.guests()
    cloud.until(lambda: cloud.boots(server) == 1)
    cloud.act(server, "VERIFY_RESIZE", {"migrate": None})
    cloud.until(lambda: cloud.boots(server) == 2)
    cloud.act(server, "ACTIVE", {"revertResize": None})
    cloud.until(lambda: cloud.boots(server) == 3)
    [(now, guest)] = cloud.guests()
    assert (now, guest.power, guest.volumes) == (source, "running", (root,))
    cloud.member.delete("compute", f"/servers/{server}")
    cloud.until(lambda: cloud.guests() == [])
    cloud.until(lambda: _is_gone(cloud, root))


def test_a_disk_comes_along_to_a_cell_that_shares_nothing_but_the_image_service(cells: Cloud) -> None:
    server = cells.boot(imageRef=cells.tick_image())
    cells.until(lambda: cells.boots(server) == 1)
    [(source, before)] = cells.guests()
    cells.act(server, "VERIFY_RESIZE", {"migrate": None})
    cells.until(lambda: cells.boots(server) == 2)
    cells.act(server, "ACTIVE", {"revertResize": None})
    cells.until(lambda: cells.boots(server) == 2)  # of the disk that it left: it does not know of the other's boot
    assert [(host, guest.key) for host, guest in cells.guests()] == [(source, before.key)]
    cells.act(server, "VERIFY_RESIZE", {"migrate": None})
    cells.act(server, "ACTIVE", {"confirmResize": None})
    cells.until(lambda: cells.boots(server) == 3)
    [(target, after)] = cells.guests()
    assert (target != source, after.power, after.ports) == (True, "running", before.ports)
    images = cells.operator.get("image", "/v2/images")["images"]
    assert [image["name"] for image in images] == ["tick"], "what carried the disk is gone"


def _is_gone(cloud: Cloud, volume: str) -> bool:
    try:
        cloud.volume_status(volume)
    except NotFound:
        return True
    return False
