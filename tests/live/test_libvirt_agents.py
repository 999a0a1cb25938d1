"""Real guests on hosts whose agents are processes of their own: they get their image, move, and survive kill -9."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair
from tests.live.agent_cloud import Cloud, agent_cloud
from tests.processes import wait_for
from whimbrel.embedded.tick_guest import ticks

pytestmark = pytest.mark.long

__all__ = ["libvirt_hosts", "libvirt_pair"]


WRONG = """
[[host.nic]]
name = "no-such-nic"
physnet = "front"
[[host.pci]]
address = "ffff:ff:1f.7"
vendor_id = "10de"
product_id = "1eb8"
"""


@pytest.fixture
def cloud(tmp_path: Path, libvirt_pair: LibvirtPair) -> Iterator[Cloud]:
    with agent_cloud(tmp_path) as cloud:
        for name in ("a", "b"):
            cloud.join_libvirt(libvirt_pair, name)
        yield cloud


def test_a_guest_moves_between_agents_that_die(cloud: Cloud) -> None:
    server = cloud.boot()
    wait_for(lambda: ticks(cloud.console(server)), bool, "the guest runs")
    source = cloud.server(server)["OS-EXT-SRV-ATTR:host"]
    cloud.api.post("compute", f"/servers/{server}/action", {"migrate": None})
    for name in ("a", "b"):  # wherever the move is by now
        os.kill(cloud.agents[name].pid, signal.SIGKILL)
        cloud.agents[name].kill()
        cloud.agents[name].start()
    cloud.until(server, "VERIFY_RESIZE")
    cloud.act(server, "ACTIVE", {"confirmResize": None})
    assert cloud.server(server)["OS-EXT-SRV-ATTR:host"] == ({"a", "b"} - {source}).pop()
    wait_for(lambda: ticks(cloud.console(server)), bool, "the guest runs where it has arrived")


def test_an_agent_reports_what_its_host_has_and_names_what_is_not_there(
    tmp_path: Path, libvirt_pair: LibvirtPair
) -> None:
    with agent_cloud(tmp_path) as cloud:
        cloud.join_libvirt(libvirt_pair, "a", WRONG)
        shown = json.loads(cloud.command("host", "show", "a", "--json"))["host"]["hardware"]
        expected = libvirt_pair.hardware()
        assert [(nic["name"], nic["mac"], nic["mtu"]) for nic in shown["nics"]] == [
            (nic.name, nic.mac, nic.mtu) for nic in expected.nics or ()
        ]
        assert [(one["address"], one["driver"]) for one in shown["pci"]] == [
            (one.address, one.driver) for one in expected.pci or ()
        ]
        wrong = ["NIC no-such-nic was not found", "PCI device ffff:ff:1f.7 (10de:1eb8) was not found"]
        assert shown["mismatches"] == wrong
        said = (tmp_path / "a.log").read_text()
        assert [said.count(sentence) for sentence in wrong] == [1, 1]
