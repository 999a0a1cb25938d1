"""Resize + confirm of servers with two ports that ask for bandwidth and two volumes, next to servers without any."""

import asyncio
from typing import Any

from cloud import Cloud, User, in_turns
from figures import report

SERVERS, EACH, GOAL = 16, 8, 2.0
LOOK_S = 2.0
"""How often who waits for a server looks. A move with devices takes longer, and the looks in between are not its own
cost: where they come ten times a second they are a fifth of what is measured."""


async def main(cloud: Cloud) -> None:
    user = await cloud.user()
    for name, flavor, ram in (("small", "b1", 512), ("large", "b2", 1024)):
        body = {"id": flavor, "name": f"bench.{name}", "vcpus": 1, "ram": ram, "disk": 1}
        await user.call("POST", "/flavors", {"flavor": body})
    no_limits = {"volumes": -1, "gigabytes": -1}
    await user.ask("PUT", f"/volume/v3/os-quota-sets/{user.project}", {"quota_set": no_limits})
    plain = await user.boot_many(SERVERS)
    equipped = await in_turns([boot_equipped(user, number) for number in range(SERVERS)], SERVERS)
    for server in equipped:
        await user.until(server, "ACTIVE")
    alone = loaded = 0.0
    for number in range(EACH):  # in turns, so that what else the machine does falls on both alike
        flavor = "b2" if number % 2 == 0 else "b1"
        alone += await measure(cloud, user, plain, flavor) / EACH
        loaded += await measure(cloud, user, equipped, flavor) / EACH
    moves = SERVERS * EACH
    report("resize and confirm, no devices", processor_ms=alone, moves=moves)
    report("resize and confirm, 2 ports with bandwidth, 2 volumes", processor_ms=loaded, moves=moves)
    report("the one over the other", ratio=loaded / alone, goal_ratio=GOAL)


async def boot_equipped(user: User, number: int) -> str:
    policy = await network_policy(user)
    ports = [await user.ask("POST", "/network/v2.0/ports", {"port": await resources(user, policy)}) for _ in range(2)]
    server = {
        "name": f"equipped{number}",
        "flavorRef": "b1",
        "imageRef": user.image,
        "networks": [{"port": port["port"]["id"]} for port in ports],
        "block_device_mapping_v2": [{"source_type": "image", "uuid": user.image, "destination_type": "local",
                                     "boot_index": 0},
                                    *({"source_type": "blank", "destination_type": "volume", "volume_size": 1,
                                       "boot_index": -1, "delete_on_termination": True} for _ in range(2))],
    }  # fmt: skip
    return str((await user.call("POST", "/servers", {"server": server}))["server"]["id"])


async def network_policy(user: User) -> str:
    """Create a policy with 1 Mbit/s of guaranteed egress bandwidth."""
    body = {"policy": {"name": "bench"}}
    policy = (await user.ask("POST", "/network/v2.0/qos/policies", body))["policy"]["id"]
    rule = {"minimum_bandwidth_rule": {"min_kbps": 1000, "direction": "egress"}}
    await user.ask("POST", f"/network/v2.0/qos/policies/{policy}/minimum_bandwidth_rules", rule)
    return str(policy)


async def resources(user: User, policy: str) -> dict[str, Any]:
    networks = (await user.ask("GET", "/network/v2.0/networks"))["networks"]
    return {"network_id": networks[0]["id"], "qos_policy_id": policy}


async def resize_and_confirm(user: User, server: str, flavor: str) -> None:
    await user.act(server, "resize", {"flavorRef": flavor})
    await user.until(server, "VERIFY_RESIZE", LOOK_S)
    await user.act(server, "confirmResize")
    await user.until(server, "ACTIVE", LOOK_S)


async def measure(cloud: Cloud, user: User, servers: list[str], flavor: str) -> float:
    """Return the processor milliseconds of one resize and its confirm, all servers at once."""
    before = cloud.processor_s()
    await in_turns([resize_and_confirm(user, server, flavor) for server in servers], SERVERS)
    return (cloud.processor_s() - before) / SERVERS * 1000


if __name__ == "__main__":
    with Cloud(card_kbps=100_000_000) as cloud:
        asyncio.run(main(cloud))
