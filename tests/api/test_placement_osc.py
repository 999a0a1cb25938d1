"""osc-placement, unmodified and as a process of its own, against the Placement API."""

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

from tests.api.placement_client import application
from tests.prerequisites import missing
from whimbrel.adapters.sql.database import open_database
from whimbrel.adapters.sql.schema import create_all
from whimbrel.serve import serve

OPENSTACK = Path(sys.executable).parent / "openstack"
HOST, SERVER = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000001"


class Osc:
    """The client's command line, at the version that it asks for by default in new clouds."""

    def __init__(self, port: int) -> None:
        self._always = [
            *("--os-auth-type", "admin_token", "--os-token", "admin"),
            *("--os-endpoint", f"http://127.0.0.1:{port}/placement", "--os-placement-api-version", "1.39"),
        ]

    async def run(self, command: str, status: int = 0) -> str:
        """Run one command and give what it printed; status: how it must end."""
        process = await asyncio.create_subprocess_exec(
            *(str(OPENSTACK), *self._always, *command.split()),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == status, err.decode()
        return (out + err).decode()

    async def read(self, command: str) -> Any:
        return json.loads(await self.run(f"{command} -f json"))


async def tell(osc: Osc) -> None:
    made = await osc.read(f"resource provider create --uuid {HOST} host")
    assert (made["name"], made["generation"], made["root_provider_uuid"]) == ("host", 0, HOST)
    await osc.run(f"resource provider inventory set {HOST} --resource VCPU=8 --resource MEMORY_MB=1024")
    await osc.run("trait create CUSTOM_GOLD")
    await osc.run(f"resource provider trait set {HOST} --trait CUSTOM_GOLD")
    assert await osc.read("trait list --associated") == [{"name": "CUSTOM_GOLD"}]
    (candidate,) = await osc.read("allocation candidate list --resource VCPU=2 --required CUSTOM_GOLD")
    assert candidate["resource provider"] == HOST
    await osc.run(
        f"resource provider allocation set {SERVER} --allocation rp={HOST},VCPU=2"
        " --project-id own --user-id somebody --consumer-type INSTANCE"
    )
    (held,) = await osc.read(f"resource provider allocation show {SERVER}")
    assert (held["resource_provider"], held["resources"]) == (HOST, {"VCPU": 2})
    usages = await osc.read(f"resource provider usage show {HOST}")
    assert {usage["resource_class"]: usage["usage"] for usage in usages} == {"VCPU": 2, "MEMORY_MB": 0}
    assert [provider["name"] for provider in await osc.read("resource provider list")] == ["host"]
    assert "409" in await osc.run(f"resource provider delete {HOST}", status=1)


def test_osc_placement() -> None:
    if not OPENSTACK.exists():
        missing("no openstack client", "make setup")

    async def main() -> None:
        database = open_database("sqlite://", "placement")
        await create_all(database, "placement")
        stop, ready = asyncio.Event(), asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as door:
            serving = asyncio.create_task(serve(application(database), door, stop, ready.set))
            await ready.wait()
            try:
                await tell(Osc(door.getsockname()[1]))
            finally:
                stop.set()
                await serving
                await database.close()

    asyncio.run(main())
