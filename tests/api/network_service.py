"""The embedded network service, and people who ask it: ann and bob, members of p1 and p2, and root, who may do all."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.given_nics import GivenNics
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.network import SqlNetworks
from whimbrel.domain.host_nics import HostNet, HostNic
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.network import network_app
from whimbrel.ports.services.identity import Principal, with_implied
from whimbrel.ports.services.server_events import ServerEvent
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.ids import SeededIds

PEOPLE = {
    "ann": ("p1", "member"),
    "bob": ("p2", "member"),
    "eve": ("p1", "reader"),
    "root": ("p0", "admin"),
    "whimbrel": ("services", "service"),
}
CARDS = (
    HostNic(name="ens5", physnet="physnet0", egress_kbps=10_000_000, ingress_kbps=10_000_000),
    HostNic(name="ens6", physnet="physnet1", egress_kbps=5_000_000, vnic_types=("direct",)),
)
HOSTS = (
    HostNet(host="h1", cards=CARDS),
    HostNet(host="h2", cards=CARDS),
    HostNet(host="bare"),
)
SERVER = "99999999-0000-4000-8000-000000000001"


class Tokens:
    """An identity service whose tokens are the names of people."""

    async def principal(self, token: str) -> Principal | None:
        if token not in PEOPLE:
            return None
        project, role = PEOPLE[token]
        return Principal(
            user_id=UserId(token), user_name=token, project_id=ProjectId(project), roles=with_implied([role])
        )


class Events(list[tuple[str, str, str]]):
    """Fulfils ports.server_events.ServerEvents: what was told, as (name, server, port)."""

    def tell(self, events: Sequence[ServerEvent]) -> None:
        self.extend((event.name, event.server_id, event.tag) for event in events)


class Service:
    def __init__(self, client: httpx.AsyncClient, events: Events) -> None:
        self.client = client
        self.events = events

    async def ask(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request below /network/v2.0."""
        sent = {"X-Auth-Token": who} | {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.request(method, f"/network/v2.0{path}", json=body, headers=sent)

    async def make(self, resource: str, who: str = "ann", **fields: Any) -> Any:
        """Make a thing and give its view."""
        answer = await self.ask(who, "POST", PATHS[resource], {resource: fields})
        assert answer.status_code == 201, answer.text
        return answer.json()[resource]

    async def get(self, path: str, who: str = "root") -> Any:
        answer = await self.ask(who, "GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def put(self, path: str, resource: str, who: str = "root", **fields: Any) -> Any:
        answer = await self.ask(who, "PUT", path, {resource: fields})
        assert answer.status_code == 200, answer.text
        return answer.json()[resource]

    async def net(self, cidr: str = "10.0.0.0/24", who: str = "ann", **fields: Any) -> Any:
        """Make a network with a subnet."""
        network = await self.make("network", who, name="net", **fields)
        await self.make("subnet", who, network_id=network["id"], cidr=cidr, ip_version=6 if ":" in cidr else 4)
        return network

    async def of_server(self, network_id: str, **fields: Any) -> Any:
        """Make a port of a server, as the compute service does."""
        return await self.make(
            "port",
            "root",
            project_id="p1",
            network_id=network_id,
            device_id=SERVER,
            device_owner="compute:nova",
            **fields,
        )


PATHS = {
    "network": "/networks",
    "subnet": "/subnets",
    "port": "/ports",
    "security_group": "/security-groups",
    "security_group_rule": "/security-group-rules",
    "policy": "/qos/policies",
    "segment": "/segments",
    "router": "/routers",
    "floatingip": "/floatingips",
}


@asynccontextmanager
async def opened(*, in_groups: bool = True) -> AsyncIterator[Service]:
    database = open_database("sqlite://", "network")
    await create_all(database, "network")
    events = Events()
    app = network_app(
        SqlNetworks(database), Tokens(), JumpingClock(), SeededIds(1), GivenNics(HOSTS), events, in_groups=in_groups
    )
    transport = httpx.ASGITransport(Starlette(routes=[Mount("/network", app)]))
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud", follow_redirects=True) as client:
        yield Service(client, events)
    await database.close()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with opened() as service:
        yield service


def refusal(answer: httpx.Response, status: int, name: str) -> str:
    """Check that an answer is an error of Neutron's shape; return its sentence."""
    assert answer.status_code == status, answer.text
    error = answer.json()["NeutronError"]
    assert set(error) == {"type", "message", "detail"}
    assert error["type"] == name, error
    message: str = error["message"]
    assert message
    return message
