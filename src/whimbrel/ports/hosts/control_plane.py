"""The control plane as an agent on another machine sees it.

An agent has no database. It registers its host when it starts, which gives it a session, and sends a heartbeat from
time to time. Orders reach it under its session only, so an agent whose session is not the newest hears nothing; the
answer to its next heartbeat tells it, and it ends.
Raises, in all methods: Unavailable: no answer; it may have happened. Refused: the host's key is not admitted.
"""

from typing import Protocol

import msgspec

from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_networks import HostNetworks
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.image_grant import ImageAccess

BEAT_S = 5.0
"""The interval of heartbeats."""

ANSWERED_WITHIN_S = 10.0
"""How long an agent waits for the answer to a heartbeat. The bus may have given it to a process that is stopped: some
such heartbeats in a row must not let the host count as down, nor end the lease of one that fences itself."""

SHORTEST_LEASE_S = 2 * (BEAT_S + ANSWERED_WITHIN_S)
"""A shorter lease of such a host would be over after one heartbeat whose answer is lost."""


class AgentHello(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent says when it starts."""

    release: str  # of Whimbrel
    verbs: dict[str, tuple[str, ...]]  # verb -> the names of its arguments
    description: HostDescription


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    session: int  # higher than those of all earlier agents of this host
    incarnation: int  # of the cloud; the agent refuses orders of lower ones


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    session: int
    digest: str  # of the host's description
    answers: bool  # whether the hypervisor answers
    metrics: dict[str, float] = {}  # the host's load by Nova's names


class BeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    session: int  # the newest of this host; a higher one than the agent's own: another agent has replaced it
    describe: bool = False  # the stored description has another hash: send it


class ImageGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Access to one image for a short time."""

    url: str  # of the image service
    token: str  # for X-Auth-Token
    expires_at: float  # seconds since 1970


class MetadataAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a guest's request for its metadata, as HTTP."""

    status: int
    content_type: str = "text/plain"
    body: bytes = b""
    retry_after_s: int = 0  # when the guest may ask again; 0: it is not said


class ControlPlane(Protocol):
    async def register(self, host: HostName, hello: AgentHello) -> Welcome:
        """Register a host and begin a new session of its agent; the sessions before it end."""

    async def beat(self, host: HostName, beat: Beat) -> BeatAnswer:
        """Record a heartbeat. A row is written only if something that is stored has changed, or is old."""

    async def describe(self, host: HostName, session: int, description: HostDescription) -> None:
        """Replace the stored description. Raises: Superseded: the session is not the newest."""

    async def image_grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        """Return access to an image that an open run of a server on this host needs. Raises: Refused: none does."""

    async def guest_metadata(
        self, host: HostName, server: ServerId, path: str, method: str = "GET", body: bytes = b""
    ) -> MetadataAnswer:
        """Answer a request of a guest on this host to the metadata service; no such path or method is an answer too.

        Raises: Refused: the server is not on this host, and no run brings it there.
        """

    async def network_state(self, host: HostName, known: str) -> HostNetworks | None:
        """Return the networks of a host, as they are to be there. known: a digest; None: it has not changed."""
