"""PCI devices for passthrough: devices of hosts, requests of servers, and their assignment.

Invariant: a device of a physical network is for ports only, and a port's device is on the physical function, or at
least on the physical network, that the port requests.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from whimbrel.domain.errors import Invalid, Refused
from whimbrel.domain.guest import GuestKey

ALIAS = "pci_passthrough:alias"
"""The extra spec by which a flavor requests devices."""
DIRECT = "direct"
"""The vnic type of ports that use a virtual function of the host."""
COUNT_MAX = 256


Address = Annotated[str, Meta(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$")]
PciId = Annotated[str, Meta(pattern=r"^[0-9a-f]{4}$")]
Named = Annotated[str, Meta(min_length=1, max_length=255)]


class PciDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device that an operator offers."""

    # Programs of release 0.2 refuse a device with other fields: descriptions of hosts have them beside it.
    address: Address  # "0000:81:00.1"
    vendor_id: PciId  # "8086"
    product_id: PciId
    physnet: Named | None = None  # set: a network device on this physical network, for ports
    parent_ifname: Named | None = None  # of a virtual function: interface of its physical function
    live_migratable: bool | UnsetType = UNSET  # whether it moves to another host with its guest, while that runs

    @property
    def is_live_migratable(self) -> bool:
        return self.live_migratable is True


class PciAlias(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A kind of device, under the name that flavors use."""

    name: Annotated[str, Meta(pattern=r"^[^\s:,]{1,255}$")]
    vendor_id: PciId
    product_id: PciId
    live_migratable: bool | None = None  # only devices that can be moved live, or only others; None: any


class PciRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for devices of one kind. None: any."""

    id: str  # unique for a server: a port's id, or the id made by `flavor_requests`
    count: int = 1
    alias: str | None = None  # for users; the fields below decide
    vendor_id: str | None = None
    product_id: str | None = None
    physnet: str | None = None
    parent_ifname: str | None = None
    live_migratable: bool | None = None

    def takes(self, device: PciDevice) -> bool:
        return (
            self.vendor_id in (None, device.vendor_id)
            and self.product_id in (None, device.product_id)
            and self.parent_ifname in (None, device.parent_ifname)
            and self.physnet in (None, device.physnet)
            and self.live_migratable in (None, device.is_live_migratable)
            and (self.parent_ifname is not None or self._is_for_port == (device.physnet is not None))
        )

    @property
    def _is_for_port(self) -> bool:
        """Check whether it is a port's request: flavors request a kind of device, ports a network."""
        return self.physnet is not None or (self.vendor_id is None and self.product_id is None)

    def in_words(self) -> str:
        ids = f"{self.vendor_id or 'any'}:{self.product_id or 'any'}"
        words = [f"alias {self.alias!r}"] if self.alias else []
        words += [ids] if self.vendor_id or self.product_id else []
        words += [f"on {self.parent_ifname}"] if self.parent_ifname else []
        words += [f"of physical network {self.physnet}"] if self.physnet else []
        if self.live_migratable is not None:
            words.append("that can be moved live" if self.live_migratable else "that cannot be moved live")
        return ", ".join(words) or "any"


class HeldDevice(msgspec.Struct, frozen=True, kw_only=True):
    device: PciDevice
    holder: GuestKey | None = None
    request: str | None = None
    is_withdrawn: bool = False  # no longer offered: its holder keeps it, no other guest gets it


class TooFewDevices(Refused):
    def __init__(self, request: PciRequest, wanted: int, free: int) -> None:
        super().__init__(f"not enough PCI devices ({request.in_words()}): {wanted} wanted, {free} free")
        self.suggestion = f"{wanted - free} more of its PCI devices free ({request.in_words()})"
        """Completes the sentence "it would fit with ..."."""


def choose(devices: Iterable[HeldDevice], consumer: GuestKey, wanted: Sequence[PciRequest]) -> dict[str, list[str]]:
    """Return request id -> addresses of its devices, first those that the consumer already holds for it.

    Raises: TooFewDevices.
    """
    assert len({request.id for request in wanted}) == len(wanted), "two requests have one id"
    free = {held.device.address: held.device for held in devices if held.holder is None and not held.is_withdrawn}
    mine: dict[str, list[str]] = {}
    for held in devices:
        if held.holder == consumer and held.request is not None:
            mine.setdefault(held.request, []).append(held.device.address)
    chosen: dict[str, list[str]] = {}
    for request in sorted(wanted, key=_choice):
        kept = sorted(mine.get(request.id, []))
        fitting = sorted(address for address, device in free.items() if request.takes(device))
        taken = fitting[: max(0, request.count - len(kept))]
        chosen[request.id] = (kept + taken)[: request.count]
        if len(chosen[request.id]) < request.count:
            raise TooFewDevices(request, request.count - len(kept), len(fitting))
        for address in taken:
            del free[address]
    return chosen


def _choice(request: PciRequest) -> tuple[bool, bool]:
    """Return the sort key of a request: requests that few devices satisfy come first."""
    return request.parent_ifname is None, request.physnet is None


def flavor_requests(text: str, aliases: Sequence[PciAlias]) -> tuple[PciRequest, ...]:
    """Parse a flavor's `pci_passthrough:alias`, such as "gpu:2,nic:1". Raises: Invalid: unknown alias or number."""
    known = {alias.name: alias for alias in aliases}
    counts: dict[str, int] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = (part.strip() for part in word.partition(":"))
        if not number.isascii() or not number.isdecimal() or not 1 <= int(number) <= COUNT_MAX:
            raise Invalid(f"PCI alias {word!r} is not NAME:NUMBER with a number from 1 to {COUNT_MAX}")
        if name not in known:
            raise Invalid(f"PCI alias {name} is not defined")
        counts[name] = counts.get(name, 0) + int(number)
    return tuple(
        PciRequest(
            id=f"alias:{name}",
            count=count,
            alias=name,
            vendor_id=known[name].vendor_id,
            product_id=known[name].product_id,
            live_migratable=known[name].live_migratable,
        )
        for name, count in counts.items()
    )
