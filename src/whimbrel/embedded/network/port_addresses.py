"""The addresses of ports in requests: IPs, MACs, and allowed address pairs."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Annotated

from msgspec import Meta

from whimbrel.embedded.network.bodies import Body, Text, address
from whimbrel.ports.clock import IdSource
from whimbrel.ports.embedded.network_store import FixedIp, Port
from whimbrel.ports.services.network_errors import InvalidInput, PortBound

MAC_PREFIX = "fa:16:3e"
NO_MACS = ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff")

Mac = Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$")]


class SentIp(Body, kw_only=True):
    subnet_id: Text = ""
    ip_address: Text = ""


class SentPair(Body, kw_only=True):
    ip_address: Text
    mac_address: Mac | None = None


Ips = Annotated[tuple[SentIp, ...], Meta(max_length=16)]
Pairs = Annotated[tuple[SentPair, ...], Meta(max_length=32)]


def ips(sent: Sequence[SentIp]) -> tuple[FixedIp, ...]:
    found = []
    for each in sent:
        if not (each.subnet_id or each.ip_address):
            raise InvalidInput("Invalid input for operation: IP allocation requires subnet_id or ip_address.")
        found.append(FixedIp(each.subnet_id, address(each.ip_address, "fixed_ips") if each.ip_address else ""))
    return tuple(found)


def kept(port: Port, asked: tuple[FixedIp, ...]) -> tuple[FixedIp, ...]:
    """Keep a port's present address of a subnet if the request accepts any address of it."""
    free = [each for each in port.fixed_ips or () if each not in asked]
    found = []
    for each in asked:
        had = next((one_had for one_had in free if one_had.subnet_id == each.subnet_id), None)
        if had and not each.ip_address:
            free.remove(had)
            found.append(had)
        else:
            found.append(each)
    return tuple(found)


def pairs(sent: Sequence[SentPair] | None) -> tuple[dict[str, str], ...]:
    found = []
    for pair in sent or ():
        base, slash, length = pair.ip_address.partition("/")
        parsed = address(base, "allowed_address_pairs")
        found.append({"ip_address": parsed + slash + (_length(length, parsed) if slash else "")})
        if pair.mac_address:
            found[-1]["mac_address"] = _pair_mac(pair.mac_address)
    return tuple(found)


def _length(sent: str, base: str) -> str:
    most = ip_address(base).max_prefixlen
    if not (sent.isascii() and sent.isdecimal() and len(sent) <= 3 and int(sent) <= most):
        raise InvalidInput(f"Invalid input for allowed_address_pairs. Reason: '/{sent}' is no length of a prefix.")
    return sent


def mac(sent: str) -> str:
    """Raises: InvalidInput: the address of no interface or of all; one of several is accepted, as in Neutron."""
    usual = sent.lower().replace("-", ":")
    if usual in NO_MACS:
        raise InvalidInput(f"Invalid input for mac_address. Reason: '{sent}' is not a valid MAC address.")
    return usual


def _pair_mac(sent: str) -> str:
    usual = mac(sent)
    if int(usual[:2], 16) & 1:
        raise InvalidInput(
            f"Invalid input for allowed_address_pairs. Reason: MAC address {sent} is a multicast address, which is not"
            " supported."
        )
    return usual


def changed_mac(port: Port, sent: str) -> str:
    changed = mac(sent)
    if changed != port.mac_address and port.active_binding:
        raise PortBound(f"Unable to complete operation on port {port.id}, port is already bound: its MAC stays.")
    return changed


def new_mac(ids: IdSource) -> str:
    tail = ids.uuid()[-6:]
    return f"{MAC_PREFIX}:{tail[:2]}:{tail[2:4]}:{tail[4:]}"
