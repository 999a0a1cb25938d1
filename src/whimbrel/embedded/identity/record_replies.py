"""What most kinds of records have in common: the one in the path, and replies with one record or a list of them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.request import Call, Handler
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Credential, Domain, Group, Project, Record, Role, User

KINDS: Mapping[type[msgspec.Struct], tuple[str, Callable[[str, Any], dict[str, Any]]]] = {
    Credential: ("credential", views.credential),
    Domain: ("domain", views.domain),
    Group: ("group", views.group),
    Project: ("project", views.project),
    Role: ("role", views.role),
    User: ("user", views.user),
}
"""Kind -> its word in bodies and paths, and its view."""


async def in_path(call: Call, kind: type[Record]) -> Record:
    """Return the record whose id is in the path. Raises: NotFound."""
    return await call.store.record(kind, call.path(f"{KINDS[kind][0]}_id"))


def listed(call: Call, kind: type[Record], found: Iterable[Record]) -> Reply:
    word, view = KINDS[kind]
    return Reply(views.listing(call.root_url, f"{word}s", [view(call.root_url, each) for each in found]))


def shown(call: Call, record: msgspec.Struct, status: int = 200) -> Reply:
    word, view = KINDS[type(record)]
    return Reply({word: view(call.root_url, record)}, status)


def showing(kind: type[Record]) -> Handler:
    """Return the handler that shows the record in the path."""

    async def show(call: Call) -> Reply:
        return shown(call, await in_path(call, kind))

    return show


def removing(kind: type[Record]) -> Handler:
    """Return the handler that removes the record in the path."""

    async def remove(call: Call) -> Reply:
        await call.store.remove(kind, call.path(f"{KINDS[kind][0]}_id"))
        return NO_CONTENT

    return remove
