"""Open moves after kill -9: the processor time of the new process until each is in hand again, with its start.

bench_takeover.py [MOVES]: 10,000 if not said. One is made; the others are written into the databases, all like it.
"""

import asyncio
import sys
import time

from cloud import Cloud, User
from figures import report
from many_servers import Names, fill, query

MOVES = int((sys.argv[1:] or ["10000"])[0])
HOSTS = 1000
GOAL_PROCESSOR_S = 10.0
"""Of 10,000 moves."""
LOOK_EACH_S = 0.1


async def begin(cloud: Cloud) -> Names:
    """Create a move that is copying its disk; give the names by which the databases know it."""
    user = await cloud.user()
    await user.call("POST", "/flavors", {"flavor": {"id": "b2", "name": "b2", "vcpus": 1, "ram": 1024, "disk": 1}})
    server = await user.boot("s")
    await user.until(server, "ACTIVE")
    [run] = await moves(user, server)
    await user.act(server, "resize", {"flavorRef": "b2"})
    while query(cloud.databases / "global.sqlite", "SELECT at FROM runs WHERE state = 'open'") != [("carry_disk",)]:
        await asyncio.sleep(LOOK_EACH_S)
    [move] = set(await moves(user, server)) - {run}
    host = str((await user.look(server))["OS-EXT-SRV-ATTR:host"])
    target = str((await user.call("GET", f"/whimbrel/moves/{move}"))["move"]["target"])
    return {"server": server, "run": run, "move": move, "host": host, "target": target, "action": f"req-{server}"}


async def moves(user: User, server: str) -> list[str]:
    return [run["id"] for run in (await user.call("GET", f"/whimbrel/moves?kind=any&server={server}"))["moves"]]


def left(cloud: Cloud) -> int:
    """Count the moves that nobody has taken over yet."""
    [(count,)] = query(
        cloud.databases / "global.sqlite", "SELECT count(*) FROM runs WHERE state = 'open' AND epoch < 2"
    )
    return int(count)


if __name__ == "__main__":
    with Cloud(copy_disk_s=3600, host_count=HOSTS) as cloud:
        like = asyncio.run(begin(cloud))
        cloud.kill()
        fill(cloud.databases, like, MOVES)
        assert left(cloud) == MOVES
        began = time.monotonic()
        cloud.start()
        started_s = cloud.processor_s()
        while left(cloud):
            time.sleep(LOOK_EACH_S)
        report(
            f"take over {MOVES} moves after kill -9",
            processor_s=cloud.processor_s(),
            goal_processor_s=GOAL_PROCESSOR_S * MOVES / 10_000,
            of_this_start_s=started_s,
            in_hand_s=time.monotonic() - began,
        )
