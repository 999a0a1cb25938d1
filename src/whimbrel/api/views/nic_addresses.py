"""The addresses of a server's NICs: by network name, by IP version, in short and in full."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import Nic


class Address(NamedTuple):
    address: str
    type: str  # "fixed" | "floating"
    mac: str


def by_label(server: Server) -> dict[str, list[Address]]:
    """Return the addresses by network name: each fixed one, and behind it those that float to it."""
    found: dict[str, list[Address]] = {}
    for nic in server.nics:
        found.setdefault(nic.label, []).extend(_all(nic))
    return found


def _all(nic: Nic) -> Iterator[Address]:
    for ip in nic.addresses:
        yield Address(ip.address, "fixed", nic.mac)
        for floating in nic.floating:
            if floating.fixed_address == ip.address:
                yield Address(floating.address, "floating", nic.mac)


def _version(address: str) -> int:
    """Return the IP version of a valid address."""
    return 6 if ":" in address else 4


def of_version(server: Server, version: int) -> list[str]:
    """Return all fixed addresses of IPv4 or IPv6."""
    addresses = (ip.address for nic in server.nics for ip in nic.addresses)
    return [address for address in addresses if _version(address) == version]


def short(addresses: Iterable[Address]) -> list[dict[str, Any]]:
    return [{"version": _version(each.address), "addr": each.address} for each in addresses]


def full(addresses: Iterable[Address]) -> list[dict[str, Any]]:
    """Return addresses as a server shows them."""
    return [
        {
            "version": _version(each.address),
            "addr": each.address,
            "OS-EXT-IPS:type": each.type,
            "OS-EXT-IPS-MAC:mac_addr": each.mac,
        }
        for each in addresses
    ]
