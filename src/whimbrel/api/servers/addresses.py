"""A server's addresses by the names of its networks, as its record has them."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import NotFound
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


async def index(call: Call) -> Any:
    return {"addresses": {label: short(found) for label, found in by_label(call.server).items()}}


async def show(call: Call) -> Any:
    label = call.params["label"]
    found = by_label(call.server).get(label)
    if found is None:
        raise NotFound("Instance is not a member of specified network")
    return {label: short(found)}
