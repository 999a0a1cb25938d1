"""Creates the embedded network service of a process: its store, its client, and the receiver of its events.

The cloud's own calls use the same protocol as all clients, to a separate application that is not mounted: there is one
network adapter, and nothing between it and the service that could fail.
"""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from whimbrel.adapters.openstack.administrators_view import AdministratorsView
from whimbrel.adapters.openstack.network import HttpNetwork
from whimbrel.adapters.openstack.server_events import HttpServerEvents
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.bootstrap.service_login import ServiceClients, ServiceLogin, inside
from whimbrel.embedded.network import network_app
from whimbrel.embedded.network.host_network_states import StoredNetworks
from whimbrel.embedded.network.initial_network import seed_network
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.embedded.nics import Nics
from whimbrel.ports.services.identity import Identity
from whimbrel.ports.services.network import Network

if TYPE_CHECKING:
    from whimbrel.bootstrap.external_services import ExternalServices

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class NetworkService:
    """The service in this process. client: its client for servers and moves."""

    client: Network
    events: HttpServerEvents
    store: SqlNetworks
    nics: Nics
    clock: Clock
    ids: IdSource

    @property
    def host_states(self) -> StoredNetworks:
        """Return the source of the networks that hosts make."""
        return StoredNetworks(self.store, self.nics, self.clock, self.ids)

    async def run(self) -> None:
        """Deliver events, until cancelled."""
        await self.events.run()

    def hear(self, compute: ASGIApp) -> None:
        """Send the events of ports to the compute API of this process. compute: an application that admits every
        request.
        """
        self.events.reach(inside(compute, "/v2.1"))

    def app(self, identity: Identity) -> ASGIApp:
        """Return the application to be mounted at /network."""
        return network_app(self.store, identity, self.clock, self.ids, self.nics, self.events)

    async def seed(self, project_id: str) -> None:
        """Ensure that the initial network of a new cloud exists."""
        await seed_network(self.store, self.clock, project_id, (await self.nics.all()).values())


def distant_network(external: "ExternalServices | None") -> HttpNetwork:
    """Return the client of the network service that others run."""
    assert external, "the settings have a Keystone"
    return HttpNetwork(AdministratorsView(external.service("network")))


async def network_service(
    nics: Nics, clients: ServiceClients, store: SqlNetworks, clock: Clock, ids: IdSource
) -> NetworkService:
    """Create the service. clients: of the compute API, for processes without one."""
    compute = await clients.service("compute", "/v2.1", TIMEOUT_S)
    events = HttpServerEvents(compute, clock, Random())
    app = network_app(store, ServiceLogin(), clock, ids, nics, events)
    return NetworkService(HttpNetwork(inside(app)), events, store, nics, clock, ids)
