"""osc-placement, unmodified and as a process of its own, against the Placement API: every command that it has."""

import asyncio
import json
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.api.placement_client import application
from tests.prerequisites import missing
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.bootstrap.http_server import serve

PROCESS = Path(__file__).with_name("osc_process.py")
HOST, OTHER = "11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"
SERVER, SECOND = "22222222-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
ZONE = "33333333-0000-4000-8000-000000000001"
WHO = "--project-id own --user-id somebody"


class Osc:
    """The client's command lines, one for each version: a process of it keeps the first version that it is told."""

    def __init__(self, port: int, ending: AsyncExitStack) -> None:
        self._always = [
            *("--os-auth-type", "admin_token", "--os-token", "admin"),
            *("--os-endpoint", f"http://127.0.0.1:{port}/placement"),
        ]
        self._ending = ending
        self._lines: dict[str, Process] = {}
        self.done: list[str] = []

    async def run(self, command: str, status: int = 0, at: str = "1.39") -> str:
        """Run one command and give what it printed; status: how it must end."""
        if at not in self._lines:
            self._lines[at] = await self._ending.enter_async_context(command_line())
        line = self._lines[at]
        assert line.stdin
        assert line.stdout
        words = [*self._always, "--os-placement-api-version", at, *command.split()]
        line.stdin.write(json.dumps(words).encode() + b"\n")
        answer = json.loads(await line.stdout.readline())
        assert answer["status"] == status, (at, command, answer)
        self.done.append(command)
        return str(answer["out"] + answer["err"])

    async def read(self, command: str, at: str = "1.39") -> Any:
        return json.loads(await self.run(f"{command} -f json", at=at))


@asynccontextmanager
async def command_line() -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROCESS)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()
        await process.wait()


@pytest.fixture
async def osc() -> AsyncIterator[Osc]:
    """The command line of a new Placement."""
    if find_spec("openstackclient") is None:
        missing("no openstack client", "make setup")
    database = open_database("sqlite://", "placement")
    await create_all(database, "placement")
    stop, ready = asyncio.Event(), asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as endpoint:
        serving = asyncio.create_task(serve(application(database), endpoint, stop, ready.set))
        await ready.wait()
        try:
            async with AsyncExitStack() as ending:
                yield Osc(endpoint.getsockname()[1], ending)
        finally:
            stop.set()
            await serving
            await database.close()


async def providers(osc: Osc) -> None:
    made = await osc.read(f"resource provider create --uuid {HOST} host")
    assert (made["name"], made["generation"], made["root_provider_uuid"]) == ("host", 0, HOST)
    await osc.run(f"resource provider create --uuid {OTHER} --parent-provider {HOST} other")
    await osc.run("resource provider create passing")
    assert {each["name"] for each in await osc.read("resource provider list")} == {"host", "other", "passing"}
    (passing,) = await osc.read("resource provider list --name passing")
    await osc.run(f"resource provider delete {passing['uuid']}")
    assert "404" in await osc.run(f"resource provider show {passing['uuid']}", status=1)
    loose = await osc.read(f"resource provider set {OTHER} --name second")
    assert (loose["name"], loose["parent_provider_uuid"]) == ("second", HOST)
    assert (await osc.read(f"resource provider show {OTHER}"))["name"] == "second"


async def names(osc: Osc) -> None:
    await osc.run("resource class create CUSTOM_A")
    await osc.run("resource class set CUSTOM_B")
    assert (await osc.read("resource class show CUSTOM_B"))["name"] == "CUSTOM_B"
    await osc.run("resource class delete CUSTOM_B")
    assert "404" in await osc.run("resource class delete CUSTOM_B", status=1)
    classes = {each["name"] for each in await osc.read("resource class list")}
    assert {"VCPU", "CUSTOM_A"} <= classes
    assert "CUSTOM_B" not in classes
    for name in ("CUSTOM_GOLD", "CUSTOM_LEAD"):
        await osc.run(f"trait create {name}")
    assert (await osc.read("trait show CUSTOM_GOLD"))["name"] == "CUSTOM_GOLD"
    await osc.run("trait delete CUSTOM_LEAD")
    assert await osc.read("trait list --name startswith:CUSTOM") == [{"name": "CUSTOM_GOLD"}]
    assert "404" in await osc.run("trait show CUSTOM_LEAD", status=1)


async def what_providers_have(osc: Osc) -> None:
    own = f"resource provider inventory set {HOST}"
    shown = await osc.read(f"{own} --resource VCPU=8 --resource VCPU:reserved=1 --resource MEMORY_MB=1024")
    assert {each["resource_class"]: each["reserved"] for each in shown} == {"VCPU": 1, "MEMORY_MB": 0}
    await osc.run(f"{own} --amend --resource CUSTOM_A=5")
    await osc.run(f"{own} --amend --dry-run --resource CUSTOM_A=6")
    changed = await osc.read(f"resource provider inventory class set {HOST} VCPU --total 8 --allocation_ratio 2.0")
    assert (changed["reserved"], changed["allocation_ratio"]) == (0, 2.0)
    assert (await osc.read(f"resource provider inventory show {HOST} CUSTOM_A"))["total"] == 5
    await osc.run(f"resource provider inventory delete {HOST} --resource-class CUSTOM_A")
    listed = await osc.read(f"resource provider inventory list {HOST}")
    assert {each["resource_class"]: each["used"] for each in listed} == {"VCPU": 0, "MEMORY_MB": 0}

    generation = (await osc.read(f"resource provider show {HOST}"))["generation"]
    grouping = f"resource provider aggregate set {HOST} --aggregate {ZONE}"
    assert await osc.read(f"{grouping} --generation {generation}") == [{"uuid": ZONE}]
    assert "409" in await osc.run(f"{grouping} --generation {generation}", status=1)
    assert await osc.read(f"resource provider aggregate list {HOST}") == [{"uuid": ZONE}]
    await osc.run(f"resource provider inventory set {ZONE} --aggregate --amend --resource DISK_GB=10")

    assert await osc.read(f"resource provider trait set {OTHER} --trait CUSTOM_GOLD") == [{"name": "CUSTOM_GOLD"}]
    await osc.run(f"resource provider trait delete {OTHER}")
    assert await osc.read(f"resource provider trait list {OTHER}") == []
    await osc.run(f"resource provider trait set {HOST} --trait CUSTOM_GOLD")
    assert await osc.read("trait list --associated") == [{"name": "CUSTOM_GOLD"}]


async def finding(osc: Osc) -> None:
    for query in (
        f"--uuid {HOST}",
        "--resource VCPU=2 --resource DISK_GB=1",
        f"--in-tree {OTHER} --required CUSTOM_GOLD",
        "--required CUSTOM_GOLD,HW_CPU_X86_AVX2 --forbidden HW_CPU_X86_AVX",
        f"--member-of {ZONE},{SERVER}",
    ):
        assert [each["name"] for each in await osc.read(f"resource provider list {query}")] == ["host"], query
    for query in (
        "--resource VCPU=2 --required CUSTOM_GOLD --limit 5",
        f"--resource VCPU=2 --forbidden HW_CPU_X86_AVX --member-of {ZONE}",
    ):
        (candidate,) = await osc.read(f"allocation candidate list {query}")
        assert (candidate["resource provider"], candidate["allocation"]) == (HOST, "VCPU=2"), query
    groups = "--group 1 --resource VCPU=1 --required CUSTOM_GOLD --group 2 --resource DISK_GB=1 --group-policy none"
    (candidate,) = await osc.read(f"allocation candidate list {groups}")
    assert set(candidate["allocation"].split(",")) == {"VCPU=1", "DISK_GB=1"}


async def claims(osc: Osc) -> None:
    first = f"--allocation rp={HOST},VCPU=2 --allocation rp={HOST},DISK_GB=1"
    await osc.run(f"resource provider allocation set {SERVER} {first} {WHO} --consumer-type INSTANCE")
    await osc.run(f"resource provider allocation set {SECOND} --allocation rp={HOST},VCPU=1 {WHO} --consumer-type X")
    (held,) = await osc.read(f"resource provider allocation show {SERVER}")
    assert (held["resource_provider"], held["resources"]) == (HOST, {"VCPU": 2, "DISK_GB": 1})
    (left,) = await osc.read(f"resource provider allocation unset {SERVER} --resource-class DISK_GB")
    assert (left["resources"], left["consumer_type"]) == ({"VCPU": 2}, "INSTANCE")
    usages = await osc.read(f"resource provider usage show {HOST}")
    assert {each["resource_class"]: each["usage"] for each in usages} == {"VCPU": 3, "MEMORY_MB": 0, "DISK_GB": 0}
    assert {each["resource_class"] for each in await osc.read("resource usage show own --user-id somebody")} == {
        *("INSTANCE", "X")  # so the client calls the types, which came later than it knows
    }
    assert (await osc.read(f"resource provider show {HOST} --allocations"))["allocations"].keys() == {SERVER, SECOND}
    assert "409" in await osc.run(f"resource provider delete {HOST}", status=1)
    await osc.run(f"resource provider allocation unset {SERVER} --provider {HOST}")
    await osc.run(f"resource provider allocation delete {SECOND}")
    assert "404" in await osc.run(f"resource provider allocation delete {SECOND}", status=1)
    assert await osc.read(f"resource provider allocation show {SERVER}") == []
    await osc.run(f"resource provider inventory delete {HOST}")


async def everything(osc: Osc) -> None:
    for part in (providers, names, what_providers_have, finding, claims):
        await part(osc)
    words = {entry.name.replace("_", " ") for entry in entry_points(group="openstack.placement.v1")}
    assert {name for name in words if not any(command.startswith(name) for command in osc.done)} == set()


async def test_every_command(osc: Osc) -> None:
    await everything(osc)


OLD = (
    ("1", "resource provider list"),  # what it says when it is told no version: it asks which there are
    ("1.0", f"resource provider create --uuid {HOST} host"),
    ("1.0", f"resource provider inventory set {HOST} --resource VCPU=8"),
    ("1.0", f"resource provider inventory class set {HOST} VCPU --total 9"),
    ("1.0", f"resource provider allocation set {SERVER} --allocation rp={HOST},VCPU=2"),
    ("1.0", f"resource provider allocation show {SERVER}"),
    ("1.0", f"resource provider usage show {HOST}"),
    ("1.7", f"resource provider aggregate set {HOST} --aggregate {ZONE}"),
    ("1.7", f"resource provider aggregate list {HOST}"),
    ("1.7", "resource class create CUSTOM_A"),
    ("1.7", f"resource provider list --member-of {ZONE}"),
    ("1.7", "resource provider list --resource VCPU=1"),
    ("1.7", f"resource provider trait set {HOST} --trait HW_CPU_X86_AVX2"),
    ("1.7", "resource class set CUSTOM_B"),
    ("1.11", f"resource provider allocation set {SERVER} --allocation rp={HOST},VCPU=3 {WHO}"),
    ("1.11", "resource usage show own"),
    ("1.11", "allocation candidate list --resource VCPU=1"),
    ("1.11", f"resource provider show {HOST} --allocations"),
    ("1.12", f"resource provider allocation set {SERVER} --allocation rp={HOST},VCPU=4 {WHO}"),
    ("1.12", f"resource provider allocation unset {SERVER} --resource-class VCPU"),
    ("1.19", f"resource provider create --uuid {OTHER} --parent-provider {HOST} other"),
    ("1.19", "allocation candidate list --resource VCPU=1 --required HW_CPU_X86_AVX2"),
    ("1.19", f"resource provider aggregate set {OTHER} --aggregate {ZONE} --generation 0"),
    ("1.28", f"resource provider allocation set {SERVER} --allocation rp={HOST},VCPU=5 {WHO}"),
    ("1.28", f"resource provider allocation unset {SERVER}"),
    ("1.37", "resource usage show own"),
    ("1.37", f"resource provider set {OTHER} --name other --parent-provider {HOST}"),
)


@pytest.mark.long
async def test_commands_at_older_versions(osc: Osc) -> None:
    for version, command in OLD:
        await osc.run(command, at=version)
