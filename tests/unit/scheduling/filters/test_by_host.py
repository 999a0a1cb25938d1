"""Filters by what goes on at a host, and by lists of hosts."""

import pytest

from tests.unit.scheduling.capacity import host, snapshot
from tests.unit.scheduling.passing import asking, passing, rules
from whimbrel.ports.stores.fleet import Load

HOSTS = [host("here"), host("there")]


def test_hosts_whose_disks_are_busy_are_left_out() -> None:
    loads = {"here": Load(io_ops=8), "there": Load(io_ops=7)}
    assert passing("IoOpsFilter", asking(), snapshot(HOSTS, loads=loads)) == {"there"}
    few = rules(max_io_ops_per_host=7)
    assert passing("IoOpsFilter", asking(), snapshot(HOSTS, loads=loads, rules=few)) == set()


def test_hosts_that_have_as_many_servers_as_they_may_are_left_out() -> None:
    loads = {"here": Load(servers=50), "there": Load(servers=49)}
    assert passing("NumInstancesFilter", asking(), snapshot(HOSTS, loads=loads)) == {"there"}
    many = rules(max_instances_per_host=51)
    assert passing("NumInstancesFilter", asking(), snapshot(HOSTS, loads=loads, rules=many)) == {"here", "there"}


@pytest.mark.parametrize(
    ("hosts", "images", "restricts", "image", "who"),
    [
        (["here"], ["special"], True, "special", {"here"}),
        (["here"], ["special"], True, "usual", {"there"}),
        (["here"], ["special"], True, None, {"there"}),
        (["here"], ["special"], False, "special", {"here"}),
        (["here"], ["special"], False, "usual", {"here", "there"}),
        (["here"], [], True, "usual", {"there"}),
        (["here"], [], False, "usual", {"here", "there"}),
        ([], ["special"], True, "special", set()),
        ([], ["special"], True, "usual", {"here", "there"}),
        ([], [], True, "usual", {"here", "there"}),
    ],
)
def test_isolated_images_and_hosts(
    hosts: list[str], images: list[str], restricts: bool, image: str | None, who: set[str]
) -> None:
    isolating = rules(
        isolated_hosts=tuple(hosts),
        isolated_images=tuple(images),
        restrict_isolated_hosts_to_isolated_images=restricts,
    )
    assert passing("IsolatedHostsFilter", asking(image_id=image), snapshot(HOSTS, rules=isolating)) == who


def test_who_wants_pci_devices_goes_where_there_are_some_taken_or_not() -> None:
    now = snapshot(HOSTS, loads={"here": Load(pci=2, free_pci=0)})
    assert passing("PciPassthroughFilter", asking(wants_pci=True), now) == {"here"}
    assert passing("PciPassthroughFilter", asking(), now) == {"here", "there"}


def test_all_hosts_filter_lets_all_pass() -> None:
    assert passing("AllHostsFilter", asking(), snapshot([host("here", enabled=False)])) == {"here"}
