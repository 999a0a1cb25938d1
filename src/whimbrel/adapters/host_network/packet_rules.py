"""The packet filter of a network on a host, as text for nft: anti-spoofing, and security groups.

Frames between a port and the rest of its network pass two tables. The table of the bridge drops what a port must not
send, and marks what its security groups allow as a new connection: bit 1 by its sender, bit 2 by its receiver. The
table `inet` sees the same packet with its connection: it lets through what belongs to a known one, and of new ones
those with both marks. So nothing is asked of the kernel beside br_netfilter; connections of a bridge's own
(nf_conntrack_bridge) are missing in many kernels.
Invariant: what is not allowed is dropped; the text replaces the tables as one transaction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv6Address, ip_network

from whimbrel.adapters.host_network.names import PORT_PREFIX, TABLE, inner
from whimbrel.domain.host_networks import HostNetwork, HostPort, HostRule

METADATA_IP = "169.254.169.254"
METADATA_IPV6 = "fe80::a9fe:a9fe"
SENT, RECEIVED = 1, 2  # bits of the mark
BOTH = SENT | RECEIVED
FAMILY = {4: "ip", 6: "ip6"}
SET_TYPE = {4: "ipv4_addr", 6: "ipv6_addr"}
PROTOCOLS = {
    "icmp": 1, "igmp": 2, "ipip": 4, "tcp": 6, "egp": 8, "udp": 17, "dccp": 33, "ipv6-encap": 41, "ipv6-route": 43,
    "ipv6-frag": 44, "rsvp": 46, "gre": 47, "esp": 50, "ah": 51, "icmpv6": 58, "ipv6-icmp": 58, "ipv6-nonxt": 59,
    "ipv6-opts": 60, "ospf": 89, "vrrp": 112, "pgm": 113, "sctp": 132, "udplite": 136,
}  # fmt: skip
"""The numbers of the names that a rule may have: a name that this machine does not know would keep all from loading."""

WITH_PORTS = (6, 17, 33, 132, 136)
ICMP = {4: (1, "icmp"), 6: (58, "icmpv6")}
"""IP version -> the protocol's number, and nft's word for it."""


def ruleset(
    network: HostNetwork, rules: Mapping[str, tuple[HostRule, ...]], members: Mapping[str, tuple[str, ...]]
) -> str:
    """Return the text for `nft -f -` in the namespace of the network."""
    ports = [port for port in network.ports if port.is_up]
    lines = [
        *(f"table {family} {TABLE} {{}}\ndelete table {family} {TABLE}" for family in ("bridge", "inet")),
        f"table bridge {TABLE} {{",
        *_group_sets(rules, members),
        *_prerouting(network, ports),
        *_input(network),
        *_forward(ports),
        *(line for port in ports for line in _port_chains(network, port, rules)),
        "}",
        *_connections(),
    ]
    return "\n".join(lines) + "\n"


def _group_sets(rules: Mapping[str, tuple[HostRule, ...]], members: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield a set of the addresses of each group that a rule names, of each IP version."""
    for group in sorted({rule.group for of_group in rules.values() for rule in of_group if rule.group}):
        for version in (4, 6):
            addresses = [each for each in members.get(group, ()) if ip_network(each, strict=False).version == version]
            elements = f" elements = {{ {', '.join(addresses)} }}" if addresses else ""
            kind = f"type {SET_TYPE[version]}; flags interval; auto-merge;"
            yield f" set {_set_name(group, version)} {{ {kind}{elements} }}"


def _set_name(group: str, version: int) -> str:
    return f"members_{group}_{version}"


def _chain(direction: str, port: HostPort) -> str:
    return f"{direction}_{port.id}"


def _hook(name: str, priority: int, policy: str) -> str:
    return f" chain {name} {{ type filter hook {name} priority {priority}; policy {policy};"


def _prerouting(network: HostNetwork, ports: Sequence[HostPort]) -> Iterator[str]:
    """Yield the chain that drops forged packets, and keeps those for the metadata service here."""
    yield _hook("prerouting", -300, "accept")
    if network.dhcp_mac:  # each host has one of its own
        yield f'  iifname != "{PORT_PREFIX}*" ether saddr {network.dhcp_mac} drop'
    yield f'  iifname != "{PORT_PREFIX}*" accept'
    sources = [f'"{inner(port.id)}" : jump {_chain("from", port)}' for port in ports]
    if sources:
        yield f"  iifname vmap {{ {', '.join(sources)} }}"
    yield f"  iifname != {{ {_names(ports)} }} drop" if ports else "  drop"
    if network.dhcp_mac:
        yield f"  ip daddr {METADATA_IP} meta pkttype set host ether daddr set {network.dhcp_mac}"
    yield " }"


def _names(ports: Iterable[HostPort]) -> str:
    return ", ".join(f'"{inner(port.id)}"' for port in ports)


def _input(network: HostNetwork) -> Iterator[str]:
    """Yield the chain that limits what ports may ask of the host: DHCP and metadata."""
    yield _hook("input", -300, "accept")
    yield f'  iifname != "{PORT_PREFIX}*" drop'
    yield "  ether type arp accept"
    yield "  udp dport 67 accept"
    yield f"  ip daddr {{ {_here(network)} }} tcp dport 80 accept"
    yield f"  ip daddr {{ {_here(network)} }} icmp type echo-request accept"
    v6 = [subnet.dhcpv6_address for subnet in network.subnets if subnet.dhcpv6_address]
    if v6:
        yield "  ether type ip6 udp dport 547 accept"
    if has_metadata_v6(network):
        yield f"  ip6 daddr {METADATA_IPV6} tcp dport 80 accept"
        v6.append(METADATA_IPV6)
    if v6:
        yield "  icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
        yield f"  ip6 daddr {{ {', '.join(v6)} }} icmpv6 type echo-request accept"
    yield "  drop"
    yield " }"


def _here(network: HostNetwork) -> str:
    """Return the addresses of the metadata service."""
    addresses = [METADATA_IP, *(subnet.dhcp_address for subnet in network.subnets if subnet.version == 4)]
    return ", ".join(filter(None, addresses))


def has_metadata_v6(network: HostNetwork) -> bool:
    """Check whether metadata is served at an address of IPv6, too."""
    return bool(network.dhcp_mac) and network.has_v6 and any(subnet.version == 6 for subnet in network.subnets)


def _forward(ports: Sequence[HostPort]) -> Iterator[str]:
    """Yield the chain that marks what security groups allow. What has no connections needs no mark: ARP and RARP."""
    yield _hook("forward", -200, "drop")
    yield "  meta mark set 0"
    yield f'  iifname != "{PORT_PREFIX}*" meta mark set mark or {SENT}'
    yield f'  oifname != "{PORT_PREFIX}*" meta mark set mark or {RECEIVED}'
    for direction, name in (("egress", "iifname"), ("ingress", "oifname")):
        if ports:
            jumps = ", ".join(f'"{inner(port.id)}" : jump {_chain(direction, port)}' for port in ports)
            yield f"  {name} vmap {{ {jumps} }}"
    # Not those with a VLAN tag: br_netfilter does not follow their connections, so the next table would not see them.
    yield "  ether type { ip, ip6, arp, 0x8035 } accept"
    yield " }"


def _port_chains(network: HostNetwork, port: HostPort, rules: Mapping[str, tuple[HostRule, ...]]) -> Iterator[str]:
    """Yield the chains of a port: what it may send at all, and what its groups allow."""
    yield f" chain {_chain('from', port)} {{"
    yield from _own_metadata(network, port)
    yield from (_anti_spoofing(port) if port.is_secured else ())
    yield " }"
    for direction, bit in (("egress", SENT), ("ingress", RECEIVED)):
        mark = f"meta mark set mark or {bit}"
        yield f" chain {_chain(direction, port)} {{"
        if port.is_secured:
            of_groups = (rule for group in port.groups for rule in rules.get(group, ()) if rule.direction == direction)
            yield from dict.fromkeys(f"  {_match(rule)}{mark}" for rule in of_groups if _can_match(rule))
        else:
            yield f"  {mark}"
        yield " }"


def _can_match(rule: HostRule) -> bool:
    """Check whether there are packets of a rule: none has the ICMP of the other IP version."""
    return _number(rule) != ICMP[10 - rule.version][0]


def _anti_spoofing(port: HostPort) -> Iterator[str]:
    """Yield the rules that drop what is not from the port's own addresses, or what only routers and servers send."""
    macs = sorted({port.mac, *(pair.mac for pair in port.pairs if pair.mac)})
    yield f"  ether saddr != {{ {', '.join(macs)} }} drop"
    yield "  ether type 0x8035 return"
    owned = [(port.mac, ip) for ip in port.addresses] + [(pair.mac or port.mac, pair.ip) for pair in port.pairs]
    v4, v6 = _of_version(owned, 4), _of_version([*owned, *((mac, link_local(mac)) for mac in macs)], 6)
    yield "  udp sport 68 udp dport 67 ip saddr 0.0.0.0 return"
    yield "  ether type ip udp sport 67 drop"
    yield "  ether type ip6 udp sport 547 drop"
    yield "  icmpv6 type { nd-router-advert, nd-redirect } drop"
    yield "  ip6 saddr :: icmpv6 type { nd-neighbor-solicit, nd-router-solicit, mld2-listener-report } return"
    yield f"  ether type arp arp saddr ip 0.0.0.0 arp saddr ether {{ {', '.join(macs)} }} return"
    if v4:
        yield f"  ether type arp arp saddr ether . arp saddr ip {{ {v4} }} return"
        yield f"  ether saddr . ip saddr {{ {v4} }} return"
    yield f"  ether saddr . ip6 saddr {{ {v6} }} return"
    yield "  drop"


def _own_metadata(network: HostNetwork, port: HostPort) -> Iterator[str]:
    """Yield the rules by which a port asks for no other's metadata, whatever else it may send."""
    owned = _of_version([(port.mac, ip) for ip in port.addresses], 4)
    others = f" ether saddr . ip saddr != {{ {owned} }}" if owned else ""
    yield f"  ip daddr {{ {_here(network)} }}{others} drop"
    if has_metadata_v6(network):
        owned = _of_version([(port.mac, ip) for ip in (*port.addresses, link_local(port.mac))], 6)
        yield f"  ip6 daddr {METADATA_IPV6} ether saddr . ip6 saddr != {{ {owned} }} drop"
        # The word "taddr" for the target of an advertisement is missing in nft before 1.0.8.
        yield f"  icmpv6 type nd-neighbor-advert @th,64,128 {int(IPv6Address(METADATA_IPV6)):#x} drop"


def _of_version(owned: Iterable[tuple[str, str]], version: int) -> str:
    """Return set elements of MAC and address."""
    pairs = [(mac, ip) for mac, ip in owned if ip_network(ip, strict=False).version == version]
    return ", ".join(dict.fromkeys(f"{mac} . {ip}" for mac, ip in pairs))


def link_local(mac: str) -> str:
    """Return the IPv6 address that a host derives from its MAC."""
    first, *rest = bytes.fromhex(mac.replace(":", ""))
    eui = bytes([first ^ 2, *rest[:2], 0xFF, 0xFE, *rest[2:]])
    return str(IPv6Address(b"\xfe\x80" + bytes(6) + eui))


def _match(rule: HostRule) -> str:
    """Return the conditions of a rule, each followed by a space."""
    family = FAMILY[rule.version]
    address = "saddr" if rule.direction == "ingress" else "daddr"
    parts = [f"ether type {family}"]
    if rule.group:
        parts.append(f"{family} {address} @{_set_name(rule.group, rule.version)}")
    elif rule.remote:
        parts.append(f"{family} {address} {rule.remote}")
    if rule.protocol:
        parts.append(_protocol(rule))
    return "".join(f"{part} " for part in parts)


def _protocol(rule: HostRule) -> str:
    number = _number(rule)
    found = [f"meta l4proto {number}"]
    of_icmp, word = ICMP[rule.version]
    if number == of_icmp:
        parts = (("type", rule.first), ("code", rule.last))
        found += [f"{word} {part} {value}" for part, value in parts if value is not None]
    elif number in WITH_PORTS and rule.first is not None:
        found.append(f"th dport {rule.first}-{rule.last}" if rule.first != rule.last else f"th dport {rule.first}")
    return " ".join(found)


def _number(rule: HostRule) -> int | None:
    """Return the number of a rule's protocol. None: every one. With IPv6 "icmp" is that of IPv6, as in Neutron."""
    if not rule.protocol:
        return None
    if rule.version == 6 and rule.protocol == "icmp":
        return ICMP[6][0]
    return PROTOCOLS.get(rule.protocol) or int(rule.protocol)


def _connections() -> Iterator[str]:
    yield f"table inet {TABLE} {{"
    yield " chain forward { type filter hook forward priority 0; policy drop;"
    yield "  ct state established,related accept"
    yield "  ct state invalid drop"
    yield "  icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, nd-router-advert } accept"
    yield f"  meta mark and {BOTH} == {BOTH} accept"
    yield " }"
    yield "}"
