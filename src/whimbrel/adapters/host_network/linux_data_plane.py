"""Makes the networks of this host: implements ports.hosts.data_plane.DataPlane.

Invariant: only what has our names is changed. A network that fails keeps no other from being made.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from whimbrel.adapters.host_network import names, taps
from whimbrel.adapters.host_network.commands import namespaces
from whimbrel.adapters.host_network.kernel_check import check_kernel
from whimbrel.adapters.host_network.metadata_server import Answer, MetadataServers, Serve
from whimbrel.adapters.host_network.network import ensure_network, remove_network
from whimbrel.adapters.host_network.router import ensure_router, remove_router
from whimbrel.domain.host_networks import HostNetwork, HostNetworks


class LinuxDataPlane:
    """directory: of the files of DHCP servers. answer: answers the metadata requests of guests, serve: serves them."""

    def __init__(self, directory: Path, answer: Answer, serve: Serve) -> None:
        self._network_files = directory / "networks"
        self._router_files = directory / "routers"
        self._metadata = MetadataServers(answer, serve)
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        await check_kernel()

    async def apply(self, state: HostNetworks) -> dict[str, str]:
        async with self._lock:
            failed: dict[str, str] = {}
            networks = {network.id: network for network in state.networks}
            for router_id in await _present(names.ROUTER_PREFIX) - {router.id for router in state.routers}:
                await _tried(partial(remove_router, router_id, self._router_files / router_id), router_id, failed)
            for network in state.networks:
                await _tried(partial(self._ensure, network, state), network.id, failed)
            for router in state.routers:
                await _tried(
                    partial(ensure_router, router, networks, self._router_files / router.id), router.id, failed
                )
            for network_id in await _present(names.NETWORK_PREFIX) - networks.keys():
                await _tried(partial(self._remove, network_id), network_id, failed)
            ports = [port.id for network in state.networks for port in network.ports]
            await _tried(partial(taps.remove_others, ports), "taps", failed)
            return failed

    async def close(self) -> None:
        """End the metadata servers, and nothing else."""
        await self._metadata.close()

    async def _ensure(self, network: HostNetwork, state: HostNetworks) -> None:
        await ensure_network(network, state, self._network_files / network.id)
        if network.dhcp_mac:
            await self._metadata.ensure(network, names.network_namespace(network.id))
        else:
            await self._metadata.remove(network.id)

    async def _remove(self, network_id: str) -> None:
        await self._metadata.remove(network_id)
        await remove_network(network_id, self._network_files / network_id)


async def _present(prefix: str) -> set[str]:
    """Return the networks, or the routers, that have a namespace here."""
    return {name.removeprefix(prefix) for name in await namespaces() if name.startswith(prefix)}


async def _tried(act: Callable[[], Awaitable[None]], what: str, failed: dict[str, str]) -> None:
    try:
        await act()
    except Exception as error:  # of whatever kind: the others have to be made
        failed[what] = str(error) or repr(error)
