"""The packet filter of a network, as text: what a port may send, and what its security groups allow."""

import pytest
from msgspec.structs import replace

from whimbrel.adapters.host_network.packet_rules import PROTOCOLS, link_local, ruleset
from whimbrel.domain.host_networks import AddressPair, HostNetwork, HostPort, HostRule, HostSubnet
from whimbrel.embedded.network import security_groups

PORT = HostPort(
    id="aaaaaaaa-bbbb", mac="fa:16:3e:00:00:05", server="s", addresses=("10.0.0.5", "fd00::5"), groups=("g", "h")
)
NETWORK = HostNetwork(id="n", mtu=1450, dhcp_mac="fa:16:3e:00:00:02", ports=(PORT,))


def chain(text: str, name: str) -> list[str]:
    """Return the rules of a chain."""
    lines = text.splitlines()
    begin = lines.index(next(line for line in lines if line.startswith(f" chain {name} {{")))
    end = lines.index(" }", begin)
    return [line.strip() for line in lines[begin + 1 : end]]


def of_rule(rule: HostRule) -> list[str]:
    text = ruleset(NETWORK, {"g": (rule,)}, {"m": ("10.0.0.7", "fd00::7")})
    return chain(text, f"{rule.direction}_{PORT.id}")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (HostRule(direction="egress", version=4), "ether type ip meta mark set mark or 1"),
        (
            HostRule(direction="ingress", version=4, protocol="tcp", first=22, last=22, remote="192.0.2.0/24"),
            "ether type ip ip saddr 192.0.2.0/24 meta l4proto 6 th dport 22 meta mark set mark or 2",
        ),
        (
            HostRule(direction="egress", version=6, protocol="udp", first=1, last=9, group="m"),
            "ether type ip6 ip6 daddr @members_m_6 meta l4proto 17 th dport 1-9 meta mark set mark or 1",
        ),
        (
            HostRule(direction="ingress", version=4, protocol="icmp", first=8, last=0),
            "ether type ip meta l4proto 1 icmp type 8 icmp code 0 meta mark set mark or 2",
        ),
        (
            HostRule(direction="ingress", version=6, protocol="icmp"),
            "ether type ip6 meta l4proto 58 meta mark set mark or 2",
        ),
        (
            HostRule(direction="ingress", version=4, protocol="112"),
            "ether type ip meta l4proto 112 meta mark set mark or 2",
        ),
    ],
)  # fmt: skip
def test_a_rule_marks_what_it_allows(rule: HostRule, expected: str) -> None:
    assert of_rule(rule) == [expected]


def test_a_rule_that_matches_nothing_is_left_out() -> None:
    """nft would refuse the whole text."""
    for version, protocol in ((4, "ipv6-icmp"), (6, "1")):
        assert of_rule(HostRule(direction="ingress", version=version, protocol=protocol, first=1)) == []


def test_all_protocols_of_the_network_service_have_numbers() -> None:
    assert set(security_groups.PROTOCOLS) <= set(PROTOCOLS)


def test_a_group_named_by_a_rule_is_a_set_of_each_version() -> None:
    text = ruleset(NETWORK, {"g": (HostRule(direction="ingress", version=4, group="m"),)}, {"m": ("10.0.0.7",)})
    assert "set members_m_4 { type ipv4_addr; flags interval; auto-merge; elements = { 10.0.0.7 } }" in text
    assert "set members_m_6 { type ipv6_addr; flags interval; auto-merge; }" in text


def test_a_port_sends_from_its_own_addresses_only() -> None:
    pairs = (AddressPair(ip="10.0.0.0/28"), AddressPair(ip="10.9.0.1", mac="fa:16:3e:00:00:99"))
    rules = chain(ruleset(replace(NETWORK, ports=(replace(PORT, pairs=pairs),)), {}, {}), f"from_{PORT.id}")
    assert rules[0] == "ip daddr { 169.254.169.254 } ether saddr . ip saddr != { fa:16:3e:00:00:05 . 10.0.0.5 } drop"
    assert rules[1] == "ether saddr != { fa:16:3e:00:00:05, fa:16:3e:00:00:99 } drop"
    owned = "fa:16:3e:00:00:05 . 10.0.0.5, fa:16:3e:00:00:05 . 10.0.0.0/28, fa:16:3e:00:00:99 . 10.9.0.1"
    assert f"ether saddr . ip saddr {{ {owned} }} return" in rules
    assert f"ether type arp arp saddr ether . arp saddr ip {{ {owned} }} return" in rules
    assert "icmpv6 type { nd-router-advert, nd-redirect } drop" in rules
    assert rules[-1] == "drop"


def test_ports_reach_the_host_by_ipv6_only_where_it_has_an_address() -> None:
    six = HostSubnet(id="six", version=6, cidr="fd00::/64", dhcpv6_address="fd00::2")
    rules = chain(ruleset(replace(NETWORK, subnets=(six,)), {}, {}), "input")
    assert rules[-5:] == [
        "ether type ip6 udp dport 547 accept",
        "ip6 daddr fe80::a9fe:a9fe tcp dport 80 accept",
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept",
        "ip6 daddr { fd00::2, fe80::a9fe:a9fe } icmpv6 type echo-request accept",
        "drop",
    ]
    without_dhcp = replace(NETWORK, subnets=(replace(six, dhcpv6_address=""),))
    assert "ether type ip6 udp dport 547 accept" not in chain(ruleset(without_dhcp, {}, {}), "input")
    for network in (replace(without_dhcp, dhcp_mac=""), replace(without_dhcp, mtu=1000), NETWORK):
        rules = chain(ruleset(network, {}, {}), "input")
        assert not [rule for rule in rules if "ip6" in rule or "icmpv6" in rule]


def test_a_port_asks_for_its_own_metadata_by_ipv6() -> None:
    six = HostSubnet(id="six", version=6, cidr="fd00::/64")
    rules = chain(ruleset(replace(NETWORK, subnets=(six,)), {}, {}), f"from_{PORT.id}")
    owned = f"{PORT.mac} . fd00::5, {PORT.mac} . {link_local(PORT.mac)}"
    assert rules[1] == f"ip6 daddr fe80::a9fe:a9fe ether saddr . ip6 saddr != {{ {owned} }} drop"


def test_a_port_without_security_sends_and_receives_all_but_the_metadata_of_others() -> None:
    text = ruleset(replace(NETWORK, ports=(replace(PORT, is_secured=False, groups=()),)), {}, {})
    forged = "ether saddr . ip saddr != { fa:16:3e:00:00:05 . 10.0.0.5 }"
    assert chain(text, f"from_{PORT.id}") == [f"ip daddr {{ 169.254.169.254 }} {forged} drop"]
    assert chain(text, f"egress_{PORT.id}") == ["meta mark set mark or 1"]


def test_a_port_that_is_down_and_one_that_is_not_known_send_nothing() -> None:
    text = ruleset(replace(NETWORK, ports=(replace(PORT, is_up=False),)), {}, {})
    assert chain(text, "prerouting")[-2] == "drop"
    assert PORT.id not in text


def test_the_text_replaces_the_tables_as_a_whole() -> None:
    lines = ruleset(NETWORK, {}, {}).splitlines()
    assert lines[:4] == [
        "table bridge whimbrel {}", "delete table bridge whimbrel",
        "table inet whimbrel {}", "delete table inet whimbrel",
    ]  # fmt: skip


def test_the_link_local_address_is_that_of_the_mac() -> None:
    assert link_local("fa:16:3e:00:00:05") == "fe80::f816:3eff:fe00:5"
