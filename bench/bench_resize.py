"""Resize + confirm: processor time of the whole control plane for one; how many a second, 1, 32 and 512 at once."""

import asyncio
import time

from cloud import Cloud, User, in_turns
from figures import report

COUNT = {1: 200, 32: 512, 512: 1024}


async def resize_and_confirm(user: User, server: str, flavor: str) -> None:
    await user.act(server, "resize", {"flavorRef": flavor})
    await user.until(server, "VERIFY_RESIZE")
    await user.act(server, "confirmResize")
    await user.until(server, "ACTIVE")


async def main(cloud: Cloud) -> None:
    user = await cloud.user()
    for name, flavor, ram in (("small", "b1", 512), ("large", "b2", 1024)):
        body = {"id": flavor, "name": f"bench.{name}", "vcpus": 1, "ram": ram, "disk": 1}
        await user.call("POST", "/flavors", {"flavor": body})
    servers = await user.boot_many(512)
    now = dict.fromkeys(servers, "b1")
    for at_once, count in COUNT.items():
        await measure(cloud, user, servers, now, at_once, count)


async def measure(cloud: Cloud, user: User, servers: list[str], now: dict[str, str], at_once: int, count: int) -> None:
    # Each server is in one worker's hands only: a second move of one that moves would be refused.
    shares = [servers[number::at_once] for number in range(at_once)]
    each = count // at_once
    before, began = cloud.processor_s(), time.monotonic()

    async def work(share: list[str]) -> None:
        for number in range(each):
            server = share[number % len(share)]
            now[server] = "b2" if now[server] == "b1" else "b1"
            await resize_and_confirm(user, server, now[server])

    await in_turns([work(share) for share in shares], at_once)
    took, used = time.monotonic() - began, cloud.processor_s() - before
    done = each * at_once
    report(
        f"resize and confirm, {at_once} at once",
        processor_ms=used / done * 1000,
        goal_ms=20,
        a_second=done / took,
        goal_a_second=40 if at_once == 32 else 0,
        moves=done,
    )


if __name__ == "__main__":
    with Cloud() as cloud:
        asyncio.run(main(cloud))
