"""File names: two modules have one name only where one mirrors the other. Tests with real services are marked."""

import re
from collections import Counter
from pathlib import Path

import whimbrel
from tests.openstack.users import using_files

PACKAGE = Path(whimbrel.__file__).parent
TESTS = Path(__file__).parent.parent
USES_REAL_SERVICES = re.compile(r"^(?!def ).*\breal_services\(\)", re.MULTILINE)
IS_MARKED = re.compile(r"\bpytest\.mark\.openstack\b|\bREAL\b")
MARKS = re.compile(r"^(@|pytestmark = .*)pytest\.mark\.openstack\b|^from .* import .*\bREAL\b", re.MULTILINE)

RESOURCES = {
    "agent", "aggregates", "allocations", "announcements", "bus_accounts",
    "candidates", "cell", "cells", "cloud", "console_tokens",
    "consoles", "decisions", "directory", "disks", "evidence", "extra_specs", "fences",
    "flavors", "fleet", "floating_ips", "group_members", "group_moves",
    "groups", "guest", "guest_power", "guests", "histories", "history", "host",
    "host_evacuations", "host_keys", "host_metrics", "host_power", "hosts",
    "hypervisor", "hypervisors", "identity", "image_fetches", "images", "interfaces", "journal",
    "keypairs", "limits", "live_transfers",
    "maintenances", "metadata", "metadefs", "moves", "network", "network_proxies", "networks", "notifications", "numa",
    "pci_devices", "placement", "plans", "port_healings", "ports", "processes", "proof", "provider_trees",
    "providers", "quota_usage", "quotas", "remote_consoles", "repairs", "rescues", "resource_names", "restore",
    "restores", "security_groups", "segments", "server", "server_events", "server_groups",
    "servers", "services", "snapshots", "status", "tags", "tokens",
    "traits", "types", "volume_exports", "volume_proxies", "volumes", "zones",
}  # fmt: skip
"""Resources: a file of this name holds what its package does with the resource, be it a route, a table or a step."""

ROLES = {
    "actions", "advice", "app", "assignments", "bodies", "by_name", "call", "capacity", "catalog", "claims",
    "client", "clock", "create", "creation", "database", "decision", "errors", "facts", "file_store", "ids",
    "key_value_store", "locks", "microversions", "not_supported", "paging", "parts", "policy", "problems", "queries",
    "request", "rounds", "routes", "run", "schema", "schemas", "search", "service", "store", "versions", "views",
}  # fmt: skip
"""Roles: a file of this name plays the same part in each of its packages, such as the routes of an application."""


def test_a_name_is_repeated_for_a_mirror_only() -> None:
    found = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    modules = [path for path in found if "versions" not in path.parts and path.stem != "__init__"]
    repeated = {name for name, times in Counter(path.stem for path in modules).items() if times > 1}
    assert repeated <= RESOURCES | ROLES
    assert (RESOURCES | ROLES) - {path.stem for path in modules} == set(), "names that are no more"


def test_ci_finds_the_tests_that_use_real_openstack_services() -> None:
    texts = {path.relative_to(TESTS): path.read_text() for path in TESTS.rglob("*.py")}
    users = [path for path, text in texts.items() if USES_REAL_SERVICES.search(text)]
    unmarked = [str(path) for path in users if not IS_MARKED.search(texts[path])]
    assert unmarked == [], "mark these tests by pytest.mark.openstack, or use REAL of tests/openstack_services.py"
    marked = {path for path, text in texts.items() if MARKS.search(text)}
    assert len(marked) > 5
    collected = {path.relative_to("tests") for path in using_files()}
    assert marked <= collected, "let these import tests.openstack_services"
