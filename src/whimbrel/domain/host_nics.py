"""The network cards of hosts: the physical network and the bandwidth of each.

All cards of one kind on a host have one agent; the agents' names are those that Neutron's clients expect.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

VnicType = Literal["normal", "direct"]
Kbps = Annotated[int, Meta(ge=0, le=2**31 - 1)]

AGENTS: Final[Mapping[VnicType, str]] = {"normal": "Open vSwitch agent", "direct": "NIC Switch agent"}


GUEST_NICS: Final[Mapping[str, str]] = {
    "bridge": "the networks of the cloud (guest_nics = 'bridge')",
    "ovs": "the bridge of Open vSwitch that their ports name (guest_nics = 'ovs')",
    "tap": "taps that others connect (guest_nics = 'tap')",
    "user": "QEMU's user network: no address of the port, no security groups, no metadata (guest_nics = 'user')",
}
"""What the NICs of a host's guests are connected to, by the setting `guest_nics`, for people."""


class HostNic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One card. Bandwidth 0: not counted. A card serves ports of one type, so its bandwidth is counted once."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$")]  # device name, such as "ens5"
    physnet: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    egress_kbps: Kbps = 0
    ingress_kbps: Kbps = 0
    vnic_types: Annotated[tuple[VnicType, ...], Meta(min_length=1, max_length=1)] = ("normal",)


class HostNet(Struct, frozen=True, kw_only=True):
    """A host's cards, and its packet rate capacity in thousands of packets per second; 0: not counted.

    guest_nics: of its settings, unless that is "tap" or the host is simulated. tunnel_address: for tunnels between
    hosts that make the networks of their guests.
    """

    host: str
    cards: tuple[HostNic, ...] = ()
    kpps: int = 0  # both directions together
    egress_kpps: int = 0
    ingress_kpps: int = 0
    guest_nics: str | UnsetType = UNSET
    tunnel_address: str | UnsetType = UNSET

    @property
    def makes_networks(self) -> bool:
        """Check whether the agent of this host makes the networks of its guests."""
        return self.guest_nics == "bridge"

    def serves(self, physnet: str, vnic_type: str) -> bool:
        """Check whether a card for this type of port is on a physical network."""
        return any(card.physnet == physnet and vnic_type in card.vnic_types for card in self.cards)
