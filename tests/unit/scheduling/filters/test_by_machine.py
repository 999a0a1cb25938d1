"""A guest of a type of machine goes to hosts that have it, or that do not say which they have."""

import json

from tests.unit.scheduling.capacity import host, snapshot
from tests.unit.scheduling.passing import asking
from whimbrel.scheduling.decision import make_trace
from whimbrel.scheduling.pipeline import rank
from whimbrel.scheduling.request import Request


def info(*machines: str) -> str:
    return json.dumps({"arch": "x86_64", "machines": machines})


NOW = snapshot(
    [
        host("new", cpu_info=info("pc", "q35", "pc-q35-9.0", "pc-q35-7.2")),
        host("old", cpu_info=info("pc", "q35", "pc-q35-7.2")),
        host("none", cpu_info=info("pc")),
        host("silent", cpu_info="{}"),
        host("broken", cpu_info="no JSON"),
    ]
)


def passing(request: Request) -> set[str]:
    return {NOW.fleet.names[place] for place in rank(request, NOW).order.tolist()}


def test_any_host_runs_a_guest_without_a_type() -> None:
    assert passing(asking()) == set(NOW.fleet.names)


def test_hosts_without_the_type_are_passed_over_and_it_is_named() -> None:
    assert passing(asking(machine="q35")) == {"new", "old", "silent", "broken"}
    assert passing(asking(machine="pc-q35-9.0")) == {"new", "silent", "broken"}
    trace = make_trace(rank(asking(machine="pc-q35-9.0"), NOW), {}, ())
    [reason] = [one.reason for one in trace.considered if one.host == "old"]
    assert reason
    assert (reason.constraint, reason.words) == ("machine type", "its hypervisor has no machine of type pc-q35-9.0")
