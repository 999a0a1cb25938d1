"""End moves of server groups that failed: all servers are on one host, and it is not the target.

While such a move lasts, single servers may go to the target. If all have arrived, it has ended by itself.
"""

from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import Engine

LONGEST_S = 600.0
"""By then the moves of the servers have their claims. A later claim is refused, and its move undone."""


async def end_group_moves(cloud: Cloud, engine: Engine) -> None:
    await cloud.placement.end_group_moves(cloud.clock.now() - LONGEST_S)
