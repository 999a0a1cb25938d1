"""Correct the zones of hosts in Placement after a change that was begun and not completed."""

from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import Engine
from whimbrel.servers.zones.zone_changes import repair


async def repair_zones(cloud: Cloud, engine: Engine) -> None:
    await repair(cloud)
