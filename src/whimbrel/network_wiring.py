"""Makes the embedded network service of a process: what it keeps, how it is reached, and whom it tells of ports.

Our own calls go through the same protocol as everybody's, to an application of our own that is mounted nowhere: there
is one network adapter, and nothing between it and the service that could fail.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random

import httpx
from starlette.types import ASGIApp

from whimbrel.adapters.openstack.identity import Login, OwnToken
from whimbrel.adapters.openstack.network import HttpNetwork
from whimbrel.adapters.openstack.server_events import HttpServerEvents
from whimbrel.adapters.openstack.service import HttpService, InnerService
from whimbrel.adapters.openstack.session import Session
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.datadir import DataDir
from whimbrel.domain.cards import HostNet
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.network import network_app
from whimbrel.embedded.network.reporter import report
from whimbrel.embedded.network.seed import seed_network
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.identity import Caller, Identity
from whimbrel.ports.network import Network
from whimbrel.ports.providers import ProviderTrees
from whimbrel.settings import CloudConfig

PATIENCE_S = 30.0
SERVICE_USER = "whimbrel"
SERVICE_PROJECT = "service"
OURSELVES = Caller(
    user_id=UserId(SERVICE_USER),
    user_name=SERVICE_USER,
    project_id=ProjectId(SERVICE_PROJECT),
    roles=frozenset({"admin", "service"}),
)


@dataclass(frozen=True)
class NetworkService:
    """The service in this process. client: it, as servers and moves use it."""

    client: Network
    events: HttpServerEvents
    store: SqlNetworks
    hosts: tuple[HostNet, ...]
    clock: Clock
    ids: IdSource

    def hear(self, compute: ASGIApp) -> None:
        """Have the compute API of this very process hear the news of ports. compute: lets in whoever asks."""
        self.events.reach(InnerService(compute, "/v2.1", {"X-Auth-Token": SERVICE_USER}))

    def app(self, identity: Identity) -> ASGIApp:
        """Give the application to be mounted at /network."""
        return network_app(self.store, identity, self.clock, self.ids, self.hosts, self.events)

    async def report(self, trees: ProviderTrees) -> None:
        """Have Placement know what the hosts' network cards can do."""
        await report(trees, self.hosts)

    async def seed(self, project_id: str) -> None:
        """Have the network that a new cloud starts with."""
        await seed_network(self.store, self.clock, project_id, self.hosts)


async def network_service(
    config: CloudConfig, data: DataDir, store: SqlNetworks, front_url: str, clock: Clock, ids: IdSource,
    closing: AsyncExitStack,
) -> NetworkService:  # fmt: skip
    """Make it. front_url: where the doors of the cloud are. closing: closes what it opens."""
    hosts = tuple(host.net for _, host in config.hosts())
    identity = await closing.enter_async_context(
        httpx.AsyncClient(base_url=f"{front_url}/identity", timeout=PATIENCE_S)
    )
    compute = await closing.enter_async_context(
        httpx.AsyncClient(
            base_url=f"{front_url}/compute/v2.1",
            timeout=PATIENCE_S,
            auth=Session(OwnToken(identity, login_of(data, front_url))),
        )
    )
    events = HttpServerEvents(HttpService(compute, "compute"), clock, Random())
    app = network_app(store, Ourselves(), clock, ids, hosts, events)
    own = InnerService(app, headers={"X-Auth-Token": SERVICE_USER})
    return NetworkService(HttpNetwork(own), events, store, hosts, clock, ids)


class Ourselves:
    """Fulfils ports.identity.Identity, where nobody else can come in: whoever asks is the cloud itself."""

    async def caller(self, token: str) -> Caller | None:
        return OURSELVES


def login_of(data: DataDir, front_url: str) -> Callable[[], Login]:
    """Say how the cloud's own user logs in: his password is there once the cloud was furnished."""

    def login() -> Login:
        password = data.passwords().get(SERVICE_USER)
        if password is None:
            raise Unavailable(f"there is no password of the user {SERVICE_USER} in {data.path}")
        domain = {"id": "default"}
        return Login(
            auth_url=f"{front_url}/identity",
            username=SERVICE_USER,
            password=password,
            project_name=SERVICE_PROJECT,
            user_domain=domain,
            project_domain=domain,
        )

    return login
