"""The evacuation of a host with many servers: seconds until all have arrived elsewhere, and the processor time of each.

The cloud is one process on SQLite, with simulated hosts that take no time. The guests are down, which their host says:
that is the evidence. The evacuation is repeated as `whimbrel host evacuate` does it.
"""

import asyncio
import sys
import time

from bench_moves import boot_on
from cloud import Cloud, User, in_turns
from figures import report

SERVERS = int(sys.argv[1]) if sys.argv[1:] else 1000
AT_ONCE = (20, 100)
POLL_S = 0.25
"""As the command does."""


async def evacuate_host(user: User, host: str, at_once: int) -> None:
    asked: dict[str, float] = {"at_once": at_once}
    while True:
        answer = await user.call("POST", f"/whimbrel/hosts/{host}/evacuation", {"evacuation": asked})
        state = answer["evacuation"]
        if state["is_over"]:
            assert not state["left"], state["left"]
            return
        asked["since"] = state["since"]
        await asyncio.sleep(POLL_S)


async def main(cloud: Cloud) -> None:
    user = await cloud.user()
    for number, at_once in enumerate(AT_ONCE):
        host = f"h{number}"
        await in_turns([boot_on(user, host, f"e{each}") for each in range(SERVERS)], 16)
        [service] = (await user.call("GET", f"/os-services?host={host}"))["services"]
        await user.call("PUT", f"/os-services/{service['id']}", {"forced_down": True})
        before, began = cloud.processor_s(), time.monotonic()
        await evacuate_host(user, host, at_once)
        took, used = time.monotonic() - began, cloud.processor_s() - before
        name = f"evacuation of {SERVERS} servers, {at_once} at once"
        report(name, processor_ms=used / SERVERS * 1000, seconds=took, goal_s=15)


if __name__ == "__main__":
    with Cloud() as cloud:
        asyncio.run(main(cloud))
