"""Whatever is sent, it is never our bug: requests made up from the API's own OpenAPI document find no 5xx."""

import asyncio
from collections.abc import Iterator
from functools import cache
from zlib import crc32

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from tests.api.front import POLICY, PROJECT, Front, Tokens, mounted
from whimbrel.api.app import compute_app
from whimbrel.api.http.context import Context
from whimbrel.api.http.openapi import document
from whimbrel.api.routes import ROUTES
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import World

URL = "http://cloud:8774/compute/v2.1"
SCHEMA = schemathesis.openapi.from_dict(document(ROUTES))
OPERATIONS = {operation.label: operation for operation in (found.ok() for found in SCHEMA.get_all_operations())}

QUIET = settings(
    max_examples=6,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJGp3ThOBYOgXBMdMfBGfxgmrmCxWTnLHgdD6jd2JZnS me@home"
UNDECLARED = {405, 406}
"""What is answered to another method, and to another version: it stands beside all operations."""


class Standing:
    """A cloud with one of everything: a server that runs, one in VERIFY_RESIZE, one in error."""

    def __init__(self, world: World, known: dict[str, list[str]]) -> None:
        self.loop = asyncio.new_event_loop()
        self.known = known
        self.world = world
        self.engine = world.engine("api")
        context = Context(cloud=world.cloud, engine=self.engine, identity=Tokens(), policy=POLICY)
        transport = httpx.ASGITransport(mounted(compute_app(context)))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://cloud:8774")

    async def furnish(self) -> None:
        front = Front(self.world, self.engine, self.client)
        servers = [await front.boot(name) for name in ("runs", "resized", "broken")]
        await front.act(servers[1], {"resize": {"flavorRef": "2"}})
        await front.act(servers[2], {"os-resetState": {"state": "error"}}, who="admin")
        await front.settle()
        await front.ask("POST", f"/servers/{servers[0]}/metadata", {"metadata": {"k": "v"}})
        await front.ask("PUT", f"/servers/{servers[0]}/tags", {"tags": ["t"]})
        await front.ask("POST", "/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})
        await front.ask("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"k": "v"}}, who="admin")
        await front.ask("POST", "/os-aggregates", {"aggregate": {"name": "a"}}, who="admin")
        self.known = {
            "server_id": servers,
            "flavor_id": ["1"],
            "aggregate_id": ["1"],
            "project_id": [PROJECT],
            "name": ["k", "default"],
            "key": ["k"],
            "tag": ["t"],
            "hypervisor_id": [each["id"] for each in (await front.get("/os-hypervisors", who="admin"))["hypervisors"]],
            "service_id": [each["id"] for each in (await front.get("/os-services", who="admin"))["services"]],
            "move_id": [each["id"] for each in (await front.get("/whimbrel/moves", who="admin"))["moves"]],
            "request_id": [
                each["request_id"]
                for each in (await front.get(f"/servers/{servers[1]}/os-instance-actions"))["instanceActions"]
            ],
        }

    async def close(self) -> None:
        """Finish all open runs, and check all invariants."""
        await self.world.settle(self.engine)
        await Invariants(self.world).check()
        await self.client.aclose()
        await self.world.close()


@cache
def furnished() -> Standing:
    """Return the one of which each test has a copy."""
    standing = Standing(asyncio.run(World.build()), {})
    standing.loop.run_until_complete(standing.furnish())
    return standing


@pytest.fixture
def standing() -> Iterator[Standing]:
    first = furnished()
    standing = Standing(asyncio.run(first.world.copy()), first.known)
    yield standing
    standing.loop.run_until_complete(standing.close())
    standing.loop.close()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "unfitting"])
@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_nothing_that_is_sent_is_our_bug(standing: Standing, label: str, mode: GenerationMode) -> None:
    operation = OPERATIONS[label]
    declared = {int(code) for code in operation.definition.raw["responses"]} | UNDECLARED

    @QUIET
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: schemathesis.Case) -> None:
        lead_somewhere(case, standing.known)
        for who in ("member", "admin"):
            request = request_of(standing.client, case, who)
            if request is None:
                return
            answer = standing.loop.run_until_complete(standing.client.send(request))
            told = f"{who} {request.method} {request.url} {request.content!r}: {answer.status_code} {answer.text}"
            assert answer.status_code < 500, told
            assert answer.status_code in declared, told
            assert answer.status_code < 400 or is_a_fault(answer), told

    send()


def lead_somewhere(case: schemathesis.Case, known: dict[str, list[str]]) -> None:
    """Use existing ids in half of the requests."""
    number = crc32(repr((case.path_parameters, case.body, case.query)).encode("utf-8", "replace"))
    if number % 2:
        for name, values in known.items():
            if name in case.path_parameters:
                case.path_parameters[name] = values[number // 2 % len(values)]


def request_of(client: httpx.AsyncClient, case: schemathesis.Case, who: str) -> httpx.Request | None:
    """Make the request that a case means; None: no client can send it."""
    sent = case.as_transport_kwargs(base_url=URL)
    headers = {**(sent.get("headers") or {}), "X-Auth-Token": who}
    raw = {name: str(value).encode("utf-8", "replace") for name, value in headers.items()}
    try:
        return client.build_request(
            sent["method"], sent["url"], params=sent.get("params"), json=sent.get("json"), headers=raw
        )
    except (httpx.InvalidURL, UnicodeError):
        return None


def is_a_fault(answer: httpx.Response) -> bool:
    """Check whether it has Nova's shape; what does not begin with our path is not for us to answer."""
    if not answer.url.path.startswith("/compute/"):
        return True
    [fault] = answer.json().values()
    return bool(fault["code"] == answer.status_code and fault["message"])
