"""Which devices a request gets, and what a flavor's words ask for."""

import pytest

from whimbrel.domain.errors import Invalid, Refused
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import ServerId, Slot
from whimbrel.domain.pci import HeldDevice, PciAlias, PciDevice, PciRequest, choose, flavor_requests

ME = GuestKey(ServerId("me"), Slot("a"))
NIC = {"vendor_id": "8086", "product_id": "154c"}
ALIASES = (PciAlias(name="gpu", vendor_id="10de", product_id="1eb8"), PciAlias(name="nic", **NIC))


def offered(address: str, parent: str | None = None, physnet: str | None = None) -> HeldDevice:
    return HeldDevice(device=PciDevice(address=address, physnet=physnet, parent_ifname=parent, **NIC))


def test_who_can_take_few_devices_chooses_first() -> None:
    devices = [offered("1", "pf1", "data"), offered("2", "pf2", "data")]
    wanted = [PciRequest(id="any", physnet="data"), PciRequest(id="of pf1", parent_ifname="pf1")]
    assert choose(devices, ME, wanted) == {"of pf1": ["1"], "any": ["2"]}


def test_a_device_of_a_physical_network_is_for_ports_only() -> None:
    devices = [offered("1", "pf1", "data"), offered("2", "pf1")]
    by_alias = PciRequest(id="alias:nic", alias="nic", **NIC)
    assert choose(devices, ME, [by_alias]) == {"alias:nic": ["2"]}
    with pytest.raises(Refused, match="alias 'nic', 8086:154c"):
        choose(devices[:1], ME, [by_alias])
    assert choose(devices[:1], ME, [PciRequest(id="port", parent_ifname="pf1")]) == {"port": ["1"]}
    with pytest.raises(Refused, match="of physical network other"):
        choose(devices, ME, [PciRequest(id="port", physnet="other")])


def test_a_port_that_asks_for_nothing_special_gets_a_network_device() -> None:
    devices = [offered("1"), offered("2", "pf1"), offered("3", "pf1", "data")]
    assert choose(devices, ME, [PciRequest(id="port")]) == {"port": ["3"]}
    with pytest.raises(Refused):
        choose(devices[:2], ME, [PciRequest(id="port")])
    assert choose(devices[:2], ME, [PciRequest(id="port", parent_ifname="pf1")]) == {"port": ["2"]}


def test_a_flavor_names_aliases_and_numbers() -> None:
    found = flavor_requests(" gpu:2, nic : 1,gpu:1,", ALIASES)
    assert [(request.id, request.count, request.alias) for request in found] == [
        ("alias:gpu", 3, "gpu"),
        ("alias:nic", 1, "nic"),
    ]
    assert (found[0].vendor_id, found[0].product_id) == ("10de", "1eb8")
    assert flavor_requests("", ALIASES) == ()


@pytest.mark.parametrize("text", ["gpu", "gpu:", "gpu:0", "gpu:x", "gpu:-1", "gpu:1:2", "fpga:1", "gpu:9999"])
def test_words_that_are_no_request(text: str) -> None:
    with pytest.raises(Invalid, match=r"gpu|fpga"):
        flavor_requests(text, ALIASES)
