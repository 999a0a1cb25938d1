"""Ask hosts for the images that administrators request there ahead of their first use.

Invariant: this only saves time later. A request that a host cannot meet is given up, with a line in the log: if it is
down or refuses, at once; if it does not answer, after an hour.
"""

import asyncio

import structlog

from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.image_fetches import ImageFetch
from whimbrel.saga.engine import Engine

log = structlog.get_logger(__name__)

AT_ONCE = 10
"""How many fetches are under way at the same time: all read from one image service."""

RETRY_S = 30.0
GIVEN_UP_AFTER_S = 3600.0


async def fetch_requested_images(cloud: Cloud, _: Engine) -> None:
    """Ask the hosts of the oldest requests to start or continue."""
    due = await cloud.image_fetches.due(cloud.clock.now(), AT_ONCE)
    await asyncio.gather(*(_ask(cloud, fetch) for fetch in due))


async def _ask(cloud: Cloud, fetch: ImageFetch) -> None:
    now = cloud.clock.now()
    try:
        if not (await cloud.cell(fetch.cell).hosts.get(fetch.host)).is_up(now):
            raise Refused("the host is down")
        progress = await cloud.agent(fetch.cell, fetch.host).cache_image(fetch.image_id)
    except Unavailable as trouble:
        if now - fetch.requested_at < GIVEN_UP_AFTER_S:
            await cloud.image_fetches.postpone(fetch, now + RETRY_S)
        else:
            await _give_up(cloud, fetch, trouble.reason)
    except (Refused, NotFound) as trouble:
        await _give_up(cloud, fetch, trouble.reason)
    else:
        if progress.finished:
            await cloud.image_fetches.remove(fetch, is_cached=True)


async def _give_up(cloud: Cloud, fetch: ImageFetch, reason: str) -> None:
    log.warning("gave up fetching an image ahead", host=fetch.host, image=fetch.image_id, reason=reason)
    await cloud.image_fetches.remove(fetch, is_cached=False)
