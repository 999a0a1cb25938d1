"""A nic of a real guest is a port of Open vSwitch, with the port's id, as long as the guest runs and has it."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.contracts.hypervisors import CAPACITY, SMALL_IMAGE, new_nic, new_spec
from tests.live.nic_stories import comes_and_goes, moves_cold, running
from tests.live.root_hosts import RootHost, root_hosts  # noqa: F401
from tests.prerequisites import missing
from whimbrel.adapters.libvirt import LibvirtHypervisor
from whimbrel.adapters.libvirt.migration_settings import MigrationSettings
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.live_transfer import TransferOptions, TransferProgress, TransferTarget
from whimbrel.domain.server_devices import GuestNic
from whimbrel.embedded.tick_guest import image
from whimbrel.sim.world.images import MemoryImages

BRIDGE = "br-int"
ADDRESSES = ("10.99.0.1", "10.99.0.2")
POLL_S = 0.05
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"

# Without the kernel's module: the data path of a bridge in user space opens the taps by itself.
START = """\
mkdir -p /run/openvswitch /etc/openvswitch
mount -t tmpfs none /etc/openvswitch
ovsdb-tool create /etc/openvswitch/conf.db {schema}
ovsdb-server --detach --pidfile --remote=punix:/run/openvswitch/db.sock /etc/openvswitch/conf.db
ovs-vsctl --no-wait init
ovs-vswitchd --detach --pidfile
ovs-vsctl --timeout=60 add-br {bridge} -- set bridge {bridge} datapath_type=netdev
"""


@pytest.fixture
def hosts(root_hosts: dict[str, RootHost]) -> Iterator[dict[str, RootHost]]:  # noqa: F811
    if not shutil.which("ovs-vswitchd"):
        missing("Open vSwitch is missing", "apt-get install openvswitch-switch")
    for host in root_hosts.values():
        host.run("sh", "-ec", START.format(schema=SCHEMA, bridge=BRIDGE))
    yield root_hosts
    for host in root_hosts.values():
        host.run("ovs-vsctl", "--timeout=60", "del-br", BRIDGE)
        host.run("ovs-appctl", "-t", "ovs-vswitchd", "exit", "--cleanup")
        host.run("ovs-appctl", "-t", "ovsdb-server", "exit")
        host.run("umount", "/etc/openvswitch")


@pytest.fixture
def linked(hosts: dict[str, RootHost]) -> Iterator[dict[str, RootHost]]:
    """Join the hosts by a cable; return their addresses there."""
    one, other = hosts.values()
    words = ("ip", "link", "add", "cable", "netns", str(one.pid), "type", "veth", "peer", "cable", "netns")
    subprocess.run([*words, str(other.pid)], check=True)
    for host, address in ((one, ADDRESSES[0]), (other, ADDRESSES[1])):
        host.run("sh", "-ec", f"ip link set lo up; ip address add {address}/24 dev cable; ip link set cable up")
    yield hosts
    one.run("ip", "link", "delete", "cable")


def hypervisor(host: RootHost, address: str | None = None) -> LibvirtHypervisor:
    images = MemoryImages({SMALL_IMAGE: image(for_live_moves=address is not None)})
    migration = MigrationSettings(peer_uri=host.uri, address=address, emulated="allow")
    return LibvirtHypervisor(host.uri, host.guests_dir, images, **CAPACITY, nics="ovs", migration=migration)


async def ended(source: LibvirtHypervisor, key: GuestKey, target: TransferTarget) -> TransferProgress:
    while True:
        progress = await source.transfer_progress(key, target.address)
        if progress.state != "active":
            return progress
        await asyncio.sleep(POLL_S)


async def ports(host: RootHost) -> dict[str, str]:
    """Return the ports of the bridge: the port of the network service -> its MAC."""
    found = {}
    for name in (await _vsctl(host, "list-ports", BRIDGE)).split():
        said = [
            await _vsctl(host, "get", "Interface", name, f"external_ids:{key}") for key in ("iface-id", "attached-mac")
        ]
        port, mac = (value.strip().strip('"') for value in said)
        found[port] = mac
    return found


async def _vsctl(host: RootHost, *words: str) -> str:
    return await asyncio.to_thread(host.run, "ovs-vsctl", "--timeout=60", *words)


def expected(*nics: GuestNic) -> dict[str, str]:
    return {nic.port_id: nic.mac for nic in nics}


async def test_a_nic_is_in_the_bridge_while_the_guest_has_it(hosts: dict[str, RootHost]) -> None:
    await comes_and_goes(hosts["a"], hypervisor(hosts["a"]), ports, expected)


async def test_a_guest_that_was_moved_is_in_the_bridge_of_its_host(hosts: dict[str, RootHost]) -> None:
    await moves_cold(hosts, hypervisor(hosts["a"]), hypervisor(hosts["b"]), ports, expected)


async def test_a_guest_that_is_transferred_live_is_in_the_bridge_of_its_host(linked: dict[str, RootHost]) -> None:
    source, target = (hypervisor(host, at) for host, at in zip(linked.values(), ADDRESSES, strict=True))
    nic = new_nic()
    old = replace(new_spec(), nics=(nic,))
    new = replace(new_spec(old.key.server), nics=(nic,))
    await running(source, old)
    await target.reserve(new)
    there = await target.receive(new, await source.examine(old.key))
    await source.start_transfer(old.key, there, TransferOptions())
    assert (await ended(source, old.key, there)).state == "arrived"
    await target.settle_arrival(new.key)
    await source.destroy(old.key)
    assert (await ports(linked["a"]), await ports(linked["b"])) == ({}, expected(nic))
    await target.destroy(new.key)
    assert await ports(linked["b"]) == {}
