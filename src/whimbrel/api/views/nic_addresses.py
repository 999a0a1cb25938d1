"""The addresses of a server's NICs: by the names of their networks, by version of IP, in short and in full."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import Nic


def by_label(server: Server) -> dict[str, list[tuple[str, Nic]]]:
    """Give the addresses under each network's name, each with its nic."""
    found: dict[str, list[tuple[str, Nic]]] = {}
    for nic in server.nics:
        found.setdefault(nic.label, []).extend((ip.address, nic) for ip in nic.addresses)
    return found


def of_version(server: Server, version: int) -> list[str]:
    """Give all addresses of IPv4 or IPv6."""
    addresses = (ip.address for nic in server.nics for ip in nic.addresses)
    return [address for address in addresses if ip_address(address).version == version]


def short(addresses: Iterable[tuple[str, Nic]]) -> list[dict[str, Any]]:
    return [{"version": ip_address(address).version, "addr": address} for address, _ in addresses]


def full(addresses: Iterable[tuple[str, Nic]]) -> list[dict[str, Any]]:
    """Show addresses as a server's own page does. Floating ones are not known here, only those of its ports."""
    return [
        {
            "version": ip_address(address).version,
            "addr": address,
            "OS-EXT-IPS:type": "fixed",
            "OS-EXT-IPS-MAC:mac_addr": nic.mac,
        }
        for address, nic in addresses
    ]
