"""Bodies and queries at every microversion: whatever is sent, it is never our bug."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import httpx
import pytest

from tests.api.standing import BROUGHT_BY, Standing, copied
from tests.depth import examples, one_in
from whimbrel.api.http.call import Route
from whimbrel.api.http.microversions import FIRST, LAST
from whimbrel.api.routes import ROUTES
from whimbrel.sim.cloud.cloud import IMAGE

PARTS = 4
SEEDS = 12
NOT_IMPLEMENTED = frozenset(f"/os-hosts/{{host}}{action}" for action in ("", "/startup", "/shutdown", "/reboot"))
"""Paths of routes that are answered 501 as by Nova with its libvirt driver."""

ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, 1e300, "", " ", "\x00", "\u2028", "\U0001f980", "é" * 300, "-1", "None", "9" * 30),
    *([], {}, [None], [[]], {"": {}}, {"k": "v"}),
)
WORDS = ("a", "ab", "a b", "1", "2", "none", "auto", "true", "x" * 255, "desc", "created_at", "active", "ERROR")
FORMATS: Mapping[str, Sequence[str]] = {
    "ipv4": ("10.0.0.1", "10.0.0.77"),
    "ipv6": ("::1", "2001:db8::7"),
    "iso-time": ("2026-01-01T00:00:00Z", "1970-01-01", "9999-12-31T23:59:59+00:00", "0001-01-01"),
    "base-64": ("aGk=",),
    "int32": ("0", "1", "2147483647"),
    "int64": ("0", "1", "9223372036854775807"),
}
SAME: Mapping[str, str] = {
    **dict.fromkeys(("imageRef", "rescue_image_ref", "image_ref", "image"), "image_id"),
    **dict.fromkeys(("flavorRef", "flavor"), "flavor_id"),
    **dict.fromkeys(("hypervisor_hostname", "source_compute", "node"), "host"),
    **dict.fromkeys(
        ("server_uuid", "same_host", "different_host", "serverId", "instance_uuid", "subject"), "server_id"
    ),
    **dict.fromkeys(("net_id", "networkId"), "network_id"),
    "volumeId": "volume_id",
    "port": "port_id",
    "key_name": "key",
    "group": "group_id",
    "tenant": "project_id",
    "tenant_id": "project_id",
    "availability_zone": "zone_id",
    "pinned_availability_zone": "zone_id",
}
"""Keys of bodies and queries that name what a parameter of a path names."""


SERVERS = ("runs", "on a volume", *BROUGHT_BY)
NEEDED: Mapping[str, str] = {
    **dict.fromkeys(("confirmResize", "revertResize"), "resized"),
    "os-start": "stopped",
    "unpause": "paused",
    "resume": "suspended",
    "unrescue": "rescued",
    "unlock": "locked",
    **dict.fromkeys(("unshelve", "shelveOffload"), "shelved"),
}
"""The servers that are in the state that an action needs."""


def minors_of(route: Route, rng: Random) -> list[int]:
    """Return the first minor version of each schema that a route has, and any others of its versions."""
    every = [minor for minor in range(FIRST, LAST + 1) if route.serves(minor)]
    firsts = {every[0], every[-1], *(route.body.minors if route.body else ()), *route.query.minors}
    return [*sorted(firsts.intersection(every)), *rng.choices(every, k=examples(4))]


class Sender:
    """Makes requests up. oddness: the probability of an odd value; likely: that of a key that may be absent."""

    def __init__(self, rng: Random, known: Mapping[str, Sequence[str]]) -> None:
        self.rng, self.known = rng, known
        self.every_id = [id for ids in known.values() for id in ids]
        self.oddness = self.likely = 0.0

    def request(self, route: Route, minor: int) -> tuple[str, Any, dict[str, str]]:
        """Return path, body and query."""
        self.oddness, self.likely = self.rng.choice((0.0, 0.0, 0.02, 0.15)), self.rng.choice((0.0, 0.1, 0.3, 0.6))
        keys = route.query.keys_at(minor)
        query = {key: self.value(schema.get("items", {}), key) for key, schema in keys.items() if self.is_used()}
        return self.path(route), self.body(route, minor), {key: str(value) for key, value in query.items()}

    def is_used(self) -> bool:
        return self.rng.random() < self.likely

    def path(self, route: Route) -> str:
        parts = route.path.split("/")
        for place, part in enumerate(parts):
            if part.startswith("{"):
                parts[place] = self.id(part[1:-1], parts[place - 1], route)
        return "/".join(parts)

    def id(self, name: str, before: str, route: Route) -> str:
        """Return an id for a parameter of a path, mostly one that exists, and is in a state that the action needs."""
        if self.rng.random() < 0.1:
            return self.rng.choice(("1", "none", *self.every_id))
        ids = self.known.get(f"{before}/{name}") or self.known.get(name, ["1"])
        if name == "server_id" and self.rng.random() < 0.6:
            return ids[SERVERS.index(NEEDED.get(route.action or "", "runs"))]
        return self.rng.choice(ids)

    def body(self, route: Route, minor: int) -> Any:
        schema = route.body.at(minor) if route.body else None
        if schema is None:
            return {route.action: self.rng.choice((None, *ODD))} if route.action else None
        body = self.value(schema, "")
        right = RIGHT.get((route.method, route.path))
        if right is None or self.oddness > 0.1 or not isinstance(body, dict):
            return body
        return {
            key: inner | right[key](self, minor) if key in right and isinstance(inner, dict) else inner
            for key, inner in body.items()
        }

    def value(self, schema: Mapping[str, Any], key: str) -> Any:
        """Return a value that a schema permits, but for odd values in places."""
        rng = self.rng
        if rng.random() < self.oddness:
            return rng.choice(ODD)
        if "enum" in schema or "const" in schema:
            return rng.choice(schema.get("enum") or [schema["const"]])
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            return self.value({**schema, "anyOf": None, "oneOf": None} | rng.choice(choices), key)
        kind = schema.get("type", "string")
        kind = rng.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            return dict(self.properties(schema))
        if kind == "array":
            count = rng.choice((schema.get("minItems", 0), 1, 1, 2))
            return [self.value(schema.get("items") or {}, key) for _ in range(count)]
        if kind in ("integer", "number"):
            return rng.choice((schema.get("minimum", 0), schema.get("maximum", 7), 1, 2))
        if kind in ("null", "boolean"):
            return None if kind == "null" else rng.random() < 0.5
        return self.text(schema, key)

    def properties(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, inner in schema.get("properties", {}).items():
            if name in schema.get("required", ()) or self.is_used():
                yield name, self.value(inner, name)
        for inner in schema.get("patternProperties", {}).values():
            yield self.rng.choice(("k", "a b", "é", "hw:cpu_policy", "x" * 255)), self.value(inner, "")
        if self.rng.random() < self.oddness:
            yield "unknown", 1

    def text(self, schema: Mapping[str, Any], key: str) -> str:
        """Return an id of what the key names, any id, or a word: one that the pattern permits, if there is one."""
        form, turn = schema.get("format", ""), self.rng.random()
        texts = [*(self.every_id if form == "any-uuid" or turn < 0.1 else FORMATS.get(form, WORDS))]
        if (ids := self.known.get(SAME.get(key, key))) and turn < 0.8:
            texts = [*ids]
        return self.rng.choice([text for text in texts if re.search(schema.get("pattern", ""), text)] or texts)


def bootable(sender: Sender, minor: int) -> dict[str, Any]:
    networks = {"networks": sender.rng.choice(("none", "auto"))} if minor >= 37 else {}
    return {"flavorRef": "1", "imageRef": IMAGE} | networks


RIGHT: Mapping[tuple[str, str], Mapping[str, Callable[[Sender, int], dict[str, Any]]]] = {
    ("POST", "/servers"): {"server": bootable},
    ("POST", "/os-volumes_boot"): {"server": bootable},
}
"""What bodies need to be done, which no schema says: by route, the values of the keys in a key of the body."""


@pytest.mark.parametrize("seed", one_in(SEEDS, range(SEEDS)))
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_that_is_sent_at_any_version_is_our_bug(part: int, seed: int) -> None:
    """Every route in a copy of a cloud, whose invariants hold afterwards."""
    for route in ROUTES[part::PARTS]:
        # The seed is the route's: another route changes nothing for it.
        rng = Random(f"{seed} {route.method} {route.path} {route.action}")
        for standing in copied():
            sender = Sender(rng, standing.known)
            for minor in minors_of(route, rng):
                for _ in range(examples(8)):
                    send(standing, sender, route, minor)


def is_not_implemented(route: Route) -> bool:
    return route.refuses == 501 or route.path in NOT_IMPLEMENTED


def send(standing: Standing, sender: Sender, route: Route, minor: int) -> None:
    path, body, query = sender.request(route, minor)
    who = sender.rng.choice(("member", "admin"))
    headers = {"X-Auth-Token": who, "OpenStack-API-Version": f"compute 2.{minor}"}
    sent = standing.client.request(
        route.method, f"/compute/v2.1{path}", json=body, headers=headers, params=query or None
    )
    answer: httpx.Response = standing.loop.run_until_complete(sent)
    told = f"{who} {route.method} {path} 2.{minor} {query} {body!r:.2000}: {answer.status_code} {answer.text}"
    assert answer.status_code < 500 or (answer.status_code == 501 and is_not_implemented(route)), told
    if answer.status_code >= 400:
        [fault] = answer.json().values()
        assert (fault["code"], bool(fault["message"])) == (answer.status_code, True), told
    else:
        assert answer.status_code in (route.ok, route.ok_too), told
