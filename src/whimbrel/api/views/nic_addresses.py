"""The addresses of a server's NICs: by network name, by IP version, in short and in full."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import Nic


def by_label(server: Server) -> dict[str, list[tuple[str, Nic]]]:
    """Return the addresses by network name, each with its NIC."""
    found: dict[str, list[tuple[str, Nic]]] = {}
    for nic in server.nics:
        found.setdefault(nic.label, []).extend((ip.address, nic) for ip in nic.addresses)
    return found


def of_version(server: Server, version: int) -> list[str]:
    """Return all addresses of IPv4 or IPv6."""
    addresses = (ip.address for nic in server.nics for ip in nic.addresses)
    return [address for address in addresses if ip_address(address).version == version]


def short(addresses: Iterable[tuple[str, Nic]]) -> list[dict[str, Any]]:
    return [{"version": ip_address(address).version, "addr": address} for address, _ in addresses]


def full(addresses: Iterable[tuple[str, Nic]]) -> list[dict[str, Any]]:
    """Return addresses as a server shows them. Floating addresses are not included, only those of its ports."""
    return [
        {
            "version": ip_address(address).version,
            "addr": address,
            "OS-EXT-IPS:type": "fixed",
            "OS-EXT-IPS-MAC:mac_addr": nic.mac,
        }
        for address, nic in addresses
    ]
