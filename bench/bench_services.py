"""Resize + confirm of servers with a port and a volume: services of another process over HTTP, next to embedded ones.

The other process is a second cloud, with its identity, image, network and volume service; its own processor time does
not count. The two clouds move in turns, so that what else the machine does falls on both alike.
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

import httpx
from bench_devices import LOOK_S, resize_and_confirm
from cloud import UNLIMITED, Cloud, User, in_turns
from figures import report

SERVERS, EACH, GOAL = 16, 8, 1.3
FLAVORS = (("b1", 512), ("b2", 1024))
KEYSTONE = """
[keystone]
auth_url = "{url}/identity/v3"
username = "whimbrel"
password_file = "{file}"
"""


@dataclass(frozen=True)
class Side:
    """A cloud, as a client of its compute API, and of the other services that it uses."""

    cloud: Cloud
    compute: User
    services: User


async def main(embedded: Cloud, external: Cloud, services: Cloud) -> None:
    user, other = await embedded.user(), await services.user()
    client = httpx.AsyncClient(base_url=external.url, timeout=120, limits=httpx.Limits(max_connections=64))
    sides = (
        Side(embedded, user, user),
        Side(external, User(client, other.headers["x-auth-token"], other.project, other.images), other),
    )
    servers = [await prepared(side) for side in sides]
    used = [0.0, 0.0]
    for number in range(EACH):
        flavor = FLAVORS[1 - number % 2][0]
        for which, side in enumerate(sides):
            before = side.cloud.processor_s()
            await in_turns([resize_and_confirm(side.compute, server, flavor) for server in servers[which]], SERVERS)
            used[which] += (side.cloud.processor_s() - before) / SERVERS / EACH * 1000
    moves = SERVERS * EACH
    report("resize and confirm, a port and a volume, embedded services", processor_ms=used[0], moves=moves)
    report("resize and confirm, a port and a volume, external services", processor_ms=used[1], moves=moves)
    report("the one over the other", ratio=used[1] / used[0], goal_ratio=GOAL)


async def prepared(side: Side) -> list[str]:
    """Create flavors and servers, and return the servers."""
    user = side.compute
    await user.call("PUT", f"/os-quota-sets/{user.project}", {"quota_set": UNLIMITED})
    for name, ram in FLAVORS:
        await user.call("POST", "/flavors", {"flavor": {"id": name, "name": name, "vcpus": 1, "ram": ram, "disk": 1}})
    quotas = {"quota_set": {"volumes": -1, "gigabytes": -1}}
    await side.services.ask("PUT", f"/volume/v3/os-quota-sets/{user.project}", quotas)
    servers = await in_turns([boot(side, number) for number in range(SERVERS)], SERVERS)
    for server in servers:
        await user.until(server, "ACTIVE", LOOK_S)
    return servers


async def boot(side: Side, number: int) -> str:
    image = side.services.image
    networks = (await side.services.ask("GET", "/network/v2.0/networks"))["networks"]
    server = {
        "name": f"equipped{number}",
        "flavorRef": "b1",
        "imageRef": image,
        "networks": [{"uuid": networks[0]["id"]}],
        "block_device_mapping_v2": [
            {"source_type": "image", "uuid": image, "destination_type": "local", "boot_index": 0},
            {"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1,
             "delete_on_termination": True},
        ],
    }  # fmt: skip
    return str((await side.compute.call("POST", "/servers", {"server": server}))["server"]["id"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="whimbrel-bench-") as directory, Cloud() as embedded, Cloud() as services:
        file = Path(directory) / "password"
        file.write_text(services.password("whimbrel"))
        with Cloud(settings=KEYSTONE.format(url=services.url, file=file)) as external:
            asyncio.run(main(embedded, external, services))
