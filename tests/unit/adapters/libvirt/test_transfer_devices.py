"""PCI devices of a guest that is migrated live: their addresses on the host are those of the target afterwards."""

import xml.etree.ElementTree as ET

import pytest

from whimbrel.adapters.libvirt.domain_xml import NAMESPACE
from whimbrel.adapters.libvirt.transfer_xml import at_target, immovable
from whimbrel.domain.errors import Refused

GUEST = f"""<domain><metadata><w:guest xmlns:w="{NAMESPACE}" slot="s" home="/there" project="p"/></metadata>
<devices><serial type="file"><source path="/console.log"/><target port="0"/></serial>{{}}</devices></domain>"""
ONE, OTHER, THERE, OTHER_THERE = "0000:41:00.0", "0000:42:00.3", "0000:42:00.3", "0001:a1:1f.7"


def device(address: str, in_guest: str = "") -> str:
    domain, bus, rest = address.split(":")
    slot, function = rest.split(".")
    at = f'domain="0x{domain}" bus="0x{bus}" slot="0x{slot}" function="0x{function}"'
    return f'<hostdev mode="subsystem" type="pci" managed="yes"><source><address {at}/></source>{in_guest}</hostdev>'


def test_each_device_is_replaced_by_its_own_and_the_guest_sees_it_where_it_was() -> None:
    """Also if a device there has the address of another one here."""
    seen = '<alias name="hostdev0"/><address type="pci" domain="0x0000" bus="0x07" slot="0x00" function="0x0"/>'
    live, there = device(ONE, seen) + device(OTHER), device(OTHER_THERE) + device(THERE)
    moved = at_target(GUEST.format(live), GUEST.format(there), "running", {ONE: THERE, OTHER: OTHER_THERE})
    first, second = ET.fromstring(moved).findall("devices/hostdev")
    hosts = [one.find("source/address") for one in (first, second)]
    assert [(one.get("domain"), one.get("bus"), one.get("function")) for one in hosts if one is not None] == [
        ("0x0000", "0x42", "0x3"), ("0x0001", "0xa1", "0x7")
    ]  # fmt: skip
    in_guest = first.find("address")
    assert in_guest is not None
    assert (in_guest.get("bus"), first.get("managed")) == ("0x07", "yes")


@pytest.mark.parametrize("pci", [{}, {ONE: OTHER_THERE}])
def test_a_device_that_the_target_has_otherwise_is_refused(pci: dict[str, str]) -> None:
    with pytest.raises(Refused, match=r"PCI device .* is in the guest at one host only"):
        at_target(GUEST.format(device(ONE)), GUEST.format(device(THERE)), "running", pci)


def test_a_guest_is_immovable_by_the_first_device_that_cannot_be_moved() -> None:
    live = GUEST.format(device(ONE) + device(OTHER))
    assert immovable(live) == f"PCI device {ONE} is passed through to the guest"
    assert immovable(live, (ONE,)) == f"PCI device {OTHER} is passed through to the guest"
    assert immovable(live, (ONE, OTHER)) == ""
    usb = '<hostdev mode="subsystem" type="usb"><source><vendor id="0x1"/></source></hostdev>'
    assert immovable(GUEST.format(device(ONE) + usb), (ONE,)) == "a device of this host is passed through to the guest"
