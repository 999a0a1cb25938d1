"""How hosts look on a terminal."""

import time

import msgspec
import pytest

from tests.unit.cli.test_heal import lines
from tests.unit.cli.test_listing import at_a_terminal
from whimbrel.api.views.host_power import HostPower
from whimbrel.api.views.hosts import HostHardware, HostInvitation, HostNicState, HostPciState, HostState
from whimbrel.cli import host, host_fence
from whimbrel.domain.errors import Invalid

UP = HostState(name="n1", cell="one", zone="north", state="up", enabled=True, servers=7, driver="simulated", vcpus=8)
NEW = HostState(
    name="n17",
    cell="one",
    zone="south",
    state="down",
    disabled_reason="joined; enable it with: whimbrel host enable n17",
    session=3,
    release="0.4.0",
    forced_down=True,
    joined_at=86400.0,
)
JOINED = HostState(name="n18", cell="one", state="joined", joined_at=86400.0)


def test_hosts_are_listed_with_whether_they_take_servers() -> None:
    assert lines(host.listed([UP, NEW, JOINED])) == [
        "host  cell  zone   state                        servers  seen",
        "n1    one   north  up                           7        -",
        "n17   one   south  down, disabled, forced down  0        -     joined; enable it with: whimbrel host enable n17",  # noqa: E501
        "n18   one   -      joined                       0        -",
    ]


def test_a_list_fits_a_terminal() -> None:
    """Long names are cut, a reason has a line of its own, and no word is broken."""
    far = msgspec.structs.replace(NEW, name="compute-rack12-node07.example.org", zone="north-west-1")
    far.seen_at = time.time() - 190
    listed = at_a_terminal(host.listed([UP, far, JOINED]))
    assert [line.split()[0] for line in listed] == ["host", "n1", "compute-rac…", "joined;", "n18"]
    assert "down, disabled, forced down  0        3 min ago" in listed[2]
    assert listed[3].strip() == "joined; enable it with: whimbrel host enable n17"


def test_a_host_is_shown_with_its_agent() -> None:
    shown = lines(host.shown(NEW))
    assert "agent      release 0.4.0, session 3" in shown
    assert "joined     1970-01-02 00:00:00" in shown
    assert "agent      in the process of the cloud" in lines(host.shown(UP))
    assert [line.split()[0] for line in lines(host.shown(JOINED))] == ["host", "cell", "state", "joined"]


def test_a_host_is_shown_with_what_was_found_there() -> None:
    nic = HostNicState(
        name="ens1f0", mac="0c:42:a1:00:00:01", speed_mbps=25000, mtu=9000, state="up", pci_address="0000:81:00.0"
    )
    physical = HostPciState(
        address="0000:81:00.0",
        vendor_id="15b3",
        product_id="101d",
        numa_node=1,
        physical_function=None,
        virtual_functions=8,
        iommu_group=40,
        driver="mlx5_core",
    )
    virtual = msgspec.structs.replace(
        physical,
        address="0000:81:01.2",
        physical_function="0000:81:00.0",
        virtual_functions=0,
        numa_node=0,
        driver=None,
    )
    wrong = ["NIC ens5 was not found", "PCI device 0000:82:00.0 (10de:1eb8) was not found"]
    found = HostHardware(nics=[nic], pci=[physical, virtual], mismatches=wrong)
    assert [lines(listing) for listing in host.hardware(found)] == [
        [
            "NIC     MAC                speed         MTU   state  PCI device",
            "ens1f0  0c:42:a1:00:00:01  25000 Mbit/s  9000  up     0000:81:00.0",
        ],
        [
            "PCI device    ids        function                   NUMA  IOMMU  driver",
            "0000:81:00.0  15b3:101d  physical, up to 8 virtual  1     40     mlx5_core",
            "0000:81:01.2  15b3:101d  virtual, of 0000:81:00.0   0     40     -",
        ],
    ]
    shown = lines(host.shown(msgspec.structs.replace(UP, hardware=found)))
    at = shown.index("mismatches  NIC ens5 was not found")
    assert shown[at + 1].strip() == "PCI device 0000:82:00.0 (10de:1eb8) was not found"
    assert [lines(listing) for listing in host.hardware(HostHardware(nics=None, pci=[]))] == [
        ["NICs: they cannot be listed on this host"],
        ["PCI devices: none"],
    ]
    assert host.hardware(None) == []


def test_an_invitation_says_what_to_do_where() -> None:
    said = lines(host.invited(HostInvitation(host="n17", cell="one", expires_at=86400.0, token="whimbrel1.abc")))
    assert "whimbrel agent join whimbrel1.abc" in said
    assert said[-1].endswith("whimbrel host enable n17")


def test_the_question_before_a_power_cut_has_what_is_lost() -> None:
    assert host_fence.question(UP) == "Host n1 is up and has 7 servers, which would end at once. Cut its power?"


def test_the_power_of_a_host_has_its_source() -> None:
    power = HostPower(host="n1", device="redfish", address="https://10.0.0.17", power="off")
    assert host_fence.sentence(power) == "host n1: power is off, says its redfish device at https://10.0.0.17"


@pytest.mark.parametrize("options", [{}, {"power_off": True, "status": True}, {"power_off": True, "json": True}])
def test_a_power_cut_has_to_be_meant(options: dict[str, bool]) -> None:
    with pytest.raises(Invalid):
        host_fence.fence("n1", **options)


def test_a_host_that_fences_itself_is_shown_with_its_bound() -> None:
    fencing = msgspec.structs.replace(UP, self_fence_s=60.0, self_fence_counted_s=111.91)
    said = "stops its guests when it was cut off for 60 s; counted on 112 s after it was last seen"
    assert f"self-fencing  {said}" in lines(host.shown(fencing))
    assert not [line for line in lines(host.shown(UP)) if "self-fencing" in line]
