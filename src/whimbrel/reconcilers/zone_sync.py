"""Puts right what placement knows of the zones of hosts, where a change of them was begun and not made."""

from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import Engine
from whimbrel.servers.zones.zone_changes import repair


async def repair_zones(cloud: Cloud, engine: Engine) -> None:
    await repair(cloud)
