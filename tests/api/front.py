"""A whole cloud behind its compute API, for tests: real stores in memory, simulated hosts, the application itself."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.older_agents import make_agent_old
from whimbrel.api.app import compute_app
from whimbrel.api.http.context import Context
from whimbrel.api.http.policy import DEFAULTS
from whimbrel.domain.guest import Guest, GuestKey
from whimbrel.domain.ids import HostName, ProjectId, ServerId, Slot, UserId
from whimbrel.http.policy import Policy
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.identity import Principal, with_implied
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import IMAGE, PROJECT, USER, World
from whimbrel.sim.world.phases import Times

OTHER_PROJECT = ProjectId("44444444444444444444444444444444")


class Tokens:
    """An identity service whose tokens say who holds them: role, role@project, or role@system."""

    async def principal(self, token: str) -> Principal | None:
        role, _, project = token.partition("@")
        if role not in ("reader", "member", "manager", "admin", "service", "nobody"):
            return None
        system = project == "system"
        return Principal(
            user_id=USER if role != "admin" else UserId("admin"),
            user_name=role,
            project_id=ProjectId("" if system else project or PROJECT),
            roles=with_implied([role]) if role != "nobody" else frozenset(),
            system_scope="all" if system else "",
        )


class Front:
    """A cloud and somebody who asks it. `latest` unless a request says otherwise."""

    def __init__(self, world: World, engine: Engine, client: httpx.AsyncClient) -> None:
        self.world = world
        self.engine = engine
        self._client = client

    async def ask(
        self, method: str, path: str, json: Any = None, *, who: str = "member", minor: int | None = 104, **more: Any
    ) -> httpx.Response:
        """Send a request below /compute/v2.1; minor None: without a version."""
        headers = {"X-Auth-Token": who} | ({"OpenStack-API-Version": f"compute 2.{minor}"} if minor else {})
        headers |= more.pop("headers", {})
        return await self._client.request(method, f"/compute/v2.1{path}", json=json, headers=headers, **more)

    async def get(self, path: str, **more: Any) -> Any:
        """Get a body. Fails where the answer is not 200."""
        answer = await self.ask("GET", path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def raw(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request as it is."""
        return await self._client.request(method, path, **more)

    async def boot(self, name: str = "one", *, settle: bool = True, minor: int = 104, **requested: Any) -> str:
        """Create a server and give its id."""
        who = requested.pop("who", "member")
        server = {"name": name, "flavorRef": "1", "imageRef": IMAGE, "networks": "none", **requested}
        answer = await self.ask("POST", "/servers", {"server": server}, who=who, minor=minor)
        assert answer.status_code == 202, answer.text
        if settle:
            await self.settle()
        server_id: str = answer.json()["server"]["id"]
        return server_id

    async def act(self, server_id: str, action: Mapping[str, Any], **more: Any) -> httpx.Response:
        return await self.ask("POST", f"/servers/{server_id}/action", dict(action), **more)

    async def show(self, server_id: str, **more: Any) -> Any:
        return (await self.get(f"/servers/{server_id}", **more))["server"]

    async def settle(self) -> None:
        await self.world.settle(self.engine)

    async def guest(self, server_id: str) -> Guest:
        """Return a server's guest, as its host tells."""
        record = await lookup.find(self.world.cloud, ServerId(server_id))
        assert record.cell
        agent = self.world.cloud.agent(record.cell, HostName(record.host or ""))
        guest = await agent.look(GuestKey(record.id, Slot(record.slot or "")))
        assert guest
        return guest

    async def make_its_agent_old(self, server_id: str) -> None:
        """Register an agent of release 0.1.9 on a server's host: it has no verb but that which attaches volumes."""
        record = await lookup.find(self.world.cloud, ServerId(server_id))
        await make_agent_old(self.world.cloud, record, "attach_volume")


def fault(answer: httpx.Response, name: str, code: int) -> str:
    """Check that an answer is an error of Nova's shape; return its sentence."""
    assert answer.status_code == code, answer.text
    body = answer.json()
    assert list(body) == [name]
    assert body[name]["code"] == code
    message: str = body[name]["message"]
    assert message
    return message


@pytest.fixture
async def front(request: pytest.FixtureRequest) -> AsyncIterator[Front]:
    """A new cloud behind its compute API; @pytest.mark.cloud(...) passes arguments to `opened`."""
    mark = request.node.get_closest_marker("cloud")
    async with opened(*mark.args, **mark.kwargs) if mark else opened() as front:
        yield front


@asynccontextmanager
async def opened(
    rules: Rules | None = None,
    policy: Policy | None = None,
    cells: Mapping[str, Sequence[str]] | None = None,
    max_limit: int = 1000,
    times: Times | None = None,
    cpu_infos: Mapping[str, str] | None = None,
    ports: Mapping[str, Any] | None = None,
    **more: Any,
) -> AsyncIterator[Front]:
    """Open a cloud under these rules and this policy, with these cells and their hosts. more: fields of Context.

    ports: fields of the cloud, instead of the simulated ones.
    """
    world = await World.build(rules=rules, cells=cells, times=times, cpu_infos=cpu_infos)
    world.cloud = replace(world.cloud, **(ports or {}))
    engine = world.engine("api")
    of = {"policy": policy or POLICY, "max_limit": max_limit, **more}
    context = Context(cloud=world.cloud, engine=engine, identity=Tokens(), **of)
    transport = httpx.ASGITransport(mounted(compute_app(context)))
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud:8774") as client:
        yield Front(world, engine, client)
    await world.close()


def mounted(app: Any) -> Any:
    from whimbrel.bootstrap.http_server import front

    return front({"compute": app})


POLICY = Policy.load(DEFAULTS)
