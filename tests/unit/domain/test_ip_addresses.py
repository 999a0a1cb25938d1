"""Arithmetic of addresses at its edges."""

import pytest

from whimbrel.domain import ip_addresses
from whimbrel.domain.ip_addresses import Pool


@pytest.mark.parametrize(
    ("cidr", "gateway", "pools"),
    [
        ("10.0.0.0/30", "10.0.0.1", [Pool("10.0.0.2", "10.0.0.2")]),
        ("10.0.0.0/30", None, [Pool("10.0.0.1", "10.0.0.2")]),
        ("10.0.0.0/29", "10.0.0.6", [Pool("10.0.0.1", "10.0.0.5")]),
        ("10.0.0.0/29", "10.0.0.3", [Pool("10.0.0.1", "10.0.0.2"), Pool("10.0.0.4", "10.0.0.6")]),
        ("10.0.0.0/31", "10.0.0.0", [Pool("10.0.0.1", "10.0.0.1")]),
        ("10.0.0.7/32", None, [Pool("10.0.0.7", "10.0.0.7")]),
        ("10.0.0.7/32", "10.0.0.7", []),
        ("2001:db8::/126", "2001:db8::1", [Pool("2001:db8::2", "2001:db8::3")]),
        ("2001:db8::/127", None, [Pool("2001:db8::", "2001:db8::1")]),
    ],
)
def test_usual_pools(cidr: str, gateway: str | None, pools: list[Pool]) -> None:
    assert ip_addresses.usual_pools(cidr, gateway) == pools


def test_the_lowest_free_address() -> None:
    pools = [Pool("10.0.0.5", "10.0.0.6"), Pool("10.0.0.2", "10.0.0.2")]
    taken: set[str] = set()
    found = []
    while free := ip_addresses.first_free(pools, taken):
        taken.add(free)
        found.append(free)
    assert found == ["10.0.0.5", "10.0.0.6", "10.0.0.2"]
    assert ip_addresses.size(pools) == 3
    endless = [Pool("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff")]
    assert ip_addresses.first_free(endless, {"2001:db8::1"}) == "2001:db8::2"


@pytest.mark.parametrize(
    ("address", "cidr", "inside"),
    [
        ("10.0.0.1", "10.0.0.0/24", True),
        ("10.0.0.0", "10.0.0.0/24", False),
        ("10.0.0.255", "10.0.0.0/24", False),
        ("10.0.1.1", "10.0.0.0/24", False),
        ("10.0.0.0", "10.0.0.0/31", True),
        ("2001:db8::", "2001:db8::/64", False),
        ("2001:db8::ffff:ffff:ffff:ffff", "2001:db8::/64", True),
        ("10.0.0.1", "2001:db8::/64", False),
    ],
)
def test_which_addresses_hosts_have(address: str, cidr: str, inside: bool) -> None:
    assert ip_addresses.is_inside(address, cidr) == inside


def test_an_address_out_of_a_mac() -> None:
    """RFC 4291, appendix A: the bit that says "universal" is turned, FF-FE goes into the middle."""
    assert ip_addresses.from_mac("2001:db8::/64", "34:56:78:9a:bc:de") == "2001:db8::3656:78ff:fe9a:bcde"


def test_overlaps_and_shortest_form() -> None:
    assert ip_addresses.overlaps("10.0.0.0/24", "10.0.0.128/25")
    assert not ip_addresses.overlaps("10.0.0.0/25", "10.0.0.128/25")
    assert not ip_addresses.overlaps("0.0.0.0/0", "::/0")
    assert ip_addresses.canonical("2001:DB8:0::01") == "2001:db8::1"
    with pytest.raises(ValueError, match="banana"):
        ip_addresses.canonical("banana")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("a socket", "a socket"),
    ],
)
def test_clients_are_counted_by_address_or_network(address: str, name: str) -> None:
    assert ip_addresses.network_of(address) == name
