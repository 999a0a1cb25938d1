"""Creates the NetworkKeepers of hosts of this process or machine, as their settings say."""

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Protocol

import structlog
from starlette.types import ASGIApp

from whimbrel.adapters.host_network.linux_data_plane import LinuxDataPlane
from whimbrel.agent.agent import HostAgent
from whimbrel.agent.network_keeper import NetworkKeeper
from whimbrel.bootstrap.http_server import serve
from whimbrel.domain.host_networks import HostNetworks
from whimbrel.domain.host_nics import GUEST_NICS
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.hosts.control_plane_service import NetworkStates
from whimbrel.hosts.guest_metadata import GuestMetadata
from whimbrel.ports.clock import Clock
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.control_plane import MetadataAnswer
from whimbrel.settings import LibvirtHost, SimulatedHost
from whimbrel.settings.sections import HttpTable

log = structlog.get_logger(__name__)

DIRECTORY: Final = Path("/run/whimbrel-networks")
"""The files of DHCP servers, which are made again after a boot."""

LIMITS: Final = HttpTable(connections=256, connections_per_peer=8, idle_timeout_s=10.0, body_timeout_s=10.0)
"""Of the metadata service of one network."""


class NetworkControl(Protocol):
    """The methods of ports.hosts.control_plane.ControlPlane that the networks of a host need."""

    async def network_state(self, host: HostName, known: str) -> HostNetworks | None: ...

    async def guest_metadata(
        self, host: HostName, server: ServerId, path: str, method: str = "GET", body: bytes = b""
    ) -> MetadataAnswer: ...


class LocalNetworkControl:
    """Implements NetworkControl for the hosts of the settings, in their own process."""

    def __init__(self, cloud: Cloud, states: NetworkStates) -> None:
        self._metadata = GuestMetadata(cloud)
        self._states = states

    async def network_state(self, host: HostName, known: str) -> HostNetworks | None:
        state = await self._states.state(host)
        return None if state.digest() == known else state

    async def guest_metadata(
        self, host: HostName, server: ServerId, path: str, method: str = "GET", body: bytes = b""
    ) -> MetadataAnswer:
        return await self._metadata.of_guest(host, server, path, method, body)


async def keeper_of(
    settings: LibvirtHost | SimulatedHost,
    agent: HostAgent,
    control: NetworkControl,
    clock: Clock,
    opened: AsyncExitStack,
) -> NetworkKeeper | None:
    """Return the NetworkKeeper of a host, to be run; None: its settings leave the networks to others.

    The agent uses it from now on. Raises: Refused: this machine cannot make networks.
    """
    if not isinstance(settings, LibvirtHost):
        return None
    if settings.guest_nics != "bridge":
        log.info("guests of this host have other networks", host=agent.host, networks=GUEST_NICS[settings.guest_nics])
        return None

    async def answer(server: ServerId, path: str, method: str, body: bytes) -> MetadataAnswer:
        return await control.guest_metadata(agent.host, server, path, method, body)

    plane = LinuxDataPlane(DIRECTORY / agent.host, answer, _serve)
    await plane.check()
    opened.push_async_callback(plane.close)
    keeper = NetworkKeeper(lambda known: control.network_state(agent.host, known), plane, clock)
    agent.networks = keeper
    return keeper


async def _serve(app: ASGIApp, endpoint: socket.socket, stop: asyncio.Event) -> None:
    await serve(app, endpoint, stop, lambda: None, LIMITS)
