"""The dependencies of handlers: the cloud, the engine, the identity service and the policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from whimbrel.http.failed_attempts import OF_ADDRESS, Failures
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.bus_access import BusAccesses, NoBus
from whimbrel.ports.services.identity import EveryProject, Identity, Projects
from whimbrel.ports.services.images import Images
from whimbrel.ports.services.network import Network
from whimbrel.ports.services.user_grants import NoGrantsNeeded, UserGrants
from whimbrel.status.findings import Certificate

if TYPE_CHECKING:
    from whimbrel.http.policy import Policy
    from whimbrel.saga.engine import Engine


@dataclass(frozen=True)
class PublicUrl:
    """Where hosts reach this API, and the certificates (PEM) that they trust it by."""

    url: str = ""  # with the version; "": as the inviting operator reaches it
    ca_pem: str = ""  # "": the system trusts it

    @property
    def ca_sha256(self) -> str:
        return sha256(self.ca_pem.encode()).hexdigest() if self.ca_pem else ""


@dataclass(frozen=True)
class ConsoleProxy:
    """The URL at which clients reach the proxy of consoles, and the lifetime of their tokens."""

    url: str = "http://127.0.0.1:8774/console"
    token_lifetime_s: float = 600.0


@dataclass(frozen=True)
class Context:
    cloud: Cloud
    engine: Engine
    identity: Identity
    policy: Policy
    max_limit: int = 1000  # of items in one answer
    bus: BusAccesses = field(default_factory=NoBus)
    public: PublicUrl = PublicUrl()
    console_proxy: ConsoleProxy = ConsoleProxy()
    certificates: Callable[[], Sequence[Certificate]] = tuple
    """Reads the certificates that this process uses."""
    images_of: Callable[[str], Images] | None = None
    """Returns the image service as the user of a token; None: the handlers decide what images a user sees."""
    network_of: Callable[[str], Network] | None = None
    """Returns the network service as the user of a token; None: the cloud's own shows what each project sees."""
    grants: UserGrants = field(default_factory=NoGrantsNeeded)
    projects: Projects = field(default_factory=EveryProject)
    identity_url: str | None = None  # where clients get a token; None: on the same server

    @cached_property
    def failed_joins(self) -> Failures:
        """Count wrong secrets of hosts that join."""
        return Failures(OF_ADDRESS, self.cloud.clock, "secrets")
