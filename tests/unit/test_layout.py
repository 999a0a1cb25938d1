"""File names: two modules have one name only where one mirrors the other."""

from collections import Counter
from pathlib import Path

import whimbrel

PACKAGE = Path(whimbrel.__file__).parent

RESOURCES = {
    "agent", "aggregates", "allocations", "bus_accounts", "candidates", "cell", "cells", "cloud", "decisions",
    "directory", "disks", "extra_specs", "fences", "flavors", "fleet", "group_members", "group_moves", "guest",
    "guests", "histories", "history", "host", "host_keys", "hosts", "hypervisor", "hypervisors", "identity",
    "images", "interfaces", "journal", "keypairs", "limits", "metadata", "moves", "network", "networks", "numa",
    "pci_devices", "placement", "plans", "port_healings", "ports", "processes", "proof", "provider_trees",
    "providers", "quota_usage", "quotas", "repairs", "resource_names", "restore", "restores", "security_groups",
    "segments", "server", "server_events", "server_groups", "servers", "services", "snapshots", "tags", "tokens",
    "traits", "types", "volume_exports", "volumes", "zones",
}  # fmt: skip
"""Resources: a file of this name holds what its package does with the resource, be it a route, a table or a step."""

ROLES = {
    "actions", "advice", "app", "assignments", "bodies", "by_name", "call", "capacity", "catalog", "claims",
    "client", "clock", "create", "creation", "database", "decision", "errors", "facts", "file_store", "ids",
    "key_value_store", "locks", "microversions", "paging", "parts", "policy", "problems", "queries", "request",
    "rounds", "routes", "run", "schema", "schemas", "search", "service", "store", "versions", "views",
}  # fmt: skip
"""Roles: a file of this name plays the same part in each of its packages, such as the routes of an application."""


def test_a_name_is_repeated_for_a_mirror_only() -> None:
    found = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    modules = [path for path in found if "versions" not in path.parts and path.stem != "__init__"]
    repeated = {name for name, times in Counter(path.stem for path in modules).items() if times > 1}
    assert repeated <= RESOURCES | ROLES
    assert (RESOURCES | ROLES) - {path.stem for path in modules} == set(), "names that are no more"
