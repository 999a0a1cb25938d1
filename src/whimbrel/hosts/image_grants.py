"""Which images a host may use: those of open runs of servers on it, as far as each run needs them.

It may also read the images that an administrator requests there ahead of their first use.
"""

from collections.abc import Iterator

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import HostName
from whimbrel.domain.image_grant import LIFETIME_S, Grant, ImageAccess
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run, has_facts
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps.disk import current_transfer_images
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.control_plane import ImageGrant
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers.lifecycle.shelve import SHELVE

MAX_AGE_S = 1.0
"""How long the open runs that were read are used for further grants."""

Need = tuple[HostName, str, ImageAccess]
"""A host, an image, and what the host does with it."""


class ImageGrants:
    """Issues grants for the image service of a cloud."""

    def __init__(self, cloud: Cloud, url: str, secret: bytes) -> None:
        """url: of the image service, as hosts reach it. secret: shared with it."""
        self._cloud = cloud
        self._url = url
        self._secret = secret
        self._needed: frozenset[Need] = frozenset()  # as last read; needs that are not in it are read again
        self._read_at = float("-inf")

    async def grant(self, host: HostName, image_id: str, access: ImageAccess) -> ImageGrant:
        """Return access to an image for a host. Raises: Refused: nothing needs it there; Unavailable."""
        now, need = self._cloud.clock.now(), (host, image_id, access)
        if need not in self._needed or not self._read_at <= now < self._read_at + MAX_AGE_S:
            runs = await self._cloud.journal.find(RunFilter(only_open=True))
            self._needed, self._read_at = frozenset(need for run in runs for need in _needs(run)), now
        if need not in self._needed and not await self._is_fetched_ahead(need):
            raise Refused(f"no open operation on host {host} needs to {access} image {image_id}")
        until = now + LIFETIME_S
        grant = Grant(host=host, image_id=image_id, access=access, expires_at=until)
        return ImageGrant(url=self._url, token=grant.token(self._secret), expires_at=until)

    async def _is_fetched_ahead(self, need: Need) -> bool:
        host, image_id, access = need
        return access == "read" and await self._cloud.image_fetches.is_wanted(host, image_id)


def _needs(run: Run) -> Iterator[Need]:
    if has_facts(run, MoveFacts):
        facts = run.facts
        sent = current_transfer_images(run)
        if facts.source:
            yield from ((facts.source.host, image, "write") for image in sent)
        if facts.target:
            yield from ((facts.target.host, image, "read") for image in sent)
            needed = [*facts.shelved_images.values(), *([facts.image_id] if facts.image_id else [])]
            yield from ((facts.target.host, image, "read") for image in needed)
    elif has_facts(run, OperationFacts) and run.facts.host and run.facts.rescue:
        yield run.facts.host, run.facts.rescue.image_id, "read"
    elif has_facts(run, OperationFacts) and run.facts.host:
        taken = run.facts.shelved_images.values() if run.saga == SHELVE.name else ()
        written = [*taken, *([run.facts.image_id] if run.facts.image_id else [])]
        yield from ((run.facts.host, image, "write") for image in written)
