"""One request as handlers see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whimbrel.domain.ids import ProviderId
from whimbrel.http.reply import Reply
from whimbrel.placement.store import Store
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.identity import Principal


class Undated(Reply, frozen=True):
    """A reply without last-modified."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A request with checked token, version, route, query keys and body."""

    store: Store
    ids: IdSource
    principal: Principal
    minor: int  # of the microversion: 28 for 1.28
    params: Mapping[str, str]  # of the path
    query: Mapping[str, list[str]]  # key -> all its values
    body: Any  # decoded JSON; None: the route reads no body
    mounted_at: str  # the path of the mount point, "/placement"
    most_candidates: int | None  # in one answer; None: all
    origin: str  # scheme and host, as the client knows them

    @property
    def uuid(self) -> ProviderId:
        """Return the provider in the path."""
        return ProviderId(self.params["uuid"])

    def value(self, key: str) -> str | None:
        """Return the value of a query key, the last of several."""
        values = self.query.get(key)
        return values[-1] if values else None

    def path(self, *parts: str) -> str:
        """Return a path for links."""
        return "/".join((self.mounted_at, *parts))

    def location(self, *parts: str) -> dict[str, str]:
        """Return the header with the URL of a new resource."""
        return {"location": self.origin + self.path(*parts)}
