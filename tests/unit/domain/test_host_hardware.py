"""How what was found on a host differs from its settings."""

from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice, Hardware
from whimbrel.domain.host_nics import HostNet, HostNic
from whimbrel.domain.pci import PciDevice

FOUND = Hardware(
    nics=(FoundNic(name="ens5"), FoundNic(name="ens6")),
    pci=(FoundPciDevice(address="0000:81:00.0", vendor_id="8086", product_id="1572"),),
)
NET = HostNet(host="n1", cards=(HostNic(name="ens5", physnet="front"),))
OTHER_NET = HostNet(host="n1", cards=(HostNic(name="ens9", physnet="front"),))
DEVICE = PciDevice(address="0000:81:00.0", vendor_id="8086", product_id="1572")
OTHER_KIND = PciDevice(address="0000:81:00.0", vendor_id="10de", product_id="1eb8")
MISSING = PciDevice(address="0000:82:00.0", vendor_id="10de", product_id="1eb8")


def test_settings_that_are_right_have_no_mismatch() -> None:
    assert FOUND.mismatches(NET, [DEVICE]) == []


def test_each_wrong_setting_is_named() -> None:
    assert FOUND.mismatches(OTHER_NET, [OTHER_KIND, MISSING]) == [
        "NIC ens9 was not found",
        "PCI device 0000:81:00.0 is 8086:1572, and 10de:1eb8 in the settings",
        "PCI device 0000:82:00.0 (10de:1eb8) was not found",
    ]


def test_what_cannot_be_listed_is_not_checked() -> None:
    assert Hardware().mismatches(OTHER_NET, [OTHER_KIND, MISSING]) == []
    assert len(Hardware(nics=(), pci=None).mismatches(OTHER_NET, [MISSING])) == 1
