"""A cloud changes from OpenStack Placement to `whimbrel placement` and back: all answers stay the same.

OpenStack Placement is the real program; tests/real_placement.py says where it is found.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import real_placement
from tests.api.placement_client import Client, application
from tests.contracts.databases import own_postgres, postgres
from tests.live.test_placement_process import whimbrel
from tests.real_placement import RealPlacement
from whimbrel.adapters.sql.engine.databases import open_database

__all__ = ["own_postgres", "postgres"]  # fixtures

HOSTS = [f"11111111-0000-4000-8000-00000000000{number}" for number in range(1, 5)]
POOL = "11111111-0000-4000-8000-0000000000aa"
NICS = [f"22222222-0000-4000-8000-00000000000{number}" for number in range(1, 5)]
ZONES = [f"33333333-0000-4000-8000-00000000000{number}" for number in range(1, 3)]
SERVERS = [f"44444444-0000-4000-8000-00000000000{number}" for number in range(1, 7)]
PROJECTS = ["7b0c2c8c1d0e4c0e8d5a1f2e3d4c5b6a", "own"]

QUERIES = [
    "resources=VCPU:1,MEMORY_MB:512,DISK_GB:5",
    "resources=VCPU:1,MEMORY_MB:512&required=HW_CPU_X86_AVX2,!CUSTOM_GOLD",
    "resources=VCPU:1&required=in:CUSTOM_GOLD,HW_CPU_X86_VMX&member_of=in:" + ",".join(ZONES),
    "resources=VCPU:1&member_of=!" + ZONES[0],
    "resources=VCPU:1&resources_NET=NET_BW_EGR_KILOBIT_PER_SEC:1000,CUSTOM_PORT:1&required_NET=CUSTOM_PHYSNET_0"
    "&group_policy=none",
    "resources=VCPU:1&resources_A=CUSTOM_PORT:1&resources_B=CUSTOM_PORT:1&group_policy=isolate",
    "resources=VCPU:1&in_tree=" + HOSTS[1],
    "resources=VCPU:7",
    "resources=DISK_GB:895",
    "resources=MEMORY_MB:100000",
]
"""Candidates are compared for each of these."""


async def fill(client: Client) -> None:
    """Make a cloud: hosts with a device each, one shared pool of disks, servers, and a move."""
    for name in ("CUSTOM_GOLD", "CUSTOM_PHYSNET_0", "CUSTOM_UNUSED"):
        await client.done("PUT", f"/traits/{name}")
    for name in ("CUSTOM_PORT", "CUSTOM_EMPTY"):
        await client.done("PUT", f"/resource_classes/{name}")
    for number, (host, nic) in enumerate(zip(HOSTS, NICS, strict=True)):
        await client.done("POST", "/resource_providers", {"uuid": host, "name": f"host {number} ü"})
        await client.done(
            "POST", "/resource_providers", {"uuid": nic, "name": f"nic {number}", "parent_provider_uuid": host}
        )
        cpus = {"total": 4, "reserved": number % 2, "allocation_ratio": 1.7, "max_unit": 8}
        memory = {"total": 8192, "reserved": 512, "min_unit": 16, "step_size": 16, "allocation_ratio": 1.0}
        disk = {} if number == 3 else {"DISK_GB": {"total": 1000, "allocation_ratio": 0.9}}
        await put(client, host, "inventories", {"inventories": {"VCPU": cpus, "MEMORY_MB": memory, **disk}})
        ports = {"CUSTOM_PORT": {"total": 3}, "NET_BW_EGR_KILOBIT_PER_SEC": {"total": 10_000}}
        await put(client, nic, "inventories", {"inventories": ports})
        await put(client, host, "traits", {"traits": ["HW_CPU_X86_AVX2", *(["CUSTOM_GOLD"] if number == 1 else [])]})
        await put(client, nic, "traits", {"traits": ["CUSTOM_PHYSNET_0"]})
        await put(client, host, "aggregates", {"aggregates": [ZONES[number % 2]]})
    await client.done("POST", "/resource_providers", {"uuid": POOL, "name": "shared pool"})
    await put(client, POOL, "inventories", {"inventories": {"DISK_GB": {"total": 2000}}})
    await put(client, POOL, "traits", {"traits": ["MISC_SHARES_VIA_AGGREGATE"]})
    await put(client, POOL, "aggregates", {"aggregates": [ZONES[1]]})
    await claim(client, SERVERS[0], {HOSTS[0]: {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}})
    await claim(client, SERVERS[1], {HOSTS[3]: {"VCPU": 1, "MEMORY_MB": 512}, POOL: {"DISK_GB": 20}})
    await claim(client, SERVERS[2], {HOSTS[1]: {"VCPU": 1}, NICS[1]: {"CUSTOM_PORT": 1}}, project=PROJECTS[1])
    await claim(client, SERVERS[3], {HOSTS[0]: {"VCPU": 1, "MEMORY_MB": 512}}, kind="MIGRATION")
    await claim(client, SERVERS[2], {HOSTS[1]: {"VCPU": 2}, NICS[1]: {"CUSTOM_PORT": 2}}, project=PROJECTS[1])
    old = {"allocations": [{"resource_provider": {"uuid": HOSTS[2]}, "resources": {"VCPU": 1}}]}
    await client.done("PUT", f"/allocations/{SERVERS[4]}", {**old, "project_id": "own", "user_id": "old"}, at=10)


async def change(client: Client) -> None:
    """Do what a running Nova does: it knows the generations of before."""
    await claim(client, SERVERS[0], {HOSTS[1]: {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}})
    await claim(client, SERVERS[5], {HOSTS[2]: {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}})
    await client.done("DELETE", f"/allocations/{SERVERS[3]}")
    await put(client, HOSTS[0], "traits", {"traits": ["HW_CPU_X86_AVX2", "COMPUTE_STATUS_DISABLED"]})
    await put(client, HOSTS[3], "inventories", {"inventories": {"VCPU": {"total": 6}, "MEMORY_MB": {"total": 4096}}})
    await client.done("PUT", "/resource_classes/CUSTOM_LATER")
    await client.done("DELETE", "/traits/CUSTOM_UNUSED")


async def put(client: Client, provider: str, what: str, body: dict[str, Any]) -> None:
    generation = (await client.get(f"/resource_providers/{provider}"))["generation"]
    body = {"resource_provider_generation": generation, **body}
    await client.done("PUT", f"/resource_providers/{provider}/{what}", body)


async def claim(
    client: Client, consumer: str, held: dict[str, dict[str, int]], kind: str = "INSTANCE", project: str = PROJECTS[0]
) -> None:
    """Write a claim as Nova does, with the consumer's generation."""
    generation = (await client.get(f"/allocations/{consumer}")).get("consumer_generation")
    body = {
        "allocations": {provider: {"resources": amounts} for provider, amounts in held.items()},
        "consumer_generation": generation,
        "project_id": project,
        "user_id": "somebody",
        "consumer_type": kind,
    }
    await client.done("PUT", f"/allocations/{consumer}", body)


async def everything(client: Client) -> dict[str, Any]:
    """Return all that a client can see, by URL; lists have an order of their own."""
    found = {path: await client.get(path) for path in ("/resource_providers", "/resource_classes", "/traits")}
    for provider in found["/resource_providers"]["resource_providers"]:
        path = f"/resource_providers/{provider['uuid']}"
        for below in ("", "/inventories", "/usages", "/aggregates", "/traits", "/allocations"):
            found[path + below] = await client.get(path + below)
    paths = [f"/allocations/{server}" for server in SERVERS]
    paths += [f"/allocation_candidates?{query}" for query in QUERIES]
    found |= {path: await client.get(path) for path in paths}
    for path in (f"/usages?project_id={project}" for project in PROJECTS):
        found[path] = await client.get(path, at=37)  # OpenStack Placement 16 on PostgreSQL answers 1.38 with 500
    return {path: in_order(answer) for path, answer in found.items()}


def in_order(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: in_order(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return sorted((in_order(each) for each in answer), key=lambda each: json.dumps(each, sort_keys=True))
    return answer


@asynccontextmanager
async def whimbrels(url: str) -> AsyncIterator[Client]:
    """Serve Whimbrel's database."""
    database = open_database(url, "placement")
    transport = httpx.ASGITransport(application(database))
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as http:
        yield Client(http, database)
    await database.close()


def copied(*words: str) -> dict[str, Any]:
    """Run a command that has to succeed, and return its JSON."""
    done = whimbrel("placement", *words, "--json")
    assert done.returncode == 0, done.stderr or done.stdout
    report: dict[str, Any] = json.loads(done.stdout)["placement"]
    return report


@pytest.fixture(params=["mariadb", "postgresql"])
def openstack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealPlacement]:
    real_placement.needed()
    with real_placement.new_database(request.param) as url:
        yield RealPlacement(tmp_path, url)


@pytest.fixture(params=["sqlite", "postgresql"])
def own_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/own" if request.param == "sqlite" else request.getfixturevalue("own_postgres")


async def test_a_running_cloud_changes_over_and_back(openstack: RealPlacement, own_url: str) -> None:
    async with openstack.running() as client:
        await fill(client)
        before = await everything(client)
    conf = str(openstack.settings)
    report = copied("import", "--from-file", conf, "--db", own_url)
    rows = {each["kind"]: each["rows"] for each in report["kinds"]}
    assert (rows["providers"], rows["consumers"], rows["traits"]) == (9, 5, 3)
    async with whimbrels(own_url) as client:
        assert await everything(client) == before
        await change(client)
        after = await everything(client)
    assert after != before
    verified = whimbrel("placement", "export", "--to-file", conf, "--db", own_url, "--verify")
    assert verified.returncode == 1
    assert "consumers" in verified.stdout
    refused = whimbrel("placement", "export", "--to-file", conf, "--db", own_url)
    assert (refused.returncode, "--replace" in refused.stderr) == (1, True)
    copied("export", "--to-file", conf, "--db", own_url, "--replace")
    copied("import", "--from-file", conf, "--db", own_url, "--verify")
    async with openstack.running() as client:
        assert await everything(client) == after
        await client.done("POST", "/resource_providers", {"name": "another"})  # its numbers go on
        await client.done("PUT", "/resource_classes/CUSTOM_MORE")
        await client.done("PUT", "/traits/CUSTOM_MORE")
        await claim(client, SERVERS[3], {HOSTS[1]: {"VCPU": 1}}, kind="ANOTHER", project="another")


async def test_an_empty_placement_takes_all(openstack: RealPlacement, tmp_path: Path) -> None:
    """What was never in OpenStack Placement's database gets there too, also the standard names."""
    own_url = f"sqlite:///{tmp_path}/own"
    assert whimbrel("placement", "import", "--from", own_url, "--db", own_url).returncode == 2
    refused = whimbrel("placement", "import", "--from-file", str(openstack.settings), "--db", own_url)
    assert (refused.returncode, "placement-manage db sync" in refused.stderr) == (1, True)
    openstack.manage("db", "sync")
    copied("import", "--from-file", str(openstack.settings), "--db", own_url)
    async with whimbrels(own_url) as client:
        await fill(client)
        before = await everything(client)
    copied("export", "--to-file", str(openstack.settings), "--db", own_url)
    async with openstack.running() as client:
        assert await everything(client) == before
