"""Names of users and projects, as far as the identity service shows them to the requester; else ids remain.

Invariant: names cause no delay: a service that does not answer is not asked again.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from whimbrel.cli.client import Api
from whimbrel.domain.errors import Unavailable, WorldError

KINDS = ("user", "project")


def add_names(api: Api, entries: Iterable[dict[str, Any]]) -> None:
    """Add to each entry the names of its user and its project; None: unknown."""
    listed = list(entries)
    asked = [(kind, entry[f"{kind}_id"]) for entry in listed for kind in KINDS if entry[f"{kind}_id"]]
    known = dict(_named(api, dict.fromkeys(asked)))
    for entry in listed:
        for kind in KINDS:
            entry[f"{kind}_name"] = known.get((kind, entry[f"{kind}_id"]))


def _named(api: Api, asked: Iterable[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], str]]:
    for kind, name in asked:
        try:
            called = api.get("identity", f"/{kind}s/{quote(name, safe='')}")[kind]["name"]
        except Unavailable:
            return
        except (WorldError, ValueError, LookupError, TypeError):
            continue
        if isinstance(called, str):
            yield (kind, name), called
