"""Answers agents on other machines from the stores: it implements the port ControlPlane.

Invariant: a host whose key is not admitted changes nothing, and an agent whose session is not the newest neither.
"""

from typing import Protocol

from whimbrel.domain.errors import Conflict, NotFound, Refused, Superseded, Unavailable
from whimbrel.domain.host_description import HostDescription
from whimbrel.domain.host_networks import HostNetworks
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.domain.image_grant import ImageAccess
from whimbrel.hosts import description_check
from whimbrel.hosts.beats import Beats
from whimbrel.hosts.guest_metadata import GuestMetadata
from whimbrel.hosts.registrar import Registrar
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.control_plane import AgentHello, Beat, BeatAnswer, ImageGrant, MetadataAnswer, Welcome
from whimbrel.ports.stores.host_keys import HostKey
from whimbrel.ports.stores.hosts import AgentInfo


class Grants(Protocol):
    async def grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        """Return access to an image for a host. Raises: Refused: no open run needs it there; Unavailable."""


class NetworkStates(Protocol):
    async def state(self, host: HostName) -> HostNetworks:
        """Return the networks of a host, as they are to be there. Raises: Unavailable."""


class NoNetworks:
    """Implements NetworkStates for a cloud whose hosts make no networks."""

    async def state(self, host: HostName) -> HostNetworks:
        return HostNetworks()


class ControlPlaneService:
    """Implements ports.hosts.control_plane.ControlPlane."""

    def __init__(
        self, cloud: Cloud, registrar: Registrar, grants: Grants, networks: NetworkStates | None = None
    ) -> None:
        self._cloud = cloud
        self._registrar = registrar
        self._grants = grants
        self._networks = networks or NoNetworks()
        self._beats = Beats(cloud)
        self._metadata = GuestMetadata(cloud)
        self._cell_of: dict[HostName, CellName] = {}  # of hosts that have sent a heartbeat here

    async def register(self, host: HostName, hello: AgentHello) -> Welcome:
        cell = (await self._admitted(host)).cell
        await self._check(host, cell, hello.description)
        try:
            agent = AgentInfo(release=hello.release, verbs=hello.verbs)
            row = await self._registrar.begin_session(cell, agent, hello.description)
        except Conflict as race:  # with another registration
            raise Unavailable(race.reason) from None
        state = await self._cloud.restores.state()
        return Welcome(session=row.session, incarnation=state.incarnation)

    async def beat(self, host: HostName, beat: Beat) -> BeatAnswer:
        if host not in self._cell_of:
            self._cell_of[host] = (await self._admitted(host)).cell
        try:
            return await self._beats.answer(self._cell_of[host], host, beat)
        except Refused:
            self._cell_of.pop(host, None)  # it may have been retired, or have joined another cell
            raise

    async def describe(self, host: HostName, session: int, description: HostDescription) -> None:
        cell = (await self._admitted(host)).cell
        await self._check(host, cell, description)
        try:
            await self._registrar.describe(cell, session, description)
        except Superseded:
            raise
        except Conflict as race:
            raise Unavailable(race.reason) from None

    async def image_grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        await self._admitted(host)
        return await self._grants.grant(host, image_id, access)

    async def guest_metadata(
        self, host: HostName, server: ServerId, path: str, method: str = "GET", body: bytes = b""
    ) -> MetadataAnswer:
        await self._admitted(host)
        return await self._metadata.of_guest(host, server, path, method, body)

    async def network_state(self, host: HostName, known: str) -> HostNetworks | None:
        await self._admitted(host)
        state = await self._networks.state(host)
        return None if state.digest() == known else state

    async def _admitted(self, host: HostName) -> HostKey:
        """Raises: Refused: the host has no key, or has been retired."""
        try:
            key = await self._cloud.host_keys.get(host)
        except NotFound:
            raise Refused(f"host {host} has not joined: invite it with: whimbrel host invite {host}") from None
        if key.retired_at is not None:
            raise Refused(f"host {host} was retired: invite it again with: whimbrel host invite {host}")
        return key

    async def _check(self, host: HostName, cell: CellName, description: HostDescription) -> None:
        """Raises: Invalid: the description."""
        description_check.check(host, description, await self._cloud.cell_infos.get(cell))
