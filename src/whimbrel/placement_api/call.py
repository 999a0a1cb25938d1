"""One request as a handler sees it, and what a handler answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.store import Store
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.identity import Principal


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is more than a body with status 200. A handler may also return the body alone."""

    status: int
    body: Any = None  # None: no body
    headers: Mapping[str, str] = {}
    is_dated: bool = True  # from 1.15 on, where it shows something


NO_CONTENT = Reply(status=204)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A request that was understood: token, version, route, query keys and body have been checked."""

    store: Store
    ids: IdSource
    principal: Principal
    minor: int  # of the microversion: 28 for 1.28
    params: Mapping[str, str]  # of the path
    query: Mapping[str, list[str]]  # key -> all its values
    body: Any  # decoded JSON; None: the route takes none
    mounted_at: str  # the path before ours, "/placement"
    most_candidates: int | None  # in one answer; None: all
    origin: str  # scheme and host, as the client knows them

    @property
    def uuid(self) -> ProviderId:
        """Give the provider in the path."""
        return ProviderId(self.params["uuid"])

    def value(self, key: str) -> str | None:
        """Give the value of a key, the last one if it comes several times."""
        values = self.query.get(key)
        return values[-1] if values else None

    def path(self, *parts: str) -> str:
        """Give a path for links."""
        return "/".join((self.mounted_at, *parts))

    def location(self, *parts: str) -> dict[str, str]:
        """Give the header that says where something new is."""
        return {"location": self.origin + self.path(*parts)}
