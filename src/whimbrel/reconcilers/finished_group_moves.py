"""Ends moves of server groups that came to nothing: all servers are on one host, and it is not the one they went to.

While such a move lasts it lets single servers go there. Where all have arrived it has ended by itself.
"""

from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import Engine

LONGEST_S = 600.0
"""By then the moves of the servers hold what they went for. One that does not yet is refused, and undone."""


async def rest_groups(cloud: Cloud, engine: Engine) -> None:
    await cloud.placement.rest_groups(cloud.clock.now() - LONGEST_S)
