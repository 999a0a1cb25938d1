"""Every microversion: the API differs from the one before, in its routes and bodies, or in what a probe sees."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from tests.api.front import Front
from tools.microversion_table import ANSWERS, WITHOUT_EFFECT, in_routes
from whimbrel.api.http.microversions import FIRST, LAST

Probe = Callable[[Front, str, int], Awaitable[Any]]
"""What an administrator sees at a minor version: of a cloud with one active server, whose id is given."""


def shown(key: str) -> Probe:
    """Look for a key of a server."""

    async def probe(front: Front, server: str, minor: int) -> bool:
        return key in await front.show(server, who="admin", minor=minor)

    return probe


def key_at(path: str, key: str) -> Probe:
    """Look for a key of the first thing of a list."""

    async def probe(front: Front, server: str, minor: int) -> bool:
        listed, *_ = (await front.get(path, who="admin", minor=minor)).values()
        return key in listed[0]

    return probe


def status_of(method: str, path: str, body: Any = None, who: str = "admin") -> Probe:
    """Look at the status of an answer."""

    async def probe(front: Front, server: str, minor: int) -> int:
        return (await front.ask(method, path, body, who=who, minor=minor)).status_code

    return probe


def count_at(path: str, who: str = "member") -> Probe:
    """Count what a list has."""

    async def probe(front: Front, server: str, minor: int) -> int:
        listed, *_ = (await front.get(path, who=who, minor=minor)).values()
        return len(listed)

    return probe


async def kind_of_cpu_info(front: Front, server: str, minor: int) -> bool:
    found = (await front.get("/os-hypervisors/detail", who="admin", minor=minor))["hypervisors"]
    return isinstance(found[0]["cpu_info"], str)


async def has_image_id(front: Front, server: str, minor: int) -> bool:
    answer = await front.act(server, {"createImage": {"name": "i"}}, minor=minor)
    await front.settle()
    return bool(answer.content)


async def keys_of_diagnostics(front: Front, server: str, minor: int) -> frozenset[str]:
    return frozenset(await front.get(f"/servers/{server}/diagnostics", who="admin", minor=minor))


async def names_of_flavor(front: Front, server: str, minor: int) -> frozenset[str]:
    return frozenset((await front.show(server, minor=minor))["flavor"])


async def keys_of_image(front: Front, server: str, minor: int) -> frozenset[str]:
    return frozenset((await front.show(server, minor=minor))["image"])


async def keys_of_event(front: Front, server: str, minor: int) -> frozenset[str]:
    path = f"/servers/{server}/os-instance-actions"
    *_, made = (await front.get(path, minor=minor))["instanceActions"]
    found = await front.get(f"{path}/{made['request_id']}", who="admin", minor=minor)
    return frozenset(key for event in found["instanceAction"]["events"] for key in event)


PROBES: Mapping[int, Probe] = {
    3: shown("OS-EXT-SRV-ATTR:hostname"),
    5: count_at("/servers?ip6=none"),
    7: status_of("POST", "/flavors/1/action", {"addTenantAccess": {"tenant": "p"}}),
    9: shown("locked"),
    13: key_at("/os-server-groups", "project_id"),
    16: shown("host_status"),
    28: kind_of_cpu_info,
    38: status_of("GET", "/servers?status=none", who="member"),
    41: key_at("/os-aggregates", "uuid"),
    45: has_image_id,
    47: names_of_flavor,
    48: keys_of_diagnostics,
    61: key_at("/flavors/detail", "extra_specs"),
    62: keys_of_event,
    71: shown("server_groups"),
    83: count_at("/servers?power_state=4"),
    86: status_of("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"hw:numa_nodes": "none"}}),
    96: shown("pinned_availability_zone"),
    98: keys_of_image,
    100: shown("scheduler_hints"),
}

SEEN_BY: Mapping[int, str] = {
    20: "test_volume_attachments.py::test_volumes_come_to_and_go_from_a_server_that_is_on_no_host",
    21: "test_instance_actions.py::test_the_history_of_a_deleted_server_is_kept",
    31: "test_remote_consoles.py::test_an_administrator_looks_a_token_up",
    34: "test_live_migration.py::test_below_2_34_the_request_itself_is_refused_if_there_is_no_host",
    60: "test_volume_attachments.py::test_what_cannot_be_attached_is_refused_and_leaves_nothing",
    65: "test_live_migration.py::test_a_live_migration_is_aborted",
    69: "test_down_cells.py::test_where_nobody_can_know_they_are_left_out",
    70: "test_volume_attachments.py::test_what_is_shown_grows_with_the_version",
    72: "test_create_devices.py::test_networks_that_cannot_be_had_are_refused_with_the_reason",
    84: "test_instance_actions.py::test_who_sees_what_of_an_event",
    87: "test_rescue.py::test_a_server_on_a_volume_is_rescued_from_2_87_on",
    89: "test_volume_attachments.py::test_what_is_shown_grows_with_the_version",
    95: "test_evacuations.py::test_a_guest_stays_stopped_from_2_95_on",
    101: "test_volume_attachments.py::test_from_2_101_on_a_refusal_comes_after_the_answer_and_is_shown_by_the_history",
}
"""Tests beside this one that see the difference, where a probe would need their cloud."""


def test_every_version_differs_or_says_why_not() -> None:
    for minor in range(FIRST + 1, LAST + 1):
        said = (bool(in_routes(minor)) or minor in ANSWERS, minor in WITHOUT_EFFECT)
        assert said in ((True, False), (False, True)), f"2.{minor}: {said}"


def test_what_answers_show_is_seen() -> None:
    assert not PROBES.keys() & SEEN_BY.keys()
    assert PROBES.keys() | SEEN_BY.keys() == ANSWERS
    for place in SEEN_BY.values():
        file, _, name = place.partition("::")
        assert f"async def {name}(" in Path(__file__).with_name(file).read_text(), place


async def test_probes_see_the_difference(front: Front) -> None:
    group = {"server_group": {"name": "g", "policies": ["affinity"]}}
    assert (await front.ask("POST", "/os-server-groups", group, who="admin", minor=1)).status_code == 200
    aggregate = {"aggregate": {"name": "a"}}
    assert (await front.ask("POST", "/os-aggregates", aggregate, who="admin")).status_code == 200
    server = await front.boot()
    seen = {}
    for minor, probe in PROBES.items():
        seen[minor] = [await probe(front, server, each) for each in (minor - 1, minor)]
    alike = {f"2.{minor}": values for minor, values in seen.items() if values[0] == values[1]}
    assert not alike
