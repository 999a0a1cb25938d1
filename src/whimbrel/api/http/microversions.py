"""Every microversion of the compute API in one list, and the negotiation of one.

Law: a microversion is known by its minor number (all are 2.x); what changes at which is decided where it changes,
by comparing `call.minor`, and this list says what each one is about.
"""

from collections.abc import Mapping
from functools import lru_cache

import microversion_parse

from whimbrel.api.http.problems import Problem

MICROVERSIONS: dict[int, str] = {
    1: "the start",
    2: "types of keypairs; 201 and 204 for them",
    3: "more attributes of servers: hostname, ramdisk, reservation, launch index, user data, volumes",
    4: "fixed ips show whether they are reserved",
    5: "servers can be filtered by IPv6 address",
    6: "remote-consoles instead of console actions",
    7: "access to flavors is 409 where the flavor is public",
    8: "mks consoles",
    9: "servers show whether they are locked",
    10: "keypairs of other users",
    11: "services can be forced down",
    12: "networks of virtual interfaces",
    13: "project and user of server groups",
    14: "evacuate without onSharedStorage",
    15: "soft affinity",
    16: "servers show host_status",
    17: "crash dumps",
    18: "no project id in the URL",
    19: "servers have a description",
    20: "volumes of shelved servers",
    21: "actions of deleted servers",
    22: "live migrations can be forced to complete",
    23: "live migrations of one server; migration_type",
    24: "live migrations can be aborted",
    25: "block_migration auto",
    26: "tags of servers",
    27: "the header OpenStack-API-Version",
    28: "cpu_info is an object",
    29: "evacuate with force",
    30: "live migration with force",
    31: "tokens of all console types",
    32: "tags of devices",
    33: "paging of hypervisors",
    34: "live migration checks later",
    35: "paging of keypairs",
    36: "proxies to other services are gone",
    37: "networks must be said at create: a list, auto or none",
    38: "an unknown status filter is 400",
    39: "image metadata is gone",
    40: "paging of usage",
    41: "aggregates show their uuid",
    42: "tags of devices again",
    43: "os-hosts is gone",
    44: "fixed and floating ip actions are gone",
    45: "createImage answers with the image id",
    46: "the header X-OpenStack-Request-ID",
    47: "servers show their flavor instead of its id",
    48: "diagnostics in one shape",
    49: "tags of attached devices",
    50: "quota classes show server groups",
    51: "events of actions for everybody",
    52: "tags at create",
    53: "services and hypervisors have uuids",
    54: "key at rebuild",
    55: "flavors have a description",
    56: "migrate to a host",
    57: "no personality, no network quotas",
    58: "paging of actions",
    59: "paging and uuids of migrations",
    60: "volumes attached more than once",
    61: "flavors show their extra specs",
    62: "events show their host",
    63: "trusted image certificates",
    64: "rules of server groups",
    65: "queued live migrations can be aborted",
    66: "changes-before",
    67: "volume type at create",
    68: "no forced moves",
    69: "servers of cells that are down",
    70: "tags of devices are shown",
    71: "servers show their group",
    72: "ports with bandwidth at create",
    73: "locking with a reason",
    74: "create on a host",
    75: "unknown query keys are 400 at lists; one shape for show, update and rebuild",
    76: "the event power-update",
    77: "unshelve into a zone",
    78: "topology of servers",
    79: "delete_on_termination of attachments",
    80: "migrations show who asked",
    81: "images are fetched ahead",
    82: "the event accelerator-request-bound",
    83: "more filters for everybody",
    84: "events show details",
    85: "delete_on_termination can be changed",
    86: "extra specs are checked",
    87: "rescue of servers on volumes",
    88: "hypervisors show no use",
    89: "attachments show their ids",
    90: "hostname can be set",
    91: "unshelve to a host",
    92: "public keys are imported only",
    93: "rebuild of servers on volumes",
    94: "hostname may be a full domain name",
    95: "evacuated servers stay stopped",
    96: "servers show the zone that they are pinned to",
    97: "shares",
    98: "servers show properties of their image",
    99: "direct spice consoles",
    100: "servers show their scheduler hints",
    101: "volumes are attached later",
    102: "unknown query keys are 400 everywhere; flavors can be filtered by name",
    103: "os-volumes_boot is gone",
    104: "servers can be pinned to their zone and unpinned",
}

FIRST = min(MICROVERSIONS)
LAST = max(MICROVERSIONS)

_LEGACY_HEADER = "x-openstack-nova-api-version"


def negotiate(headers: Mapping[str, str]) -> int:
    """Give the minor version that a request wants. Raises: Problem: 400 unreadable, 406 not ours."""
    return _wanted(headers.get("openstack-api-version", ""), headers.get(_LEGACY_HEADER, ""))


@lru_cache(maxsize=256)
def _wanted(modern: str, legacy: str) -> int:
    sent = {"openstack-api-version": modern, _LEGACY_HEADER: legacy}
    try:
        text = microversion_parse.get_version({k: v for k, v in sent.items() if v}, "compute", [_LEGACY_HEADER])
    except ValueError:
        raise _unreadable(modern or legacy) from None
    if text is None:
        return FIRST
    if text.lower() == "latest":
        return LAST
    return _minor(text)


def _minor(text: str) -> int:
    try:
        major, minor = microversion_parse.parse_version_string(text)
    except TypeError:
        raise _unreadable(text) from None
    if major != 2 or not FIRST <= minor <= LAST:
        reason = f"This API has no version {text}: it has 2.{FIRST} to 2.{LAST}."
        raise Problem(406, reason)
    return int(minor)


def _unreadable(text: str) -> Problem:
    return Problem(400, f"API version {text!r} cannot be read: it has the form 2.N, or is latest.")
