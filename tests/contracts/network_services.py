"""The network services of the contract suite: the simulated one, the embedded one over HTTP, a real Neutron.

For the real one see tests/openstack_services.py: its Neutron needs two hosts with live agents that plug what is bound.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from random import Random
from uuid import UUID, uuid4

import httpx
import pytest
from msgspec.structs import replace

from tests.api.network_service import HOSTS, Events, Tokens
from tests.given_nics import GivenNics
from tests.httpx_service import HttpxService
from tests.openstack_services import real_services
from whimbrel.adapters.openstack.network import HttpNetwork
from whimbrel.adapters.openstack.service_client import Service
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.domain.errors import Conflict
from whimbrel.domain.host_nics import AGENTS
from whimbrel.domain.ids import HostName, ProjectId, ServerId
from whimbrel.embedded.network import network_app
from whimbrel.ports.services.network import Network, NetworkInfo, NewPort, Port
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.network import SimulatedNetwork

NOWHERE = HostName("nowhere")
MISSING = "11111111-0000-4000-8000-000000000000"
OWNER = "compute:nova"
CIDR = "10.20.30.0/29"
PLUGGED_WITHIN_S = 60.0


@dataclass
class Around:
    """A network service, and a network of five addresses in it. Ids of projects and servers are of this test only."""

    network: Network
    id: str
    hosts: tuple[HostName, HostName]
    rng: Random
    route: Callable[[], Awaitable[dict[str, str]]]
    """Make its subnet be of a segment, by ids."""
    project: ProjectId
    other_project: ProjectId
    client: httpx.AsyncClient | None = None
    """What an administrator asks of the service, if it is reached over HTTP."""
    is_real: bool = False
    server: ServerId = field(init=False)
    other: ServerId = field(init=False)

    def __post_init__(self) -> None:
        self.server, self.other = self.new_server(), self.new_server()

    def new_server(self) -> ServerId:
        return ServerId(str(UUID(int=self.rng.getrandbits(128), version=4)))

    def requested(self, server: ServerId, **changes: object) -> NewPort:
        mac = "fa:16:3e:" + ":".join(f"{self.rng.randrange(256):02x}" for _ in range(3))
        new = NewPort(network_id=self.id, project_id=self.project, server=server, device_owner=OWNER, mac=mac)
        return replace(new, **changes)

    async def bound(self) -> Port:
        port = await self.network.create_port(self.requested(self.server))
        return await self.network.bind(port, self.hosts[0], {"pci_slot": "a"}, OWNER)

    async def rebound(self, port_id: str, host: HostName, profile: dict[str, object]) -> Port:
        """Bind a port as it is now: agents of a real service change it at any time."""
        for _ in range(20):
            try:
                return await self.network.bind(await self.network.port(port_id), host, profile, OWNER)
            except Conflict:
                assert self.is_real
        raise AssertionError(f"port {port_id} changes all the time")

    async def unbound(self, port_id: str, profile: dict[str, object]) -> None:
        for _ in range(20):
            try:
                return await self.network.unbind(await self.network.port(port_id), profile, OWNER)
            except Conflict:
                assert self.is_real
        raise AssertionError(f"port {port_id} changes all the time")

    async def plugged(self, port_id: str) -> Port:
        """Return a port once it is ACTIVE: agents of a real service look for new ports from time to time."""
        async with asyncio.timeout(PLUGGED_WITHIN_S):
            while (port := await self.network.port(port_id)).status != "ACTIVE":
                assert self.is_real, f"{port} is not plugged"
                await asyncio.sleep(0.2)
        return port


@asynccontextmanager
async def simulated() -> AsyncIterator[Around]:
    hosts = (HostName("h1"), HostName("h2"))
    network = SimulatedNetwork(SeededIds(1), hosts)
    project, other = ProjectId("1" * 32), ProjectId("2" * 32)
    info = NetworkInfo(id=MISSING[:-1] + "1", name="net", project_id=project, is_shared=False, subnets=("sub",))
    network.add_network(info, CIDR)

    async def route() -> dict[str, str]:
        network.add_segment(info.id, "sub", MISSING)
        return {"sub": MISSING}

    yield Around(network, info.id, hosts, Random(1), route, project, other)


@asynccontextmanager
async def over_http(
    client: httpx.AsyncClient, hosts: tuple[HostName, HostName], rng: Random, real_service: Service | None = None
) -> AsyncIterator[Around]:
    projects = [ProjectId(f"{rng.getrandbits(128):032x}") for _ in range(2)]
    made = await client.post("/v2.0/networks", json={"network": {"name": "net", "project_id": projects[0]}})
    network_id = made.raise_for_status().json()["network"]["id"]
    subnet = {"network_id": network_id, "project_id": projects[0], "cidr": CIDR, "ip_version": 4}
    assert ip_network(CIDR).num_addresses == 8

    async def route() -> dict[str, str]:
        segments = (await client.get("/v2.0/segments", params={"network_id": network_id})).json()["segments"]
        subnets = (await client.get("/v2.0/subnets", params={"network_id": network_id})).json()["subnets"]
        its, segment = subnets[0]["id"], segments[0]["id"]
        changed = await client.put(f"/v2.0/subnets/{its}", json={"subnet": {"segment_id": segment}})
        return {its: changed.raise_for_status().json()["subnet"]["segment_id"]}

    try:
        (await client.post("/v2.0/subnets", json={"subnet": subnet})).raise_for_status()
        network = HttpNetwork(real_service or HttpxService(client, "network"))
        yield Around(network, network_id, hosts, rng, route, *projects, client, real_service is not None)
    finally:
        for port in (await client.get("/v2.0/ports", params={"network_id": network_id})).json()["ports"]:
            await client.delete(f"/v2.0/ports/{port['id']}")
        await client.delete(f"/v2.0/networks/{network_id}")
        for project in projects:
            groups = await client.get("/v2.0/security-groups", params={"project_id": project})
            for group in groups.json()["security_groups"]:
                await client.delete(f"/v2.0/security-groups/{group['id']}")


@asynccontextmanager
async def embedded(url: str, schema: str) -> AsyncIterator[Around]:
    db = open_database(url, schema)
    try:
        if schema == "network":
            await create_all(db, "network")
        app = network_app(SqlNetworks(db), Tokens(), JumpingClock(), SeededIds(1), GivenNics(HOSTS), Events())
        headers = {"X-Auth-Token": "whimbrel"}
        async with (
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://network", headers=headers) as client,
            over_http(client, (HostName("h1"), HostName("h2")), Random(1)) as around,
        ):
            yield around
    finally:
        await db.close()


@asynccontextmanager
async def real() -> AsyncIterator[Around]:
    cloud = real_services().cloud("service")
    headers = {"X-Auth-Token": cloud.token}
    async with (
        httpx.AsyncClient(base_url=cloud.url("network"), headers=headers, timeout=60) as client,
        cloud.service("network") as service,
    ):
        agents = (await client.get("/v2.0/agents")).raise_for_status().json()["agents"]
        hosts = sorted({each["host"] for each in agents if each["alive"] and each["agent_type"] == AGENTS["normal"]})
        async with over_http(client, (HostName(hosts[0]), HostName(hosts[1])), Random(uuid4().int), service) as around:
            yield around


@pytest.fixture(
    params=["simulated", "embedded", "embedded, postgresql", pytest.param("real", marks=pytest.mark.openstack)]
)
async def around(request: pytest.FixtureRequest) -> AsyncIterator[Around]:
    kinds = {"simulated": simulated, "real": real, "embedded": lambda: embedded("sqlite://", "network")}
    service = kinds.get(request.param)
    if service is None:
        server = request.getfixturevalue("postgres")
        schema = await request.getfixturevalue("tables").empty("network")
        service = lambda: embedded(server.url, schema)  # noqa: E731
    async with service() as around:
        yield around
