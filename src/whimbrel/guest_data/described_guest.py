"""A server as its guest sees it: the input of all documents."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whimbrel.domain.guest_settings import GuestRules
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import Nic
from whimbrel.ports.services.network import NetworkInfo, Subnet
from whimbrel.scheduling.requirements.cpus import dedicated_cpus

SEED_BYTES = 512


@dataclass(frozen=True)
class GuestNetwork:
    """One NIC and its network. network: None: the service did not show it. subnets: those of its addresses."""

    nic: Nic
    network: NetworkInfo | None
    subnets: tuple[Subnet, ...]


@dataclass(frozen=True)
class DescribedGuest:
    server: Server
    zone: str  # name
    rules: GuestRules
    networks: tuple[GuestNetwork, ...] = ()
    dynamic_vendor_data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hostname(self) -> str:
        domain = self.rules.dhcp_domain
        return f"{self.server.hostname}.{domain}" if domain else self.server.hostname

    @property
    def user_data(self) -> bytes | None:
        """Return the user data as the requester meant it; None: there is none."""
        if self.server.user_data is None:
            return None
        try:
            return base64.b64decode(self.server.user_data)
        except binascii.Error:
            return self.server.user_data.encode()

    @property
    def random_seed(self) -> str | None:
        """Return the guest's seed in base64, always the same. None: the server was created before it got one."""
        if not self.server.random_seed:
            return None
        return base64.b64encode(hashlib.shake_256(self.server.random_seed.encode()).digest(SEED_BYTES)).decode()

    @property
    def dedicated_cpus(self) -> list[int]:
        flavor = self.server.flavor
        return sorted(dedicated_cpus(flavor.extra_specs, self.server.image_properties, flavor.vcpus))
