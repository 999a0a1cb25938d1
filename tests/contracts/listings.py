"""Many servers, queries on them, and what plain Python answers: what stores and lists are held against."""

from collections.abc import Sequence
from functools import cmp_to_key
from random import Random
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from whimbrel.domain import server_states
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, ProjectId, ServerId, Slot, UserId
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers.listing.query_matching import matches

NOW = 1000.0
FLAVOR = Flavor(flavor_id="1", name="small", vcpus=2, memory_mib=512, root_gib=1, extra_specs={"a": "b"})
SERVER = ServerId("server-a")


def a_server(id: str = SERVER, **fields: Any) -> Server:
    """Return a record with something in every field that a query does not ask for."""
    server = Server(
        id=ServerId(id),
        project_id=ProjectId("p"),
        user_id=UserId("u"),
        name="s",
        flavor=FLAVOR,
        image_id="image",
        spec=RequestSpec(zone_pin="north", hints={"different_host": ["g"]}),
        created_at=NOW,
        updated_at=NOW,
        vm_state="active",
        cell=CellName("c1"),
        host=HostName("h1"),
        zone="north",
        slot=Slot("slot"),
        description="what for",
        user_data="ZGF0YQ==",
        config_drive=True,
        metadata={"k": "v"},
        image_properties={"os": "linux"},
        launch_index=3,
        fault={"code": 500, "message": "why", "created": 1.5},
    )
    return replace(server, **fields)


WORDS = ("a", "A", "b", "B", "ab", "a b", "ä", "Ä", "_", "%", "z1")
"""Names that databases like to sort and to compare each in its own way."""

TIMES = (NOW, NOW + 1, NOW + 2.5)
TAGS = ("x", "X", "xy", "%", "_", "a\nb", "a", "b", "ü")
TASKS = ("rebooting", "resize_prep", "resize_migrating", "powering-off")


def population(rng: Random) -> list[Server]:
    """Return servers in all states, of which many share each value."""
    return [one_of_many(f"server-{number}", rng) for number in range(60)]


def one_of_many(id: str, rng: Random) -> Server:
    vm_state = rng.choice(server_states.VM_STATES)
    host = rng.choice(("h1", "h2", "H2"))
    word = lambda: rng.choice(WORDS)  # noqa: E731
    return a_server(
        id,
        project_id=rng.choice(("p", "q")),
        user_id=rng.choice(("u", "v", "V")),
        name=word(),
        hostname=word(),
        key_name=rng.choice((None, word())),
        zone=rng.choice((None, "north", "south")),
        flavor=replace(FLAVOR, flavor_id=word()),
        image_id=rng.choice((None, "image", "Image")),
        reservation_id=rng.choice(("r-1", "r-2")),
        vm_state=vm_state,
        task_state=rng.choice((None, None, *TASKS)),
        host=None if vm_state == "building" or (vm_state == "error" and rng.random() < 0.5) else host,
        locked_by=rng.choice((None, "owner", "admin")),
        tags=sorted(rng.sample(TAGS, rng.randrange(4))),
        created_at=rng.choice(TIMES),
        updated_at=rng.choice(TIMES),
        launched_at=rng.choice((None, *TIMES)),
        terminated_at=rng.choice((None, *TIMES)),
        deleted_at=NOW if vm_state == "deleted" else None,
    )


SORTABLE = (
    *("id", "project_id", "user_id", "name", "hostname", "key_name", "zone", "image_id", "host", "vm_state"),
    *("task_state", "created_at", "updated_at", "launched_at", "terminated_at", "flavor_id", "locked"),
)


def value_of(server: Server, name: str) -> Any:
    if name == "flavor_id":
        return server.flavor.flavor_id
    return server.locked_by is not None if name == "locked" else getattr(server, name)


def compared(one: Server, other: Server, sort: Sequence[tuple[str, str]]) -> int:
    """Compare: negative if the first comes first. Text is compared by code points, and None comes first."""
    for name, direction in sort:
        a, b = value_of(one, name), value_of(other, name)
        if a != b:
            first = a is None or (b is not None and a < b)
            return -1 if first == (direction == "asc") else 1
    return 0


def answer(servers: list[Server], query: ServerQuery) -> list[Server]:
    """Answer a query in plain Python."""
    alive = replace(query, deleted=False)
    found = [server for server in servers if _is_wanted(server, query) and matches(server, alive)]
    found.sort(key=cmp_to_key(lambda one, other: compared(one, other, query.sort)))
    if query.after is not None:
        marker = query.after
        found = [server for server in found if compared(server, marker, query.sort) > 0]
    return found[: query.limit]


def _is_wanted(server: Server, query: ServerQuery) -> bool:
    is_kept = server.vm_state == server_states.SOFT_DELETED
    if query.soft_deleted is False and is_kept:
        return False
    if query.deleted and query.soft_deleted and is_kept:
        return True
    return query.deleted in (None, server.deleted_at is not None)


def maybe(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(values)


def some(values: Sequence[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), max_size=3)


@st.composite
def orders(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Draw an order of servers; like the API's it ends with the id, so that no two are equal."""
    names = draw(st.lists(st.sampled_from(SORTABLE[1:]), max_size=3, unique=True))
    return [(name, draw(st.sampled_from(("asc", "desc")))) for name in (*names, "id")]


ONE_FILTER = {
    "project_id": maybe(("p", "q", "r")),
    "user_id": maybe(("u", "v", "V")),
    "states": st.none()
    | some(["ACTIVE", "RESIZE", "REBOOT", "BUILD", "ERROR", "VERIFY_RESIZE", "DELETED"]).map(
        server_states.states_with_status
    ),
    "vm_states": st.none() | some(server_states.VM_STATES),
    "task_states": st.none() | some((None, *TASKS)),
    "host": maybe(("h1", "h2", "h3")),
    "flavor_id": maybe(WORDS),
    "image_id": maybe(("image", "Image", "other")),
    "zone": maybe(("north", "North")),
    "key_name": maybe(WORDS),
    "hostname": maybe(WORDS),
    "reservation_id": maybe(("r-1", "R-1")),
    "locked": maybe((True, False)),
    "tags": some(TAGS),
    "tags_any": some(TAGS),
    "not_tags": some(TAGS),
    "not_tags_any": some(TAGS),
    "changed_since": maybe((NOW - 1, *TIMES)),
    "changed_before": maybe((NOW - 1, *TIMES)),
    "created_at": maybe(TIMES),
    "launched_at": maybe(TIMES),
    "terminated_at": maybe(TIMES),
    "launched_before": maybe((NOW - 1, *TIMES)),
    "ended_since": maybe((NOW - 1, *TIMES)),
    "deleted": maybe((True, False)),
    "soft_deleted": maybe((True, False)),
    "ids": st.none() | some([f"server-{number}" for number in range(60)] + ["nobody"]),
}


@st.composite
def queries(draw: st.DrawFn, servers: list[Server]) -> ServerQuery:
    """Draw a query with up to three filters, any order, marker and limit; with more of them nothing is found."""
    names = draw(st.lists(st.sampled_from(list(ONE_FILTER)), max_size=3, unique=True))
    filters = {name: draw(ONE_FILTER[name]) for name in names}
    number = draw(st.none() | st.integers(0, len(servers) - 1))
    return ServerQuery(
        **{"deleted": None, **filters},
        sort=draw(orders()),
        after=None if number is None else servers[number],
        limit=draw(st.none() | st.integers(0, 12)),
    )
