"""Whatever is asked that cannot be: the right code in Nova's shape, and the world is as it was.

What single fields may be is tested beside each resource; here are roles, other people's servers, moments at which
something is not allowed, quotas, and the doors.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from tests.api.front import IMAGE, OTHER_PROJECT, PROJECT, Front, fault, opened
from whimbrel import settings
from whimbrel.api.http.call import Route
from whimbrel.api.http.policy import DEFAULTS
from whimbrel.api.routes import ROUTES
from whimbrel.bootstrap import apps, process_factory
from whimbrel.bootstrap.http_server import front as mounted
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.process_base import Start, prepare_stores
from whimbrel.bootstrap.registration import this_process
from whimbrel.bootstrap.roles import UP
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.identity.initial_accounts import bootstrap
from whimbrel.http.policy import Policy
from whimbrel.http.routes import OPEN
from whimbrel.moves import requests
from whimbrel.ports.services.identity import NewToken, User
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import delete
from whimbrel.settings.datadir import DataDir
from whimbrel.sim.checks.invariants import Invariants, books
from whimbrel.sim.cloud.cloud import LARGE

HUGE = 2**31 - 1
NOBODY = "99999999-9999-4999-8999-999999999999"
REQUESTED = {"name": "web", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}


async def world_of(front: Front) -> list[Any]:
    """Return everything that a refused request might have changed, after a look whether all invariants hold."""
    await Invariants(front.world).check()
    cloud = front.world.cloud
    return [
        await books(front.world),
        await cloud.journal.find(RunFilter()),
        [await cloud.journal.actions(server) for server in (await books(front.world))["servers"]],
        await cloud.flavors.all(),
        await cloud.aggregates.all(),
        await cloud.quotas.limits(PROJECT),
        [await cell.hosts.all() for cell in cloud.cells.values()],
    ]


# Who may


EVERYBODY_MAY = (None, "os_compute_api:extensions", "os_compute_api:limits", "os_compute_api:os-quota-sets:defaults")
EVERYBODY_MAY += ("os_compute_api:os-availability-zone:list", "os_compute_api:os-floating-ip-pools", OPEN)


def url(route: Route, server_id: str, run_id: str = "1") -> str:
    return route.path.format_map(_Names(server_id=server_id, project_id=PROJECT, move_id=run_id))


class _Names(dict[str, str]):
    """Names for the other things in paths."""

    def __missing__(self, key: str) -> str:
        return "1"


def fitting_body(route: Route, minor: int) -> Any:
    """Return a body that is right as far as whoever may not even ask is concerned."""
    if route.body is None and route.action is None:
        return None
    schema = route.body.at(minor) if route.body else None
    return _smallest(schema) if schema else {route.action: None}


def _smallest(schema: Mapping[str, Any]) -> Any:
    """Make a small value that a schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    for alternatives in ("anyOf", "oneOf"):
        if alternatives in schema:
            return _smallest(schema[alternatives][-1])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        known: dict[str, Any] = schema.get("properties", {})
        names = schema.get("required") or list(known)[: schema.get("minProperties", 0)]
        return {name: _smallest(known[name]) for name in names} or dict([("k", "v")][: schema.get("minProperties", 0)])
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 1), 1)
    if kind == "array":
        return [_smallest(schema["items"]) for _ in range(schema.get("minItems", 0))]
    samples = {"any-uuid": IMAGE, "uuid": IMAGE, "ipv4": "192.0.2.1", "ipv6": "2001:db8::1"}
    if schema.get("format") in samples:
        return samples[schema["format"]]
    return {"null": None, "boolean": True}.get(str(kind), "ab")


def asked(route: Route) -> str:
    return f"{route.method} {route.path} {route.action or ''} {route.since}"


async def knock(front: Front, route: Route, server_id: str, who: str) -> httpx.Response:
    """Ask it about a server and the run that made it, which are there."""
    minor = 104 if route.until is None else route.until
    run = (await front.world.cloud.journal.find(RunFilter()))[-1]
    body = fitting_body(route, minor)
    if route.path == "/whimbrel/plans":
        body["plan"]["server"] = server_id
    return await front.ask(route.method, url(route, server_id, run.id), body, who=who, minor=minor)


async def test_who_has_no_role_gets_nothing(front: Front) -> None:
    """Keypairs are their user's own, whatever his role; what everybody may read is read by him too."""
    server_id = await front.boot()
    before = await world_of(front)
    for route in ROUTES:
        if route.rule in EVERYBODY_MAY or route.path.startswith("/os-keypairs"):
            continue
        answer = await knock(front, route, server_id, "nobody")
        assert answer.status_code == 403, f"{asked(route)}: {answer.status_code} {answer.text}"
        fault(answer, "forbidden", 403)
    assert await world_of(front) == before


async def test_a_reader_changes_nothing(front: Front) -> None:
    server_id = await front.boot()
    before = await world_of(front)
    for route in ROUTES:
        if (
            route.method != "GET"
            and route.rule != OPEN
            and not (route.path.startswith("/os-keypairs") or route.refuses)
        ):
            fault(await knock(front, route, server_id, "reader"), "forbidden", 403)
    assert await world_of(front) == before


@pytest.mark.parametrize("who", ["reader", "member", "manager"])
async def test_another_projects_server_is_not_there_whatever_is_asked(front: Front, who: str) -> None:
    server_id = await front.boot()
    before = await world_of(front)
    paths = [route for route in ROUTES if route.path.startswith("/servers/{server_id}") and not route.refuses]
    assert len(paths) > 30
    for route in paths:
        answer = await knock(front, route, server_id, f"{who}@{OTHER_PROJECT}")
        sentence = fault(answer, "itemNotFound", 404)
        nothing = await knock(front, route, NOBODY, f"{who}@{OTHER_PROJECT}")
        assert fault(nothing, "itemNotFound", 404) == sentence.replace(server_id, NOBODY), "it tells that it is there"
    for path in ("/servers", "/servers/detail", "/os-migrations"):
        answer = await front.ask("GET", path, who=f"manager@{OTHER_PROJECT}")
        assert server_id not in answer.text
    assert await world_of(front) == before


async def test_what_only_administrators_may(front: Front) -> None:
    server_id = await front.boot()
    before = await world_of(front)
    for method, path, body in (
        ("POST", "/flavors", {"flavor": {"name": "f", "vcpus": 1, "ram": 1, "disk": 1}}),
        ("DELETE", "/flavors/1", None),
        ("PUT", f"/os-quota-sets/{PROJECT}", {"quota_set": {"cores": 1}}),
        ("POST", "/os-aggregates", {"aggregate": {"name": "a"}}),
        ("GET", "/os-hypervisors", None),
        ("GET", "/os-services", None),
        ("GET", "/servers?all_tenants=1", None),
        ("POST", "/servers", {"server": {**REQUESTED, "host": "h1"}}),
        ("POST", f"/servers/{server_id}/action", {"os-resetState": {"state": "error"}}),
        ("POST", f"/servers/{server_id}/action", {"migrate": {"host": "h2"}}),
        ("GET", "/whimbrel/moves", None),
    ):
        for who in ("reader", "member", "manager"):
            fault(await front.ask(method, path, body, who=who), "forbidden", 403)
    assert await world_of(front) == before


def policy(directory: Path, text: str) -> Policy:
    (directory / "policy.yaml").write_text(text)
    return Policy.load(DEFAULTS, directory / "policy.yaml")


async def test_an_operators_policy_is_obeyed(tmp_path: Path) -> None:
    own = policy(
        tmp_path,
        "os_compute_api:servers:resize: '!'\n"
        "os_compute_api:os-migrate-server:migrate: rule:project_member_or_admin\n"
        "os_compute_api:os-hypervisors:list: role:reader\n",
    )

    async with opened(policy=own) as front:
        server_id = await front.boot()
        before = await world_of(front)
        for who in ("member", "admin"):
            fault(await front.act(server_id, {"resize": {"flavorRef": "2"}}, who=who), "forbidden", 403)
        assert await world_of(front) == before
        assert (await front.act(server_id, {"migrate": None})).status_code == 202
        assert (await front.ask("GET", "/os-hypervisors", who="reader")).status_code == 200
        fault(await front.ask("GET", "/os-hypervisors/detail", who="reader"), "forbidden", 403)


# When it may be


MOMENTS = ("idle", "resizing", "waiting", "confirming", "reverting")
ACTIONS: Mapping[str, Any] = {
    "resize": {"resize": {"flavorRef": "2"}},
    "migrate": {"migrate": None},
    "confirmResize": {"confirmResize": None},
    "revertResize": {"revertResize": None},
    "os-stop": {"os-stop": None},
    "os-start": {"os-start": None},
    "reboot": {"reboot": {"type": "HARD"}},
    "createImage": {"createImage": {"name": "picture"}},
}
ALLOWED = {
    "idle": {"resize", "migrate", "os-stop", "reboot", "createImage"},
    "resizing": set(),
    "waiting": {"confirmResize", "revertResize"},
    "confirming": {"confirmResize"},
    "reverting": {"revertResize"},
}


async def bring_to(front: Front, moment: str) -> str:
    """Return a server at a moment of its move; its conductor has just died."""
    server_id = await front.boot(who="admin", host="h1")
    if moment == "idle":
        return server_id
    assert (await front.act(server_id, ACTIONS["resize"])).status_code == 202
    if moment == "resizing":
        return server_id
    await front.settle()
    if moment != "waiting":
        verdict = "confirmResize" if moment == "confirming" else "revertResize"
        assert (await front.act(server_id, ACTIONS[verdict])).is_success
    return server_id


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_is_not_allowed_at_a_moment_is_409_and_changes_nothing(front: Front, moment: str) -> None:
    server_id = await bring_to(front, moment)
    before = await world_of(front)
    shown = await front.show(server_id)
    for name, body in ACTIONS.items():
        if name not in ALLOWED[moment]:
            fault(await front.act(server_id, body, who="admin"), "conflictingRequest", 409)
    assert await world_of(front) == before
    assert await front.show(server_id) == shown
    await front.settle()
    await Invariants(front.world).check()


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_server_is_deleted_at_any_moment(front: Front, moment: str) -> None:
    server_id = await bring_to(front, moment)
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await front.settle()
    await delete.follow_up(front.world.cloud, front.engine)
    await front.settle()
    fault(await front.ask("GET", f"/servers/{server_id}"), "itemNotFound", 404)
    after = await books(front.world)
    assert (after["servers"], after["claims"], after["guests"]) == ({}, [], [])
    assert (await front.get("/limits"))["limits"]["absolute"]["totalInstancesUsed"] == 0


async def test_a_server_is_deleted_whose_resize_was_begun_and_driven_by_nobody(front: Front) -> None:
    """Between the lock and the first step that is recorded: the process that adopted the move died."""
    server_id = await front.boot()
    world, idle = front.world, Engine(replace(front.engine.parts, adopt=lambda run: True))
    await requests.resize(world.cloud, idle, world.requester(), await lookup.find(world.cloud, server_id), LARGE)
    assert (await front.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    await front.settle()
    await delete.follow_up(front.world.cloud, front.engine)
    await front.settle()
    fault(await front.ask("GET", f"/servers/{server_id}"), "itemNotFound", 404)


# Sizes


async def test_the_largest_flavor_of_all_fits_nowhere(front: Front) -> None:
    largest = {"vcpus": HUGE, "ram": HUGE, "disk": HUGE, "swap": HUGE, "OS-FLV-EXT-DATA:ephemeral": HUGE}
    answer = await front.ask("POST", "/flavors", {"flavor": {"name": "all", "id": "all", **largest}}, who="admin")
    assert answer.status_code == 200
    server_id = await front.boot()
    before = await world_of(front)
    fault(await front.ask("POST", "/servers", {"server": {**REQUESTED, "flavorRef": "all"}}), "forbidden", 403)
    fault(await front.act(server_id, {"resize": {"flavorRef": "all"}}), "forbidden", 403)
    assert await world_of(front) == before

    without = {"quota_set": {"instances": -1, "cores": -1, "ram": -1}}
    assert (await front.ask("PUT", f"/os-quota-sets/{PROJECT}", without, who="admin")).status_code == 200
    before_books = await books(front.world)
    assert (await front.act(server_id, {"resize": {"flavorRef": "all"}})).status_code == 202
    await front.settle()
    assert await books(front.world) == before_books
    made = [await front.boot("all", flavorRef="all") for _ in range(2)]
    for each in made:
        server = await front.show(each)
        assert (server["status"], "No valid host" in server["fault"]["message"]) == ("ERROR", True)
    used = (await front.get("/limits"))["limits"]["absolute"]
    assert used["totalCoresUsed"] == 2 * HUGE + 1
    await Invariants(front.world).check()
    for each in made:
        assert (await front.ask("DELETE", f"/servers/{each}")).status_code == 204
    await front.settle()
    assert await books(front.world) == before_books


LONG = "x" * 256


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/servers/{id}", {"server": {"name": LONG}}),
        ("PUT", "/servers/{id}", {"server": {"description": LONG}}),
        ("PUT", "/servers/{id}", {"server": {"hostname": LONG}}),
        ("POST", "/servers/{id}/metadata", {"metadata": {LONG: "v"}}),
        ("POST", "/servers/{id}/metadata", {"metadata": {"k": LONG}}),
        ("PUT", "/servers/{id}/tags", {"tags": [LONG]}),
        ("POST", "/servers/{id}/action", {"createImage": {"name": LONG}}),
        ("POST", "/servers/{id}/action", {"createImage": {"name": "n", "metadata": {"k": LONG}}}),
        ("POST", "/servers/{id}/action", {"lock": {"locked_reason": LONG}}),
        ("POST", "/servers/{id}/action", {"resize": {"flavorRef": LONG}}),
        ("POST", "/servers/{id}/action", {"migrate": {"host": LONG}}),
        ("POST", "/flavors", {"flavor": {"name": LONG, "vcpus": 1, "ram": 1, "disk": 1}}),
        ("POST", "/flavors/1/os-extra_specs", {"extra_specs": {LONG: "v"}}),
        ("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"k": LONG}}),
        ("POST", "/flavors/1/action", {"addTenantAccess": {"tenant": LONG}}),
        ("POST", "/os-aggregates", {"aggregate": {"name": LONG}}),
        ("POST", "/os-aggregates", {"aggregate": {"name": "a", "availability_zone": LONG}}),
        ("POST", "/os-keypairs", {"keypair": {"name": LONG, "public_key": "k"}}),
        ("PUT", f"/os-quota-sets/{LONG}", {"quota_set": {"cores": 1}}),
    ],
)
async def test_256_characters_are_one_too_many(front: Front, method: str, path: str, body: Any) -> None:
    server_id = await front.boot()
    before = await world_of(front)
    fault(await front.ask(method, path.format(id=server_id), body, who="admin"), "badRequest", 400)
    assert await world_of(front) == before


UNREAL = (
    None,
    True,
    0,
    -1,
    1.5,
    HUGE + 1,
    10**30,
    [],
    {},
    [[]],
    {"id": "1"},
    "",
    " ",
    "\u0000",
    "\ud7ff" * 5,
    "1/../x",
)


@pytest.mark.parametrize("unreal", UNREAL, ids=ascii)
async def test_a_flavor_and_an_image_are_named_by_a_text_that_names_one(front: Front, unreal: Any) -> None:
    server_id = await front.boot()
    before = await world_of(front)
    for body in ({"flavorRef": unreal}, {"imageRef": unreal}):
        fault(await front.ask("POST", "/servers", {"server": REQUESTED | body}), "badRequest", 400)
    fault(await front.act(server_id, {"resize": {"flavorRef": unreal}}), "badRequest", 400)
    assert await world_of(front) == before


# Quotas


async def test_a_server_counts_once_also_while_it_moves(front: Front) -> None:
    async def used() -> tuple[int, int, int]:
        absolute = (await front.get("/limits"))["limits"]["absolute"]
        return absolute["totalInstancesUsed"], absolute["totalCoresUsed"], absolute["totalRAMUsed"]

    small, large = (1, 1, 512), (1, 2, 1024)
    server_id = await front.boot()
    assert await used() == small
    for verdict, then in (("revertResize", small), ("confirmResize", large)):
        await front.act(server_id, ACTIONS["resize"])
        assert await used() == large
        await front.settle()
        assert await used() == large
        await front.act(server_id, ACTIONS[verdict])
        await front.settle()
        assert await used() == then
    await front.act(server_id, ACTIONS["migrate"], who="admin")
    await front.settle()
    assert await used() == large


@pytest.mark.parametrize(("limit", "most"), [("instances", 2), ("cores", 2), ("ram", 1024)])
async def test_a_quota_that_is_used_up_refuses_all_of_a_request(front: Front, limit: str, most: int) -> None:
    server_id = await front.boot()
    two = {"server": {**REQUESTED, "min_count": 2}}
    await front.world.cloud.quotas.set_limits(PROJECT, {limit: most})
    before = await world_of(front)
    fault(await front.ask("POST", "/servers", two), "forbidden", 403)
    assert await world_of(front) == before

    await front.world.cloud.quotas.set_limits(PROJECT, {limit: most - 1})
    before = await world_of(front)
    assert limit in fault(await front.ask("POST", "/servers", {"server": REQUESTED}), "forbidden", 403)
    if limit != "instances":
        assert limit in fault(await front.act(server_id, ACTIONS["resize"]), "forbidden", 403)
    assert await world_of(front) == before

    await front.world.cloud.quotas.set_limits(PROJECT, {limit: most})
    await front.boot("two")


async def test_nobody_makes_servers_at_once_beyond_a_quota(front: Front) -> None:
    await front.world.cloud.quotas.set_limits(PROJECT, {"instances": 3})
    answers = await asyncio.gather(*(front.ask("POST", "/servers", {"server": REQUESTED}) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [202] * 3 + [403] * 5
    await front.settle()
    await Invariants(front.world).check()


# The doors of a whole process


@asynccontextmanager
async def whole(tmp_path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Process]]:
    home = DataDir(tmp_path)
    home.make()
    config = settings.load(None)
    prepare_stores(home.database_url)
    record = this_process("up", "main", "here", "lock")
    role = replace(UP, has_conductor=False)
    process = await process_factory.open_process(Start(role, config, home.database_url, record, home, "http://cloud"))
    await bootstrap(process.accounts, process.cloud.ids)
    app = mounted(apps.endpoints(process, home, None))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://cloud") as client:
        yield client, process
    await process.close()


async def token(process: Process, lifetime_s: float) -> str:
    [admin] = await process.accounts.records(User, name="admin", domain_id="default")
    text = f"good for {lifetime_s} s"
    await process.accounts.issue(
        NewToken(
            text=text,
            user_id=UserId(admin.id),
            project_id=ProjectId(admin.default_project_id or ""),
            methods=["password"],
            audit_ids=["a"],
            expires_at=process.cloud.clock.now() + lifetime_s,
        )
    )
    return text


APPS = {
    "/compute/v2.1/servers": "unauthorized",
    "/placement/resource_providers": "errors",
    "/image/v2/images": "code",
    "/identity/v3/projects": "error",
}


async def test_a_token_opens_every_app_until_it_expires(tmp_path: Path) -> None:
    async with whole(tmp_path) as (client, process):
        for lifetime_s, code in ((60.0, 200), (-1.0, 401)):
            headers = {"X-Auth-Token": await token(process, lifetime_s), "Accept": "application/json"}
            for path, key in APPS.items():
                answer = await client.get(path, headers=headers)
                assert answer.status_code == code, (path, answer.text)
                assert code == 200 or key in answer.json()


async def test_no_app_reads_ten_megabytes(tmp_path: Path) -> None:
    async with whole(tmp_path) as (client, process):
        headers = {"X-Auth-Token": await token(process, 60.0), "Content-Type": "application/json"}
        headers["OpenStack-API-Version"] = "placement 1.39"
        for path in (*APPS, "/identity/v3/auth/tokens"):
            answer = await client.post(path, content=b'"' + b"x" * 10_000_000 + b'"', headers=headers)
            assert answer.status_code == 413, (path, answer.text)
