"""Live migration, evacuation, shelve and unshelve: processor time of the whole control plane for one of each.

The cloud is one process on SQLite, with simulated hosts that take no time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from cloud import Cloud, User, in_turns
from figures import report

SERVERS, COUNT = 64, 256
AT_ONCE = (1, 32)
UNLIMITED = "[moves.live]\nat_once_per_host = 0\n"  # else those at once wait for each other


async def migrate_live(user: User, server: str) -> None:
    await user.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    await user.until(server, "ACTIVE")


async def shelve_and_unshelve(user: User, server: str) -> None:
    await user.act(server, "shelve")
    await user.until(server, "SHELVED_OFFLOADED")
    await user.act(server, "unshelve")
    await user.until(server, "ACTIVE")


async def measure(
    cloud: Cloud, name: str, goal_ms: float, servers: list[str], at_once: int, one: Callable[[str], Awaitable[None]]
) -> None:
    shares = [servers[number::at_once] for number in range(at_once)]
    each = COUNT // at_once
    before, began = cloud.processor_s(), time.monotonic()

    async def work(share: list[str]) -> None:
        for number in range(each):
            await one(share[number % len(share)])

    await in_turns([work(share) for share in shares], at_once)
    took, used, done = time.monotonic() - began, cloud.processor_s() - before, each * at_once
    report(f"{name}, {at_once} at once", processor_ms=used / done * 1000, goal_ms=goal_ms, a_second=done / took)


async def boot_on(user: User, host: str, name: str) -> str:
    server = {"name": name, "flavorRef": "1", "imageRef": user.image, "networks": "none", "host": host}
    created: str = (await user.call("POST", "/servers", {"server": server}))["server"]["id"]
    await user.until(created, "ACTIVE")
    await user.act(created, "os-stop")
    await user.until(created, "SHUTOFF")
    return created


async def evacuate_all(cloud: Cloud, user: User, host: str) -> None:
    """Evacuate servers whose guests are down, which their host says: that is the evidence."""
    servers = await in_turns([boot_on(user, host, f"e{number}") for number in range(SERVERS)], 16)
    [service] = (await user.call("GET", f"/os-services?host={host}"))["services"]
    await user.call("PUT", f"/os-services/{service['id']}", {"forced_down": True})
    before, began = cloud.processor_s(), time.monotonic()
    await in_turns([user.act(server, "evacuate", {}) for server in servers], 16)
    await user.until_all("SHUTOFF", len(servers))
    took, used = time.monotonic() - began, cloud.processor_s() - before
    report("evacuation of a host", processor_ms=used / SERVERS * 1000, goal_ms=10, a_second=SERVERS / took)


async def main(cloud: Cloud) -> None:
    user = await cloud.user()
    servers = await user.boot_many(SERVERS)
    for at_once in AT_ONCE:
        await measure(cloud, "live migration", 12, servers, at_once, partial(migrate_live, user))
    for at_once in AT_ONCE:
        one = partial(shelve_and_unshelve, user)
        await measure(cloud, "shelve and unshelve", 15, servers, at_once, one)
    await evacuate_all(cloud, user, "h0")


if __name__ == "__main__":
    with Cloud(settings=UNLIMITED) as cloud:
        asyncio.run(main(cloud))
