"""The keys of answers: they come, go and change their types at the versions at which they do in Nova."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from tests.api import nova_facts
from tests.api.devices import network, volume
from tests.api.front import PROJECT, Front
from tests.api.live_moves import SLOW, standing_at
from tests.api.nova_facts import Key
from tests.api.test_remote_consoles import token_of
from tools.api_table import shape, table
from whimbrel.sim.cloud.cloud import IMAGE

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJGp3ThOBYOgXBMdMfBGfxgmrmCxWTnLHgdD6jd2JZnS me@home"
MAPS = ("metadata", "extra_specs", "addresses", "scheduler_hints", "properties", "cpu_info")
"""Keys of objects whose keys are the user's or the host's."""

SEEN_ELSEWHERE: Mapping[tuple[Key, int], str] = {
    (("GET", "/servers", None), 69): "only of servers in a cell that does not answer: test_microversion_table.py",
    (("POST", "/servers/{}/action", "evacuate"), 14): "of a server on a dead host: test_microversion_table.py",
}
FACTS = nova_facts.answers()


class Ask(NamedTuple):
    """A request whose answer is looked at. path: with {} around ids. body: of a front and the minor version.

    since: there is no answer before this version, although there is the route.
    """

    line: str  # of Nova's table of routes
    path: str
    body: Callable[[Front, int], Any] | None = None
    since: int = 1

    @property
    def key(self) -> Key:
        method, path, *action = self.line.split()
        return method, shape(path), action[0] if action else None


Change = tuple[str, int, str]
"""A line of Nova's table of routes, the minor version, and the change as the facts have it."""


def same(body: Any) -> Callable[[Front, int], Any]:
    return lambda front, minor: body


def new_flavor(front: Front, minor: int) -> Any:
    return {"flavor": {"id": f"f{minor}", "name": f"f{minor}", "ram": 1, "vcpus": 1, "disk": 1}}


def new_keypair(front: Front, minor: int) -> Any:
    return {"keypair": {"name": f"k{minor}"} | ({} if minor < 92 else {"public_key": PUBLIC_KEY})}


def new_group(front: Front, minor: int) -> Any:
    return {"server_group": {"name": "g"} | ({"policies": ["affinity"]} if minor < 64 else {"policy": "affinity"})}


def service_change(front: Front, minor: int) -> Any:
    return {"host": "h3", "binary": "nova-compute"} if minor < 53 else {"status": "enabled"}


def attachment(front: Front, minor: int) -> Any:
    return {"volumeAttachment": {"volumeId": volume(front)}}


USAGE = "/os-simple-tenant-usage"
ACTIONS = "/servers/{server}/os-instance-actions"
ATTACHMENTS = "/servers/{server}/os-volume_attachments"
INTERFACES = "/servers/{server}/os-interface"

ASKED = (
    Ask("GET /flavors", "/flavors?limit=1"),
    Ask("POST /flavors", "/flavors", new_flavor),
    Ask("GET /flavors/detail", "/flavors/detail?limit=1"),
    Ask("GET /flavors/{id}", "/flavors/1"),
    Ask("PUT /flavors/{id}", "/flavors/1", same({"flavor": {"description": "small"}})),
    Ask("GET /limits", "/limits"),
    Ask("GET /os-aggregates", "/os-aggregates"),
    Ask("POST /os-aggregates", "/os-aggregates", lambda front, minor: {"aggregate": {"name": f"a{minor}"}}),
    Ask("GET /os-aggregates/{id}", "/os-aggregates/1"),
    Ask("PUT /os-aggregates/{id}", "/os-aggregates/1", same({"aggregate": {"name": "a"}})),
    Ask("POST /os-aggregates/{id}/action add_host", "/os-aggregates/1/action", same({"add_host": {"host": "h3"}})),
    Ask("POST /os-aggregates/{id}/action set_metadata", "/os-aggregates/1/action",
        same({"set_metadata": {"metadata": {"k": "v"}}})),
    Ask("POST /os-aggregates/{id}/action remove_host", "/os-aggregates/1/action",
        same({"remove_host": {"host": "h3"}})),
    Ask("GET /os-console-auth-tokens/{id}", "/os-console-auth-tokens/{token}", since=31),
    Ask("GET /os-hypervisors", "/os-hypervisors?limit=1&with_servers=true"),
    Ask("GET /os-hypervisors/detail", "/os-hypervisors/detail?limit=1&with_servers=true"),
    Ask("GET /os-hypervisors/{id}", "/os-hypervisors/{hypervisor}?with_servers=true"),
    Ask("GET /os-hypervisors/{id}/uptime", "/os-hypervisors/{hypervisor}/uptime"),
    Ask("GET /os-keypairs", "/os-keypairs?limit=1"),
    Ask("POST /os-keypairs", "/os-keypairs", new_keypair),
    Ask("GET /os-keypairs/{id}", "/os-keypairs/k"),
    Ask("GET /os-migrations", "/os-migrations?limit=1"),
    Ask("GET /os-quota-class-sets/{id}", "/os-quota-class-sets/default"),
    Ask("PUT /os-quota-class-sets/{id}", "/os-quota-class-sets/c", same({"quota_class_set": {"cores": 99}})),
    Ask("GET /os-quota-sets/{id}", f"/os-quota-sets/{PROJECT}"),
    Ask("PUT /os-quota-sets/{id}", f"/os-quota-sets/{PROJECT}", same({"quota_set": {"cores": 99}})),
    Ask("GET /os-quota-sets/{id}/detail", f"/os-quota-sets/{PROJECT}/detail"),
    Ask("GET /os-quota-sets/{id}/defaults", f"/os-quota-sets/{PROJECT}/defaults"),
    Ask("GET /os-server-groups", "/os-server-groups"),
    Ask("POST /os-server-groups", "/os-server-groups", new_group),
    Ask("GET /os-server-groups/{id}", "/os-server-groups/{group}"),
    Ask("GET /os-services", "/os-services?binary=nova-compute"),
    Ask("PUT /os-services/{id}", "/os-services/{service}", service_change),
    Ask("GET /os-simple-tenant-usage", f"{USAGE}?detailed=1&limit=1"),
    Ask("GET /os-simple-tenant-usage/{id}", f"{USAGE}/{PROJECT}?limit=1"),
    Ask("GET /servers", "/servers?limit=1"),
    Ask("GET /servers/detail", "/servers/detail?limit=1"),
    Ask("GET /servers/{id}", "/servers/{server}"),
    Ask("PUT /servers/{id}", "/servers/{server}", same({"server": {"name": "one"}})),
    Ask("GET /servers/{server_id}/diagnostics", "/servers/{server}/diagnostics"),
    Ask("GET /servers/{server_id}/migrations", "/servers/{server}/migrations"),
    Ask("GET /servers/{server_id}/migrations/{id}", "/servers/{server}/migrations/{migration}"),
    Ask("GET /servers/{server_id}/os-instance-actions", f"{ACTIONS}?limit=1"),
    Ask("GET /servers/{server_id}/os-instance-actions/{id}", ACTIONS + "/{request}"),
    Ask("GET /servers/{server_id}/os-interface", INTERFACES),
    Ask("GET /servers/{server_id}/os-interface/{id}", INTERFACES + "/{port}"),
    Ask("GET /servers/{server_id}/os-volume_attachments", ATTACHMENTS),
    Ask("GET /servers/{server_id}/os-volume_attachments/{id}", ATTACHMENTS + "/{volume}"),
)  # fmt: skip
"""What is asked while the server is migrated live."""

ACTED = (
    Ask("POST /servers/{server_id}/os-interface", INTERFACES, same({"interfaceAttachment": {}})),
    Ask("POST /servers/{server_id}/os-volume_attachments", ATTACHMENTS, attachment),
    Ask("POST /servers/{id}/action rebuild", "/servers/{server}/action", same({"rebuild": {"imageRef": IMAGE}})),
    Ask("POST /servers/{id}/action createImage", "/servers/{server}/action", same({"createImage": {"name": "i"}})),
    Ask("POST /servers/{id}/action createBackup", "/servers/{server}/action",
        same({"createBackup": {"name": "b", "backup_type": "daily", "rotation": 1}})),
)  # fmt: skip
"""What changes the server itself."""


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> frozenset[str]:
    """Return what has changed, without what is inside of a key that has come or gone."""
    found = [f"+{key}" for key in now.keys() - before.keys()] + [f"-{key}" for key in before.keys() - now.keys()]
    found = [each for each in found if not any(inside(each, other) for other in found)]
    return frozenset(found + [f"~{key}" for key in now.keys() & before.keys() if now[key] != before[key]])


def inside(key: str, other: str) -> bool:
    return key.startswith((other + ".", other + "[]"))


def keys(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place and the type of everything in an answer; of a list in its first item."""
    if isinstance(value, list):
        for inner in value[:1]:
            yield from keys(inner, place + "[]")
    elif isinstance(value, dict):
        is_map = place.endswith(MAPS)
        for key, inner in value.items():
            at = f"{place}.{'*' if is_map else key}" if place else key
            if not is_map:
                yield at, type(inner).__name__
            yield from keys(inner, at)


def minors_of(ask: Ask) -> list[int]:
    """Return the first and the last version of a route, and both sides of each change in Nova."""
    [nova] = [line.nova for line in table() if line.nova.key == ask.key]
    changes = FACTS[ask.key]
    return sorted({max(nova.since, ask.since), nova.until, *changes, *(minor - 1 for minor in changes)})


class Seen:
    """The keys of answers by request and minor version."""

    def __init__(self, front: Front, ids: Mapping[str, str]) -> None:
        self.front, self.ids = front, ids
        self.found: dict[Ask, dict[int, dict[str, str]]] = {}

    async def look(self, asked: Sequence[Ask], *, settle: bool = False) -> None:
        """Send each request at its versions, the oldest first."""
        turns = sorted((minor, place) for place, ask in enumerate(asked) for minor in minors_of(ask))
        for minor, place in turns:
            ask = asked[place]
            path = ask.path.format(**self.ids | ids_at(minor, self.ids))
            body = ask.body(self.front, minor) if ask.body else None
            answer = await self.front.ask(ask.key[0], path, body, who="admin", minor=minor)
            assert answer.status_code < 300, f"{ask.line} at 2.{minor}: {answer.text}"
            is_map = minor < 48 and path.endswith("/diagnostics")  # its keys are then the hypervisor's
            found = dict.fromkeys("*", "map") if is_map else dict(keys(answer.json() if answer.content else {}))
            self.found.setdefault(ask, {})[minor] = found
            if settle:
                await self.front.settle()

    def changes(self) -> Iterator[Change]:
        """Yield how the keys change, with the newer of two versions that follow each other."""
        for ask, found in self.found.items():
            for then, now in pairwise(found):
                for change in differences(found[then], found[now]):
                    yield ask.line, now, change


def ids_at(minor: int, ids: Mapping[str, str]) -> dict[str, str]:
    if minor >= 53:
        return {}
    return {"hypervisor": "1", "service": "enable"}


async def furnished(front: Front) -> dict[str, str]:
    """Make one of everything that is asked for, and return the ids."""
    a = network(front)
    await front.ask("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"k": "v"}}, who="admin")
    await front.ask("PUT", "/flavors/1", {"flavor": {"description": "small"}}, who="admin")
    await front.ask("POST", "/os-keypairs", {"keypair": {"name": "k", "public_key": PUBLIC_KEY}}, who="admin")
    await front.ask("POST", "/os-aggregates", {"aggregate": {"name": "a"}}, who="admin")
    await front.ask("PUT", "/os-aggregates/1", {"aggregate": {"name": "a"}}, who="admin")
    group = (await front.ask("POST", "/os-server-groups", new_group(front, 104), who="admin")).json()["server_group"]
    server = await front.boot(
        who="admin", host="h1", networks=[{"uuid": a}], key_name="k", metadata={"k": "v"}, user_data="aGk="
    )
    made, consoles = volume(front), {"remote_console": {"protocol": "vnc", "type": "novnc"}}
    await front.ask("POST", f"/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": made}})
    await front.settle()
    url = (await front.ask("POST", f"/servers/{server}/remote-consoles", consoles)).json()["remote_console"]["url"]
    [action, *_] = (await front.get(f"/servers/{server}/os-instance-actions"))["instanceActions"]
    [hypervisor, *_] = (await front.get("/os-hypervisors", who="admin"))["hypervisors"]
    [service] = (await front.get("/os-services?host=h3", who="admin"))["services"]
    [nic] = (await front.get(f"/servers/{server}/os-interface"))["interfaceAttachments"]
    return {
        "server": server,
        "group": group["id"],
        "volume": made,
        "token": token_of(url),
        "hypervisor": hypervisor["id"],
        "service": service["id"],
        "port": nic["port_id"],
        "request": action["request_id"],
    }


@pytest.mark.cloud(times=SLOW)
async def test_answers_change_at_the_versions_at_which_they_do_in_nova(front: Front) -> None:
    ids = await furnished(front)
    seen = Seen(front, ids)
    async with standing_at(front, ids["server"], "running") as migration:
        ids["migration"] = str(migration["id"])
        await seen.look(ASKED)
    await front.settle()
    await seen.look(ACTED, settle=True)
    assert seen.found.keys() == {*ASKED, *ACTED}
    assert {ask.key for ask in seen.found} | {key for key, _ in SEEN_ELSEWHERE} == FACTS.keys()
    expected = {
        (ask.line, minor, change)
        for ask in seen.found
        for minor, changes in FACTS[ask.key].items()
        if (ask.key, minor) not in SEEN_ELSEWHERE
        for change in changes
    }
    found = set(seen.changes())
    assert (found - expected, expected - found) == (set(), set())
