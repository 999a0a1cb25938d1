"""Filters by the activity of a host, and by lists of hosts in the settings."""

from collections.abc import Iterator

from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

ISOLATED = "IsolatedHostsFilter"


def io_ops(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    there, words = snapshot.fleet.io_ops, "it has the maximum number of tasks that load its disks"
    passes = there < snapshot.rules.max_io_ops_per_host
    yield Constraint(
        "IoOpsFilter", passes, words, suggestion=lambda host_index: f"max_io_ops_per_host above {there[host_index]}"
    )


def num_instances(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    there, words = snapshot.fleet.servers, "it has the maximum number of servers"
    passes = there < snapshot.rules.max_instances_per_host
    suggestion = lambda host_index: f"max_instances_per_host above {there[host_index]}"  # noqa: E731
    yield Constraint("NumInstancesFilter", passes, words, suggestion=suggestion)


def isolated(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    """IsolatedHostsFilter: isolated images go to isolated hosts, and by default no other images go there."""
    rules = snapshot.rules
    those = snapshot.fleet.named(rules.isolated_hosts)  # type: ignore[arg-type]
    if request.image_id in rules.isolated_images:
        yield Constraint(
            ISOLATED, those, "it is not for isolated images", suggestion=lambda host_index: "its name in isolated_hosts"
        )
    elif rules.restrict_isolated_hosts_to_isolated_images and rules.isolated_hosts:
        yield Constraint(ISOLATED, ~those, "it is for isolated images only")


def pci(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    """PciPassthroughFilter: exclude hosts without any PCI devices; examining a host checks which devices they are."""
    if request.wants_pci:
        yield Constraint("PciPassthroughFilter", snapshot.fleet.pci > 0, "it offers no PCI devices")
