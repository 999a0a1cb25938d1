"""Every microversion of the volume service that changes something here, and the negotiation of one.

Law: a microversion is known by its minor number (all are 3.x); what changes at which is decided where it changes, by
comparing `ask.minor`, and this list says what each one is about. Those that are not here are about what is not served.
"""

import re

from whimbrel.domain.errors import Invalid, Refused

LEAST, MOST = 0, 70
HEADER = "OpenStack-API-Version"
SERVICE = "volume"

MICROVERSIONS: dict[int, str] = {
    0: "the start",
    4: "snapshots are shown with group and user fields later; the same here",
    10: "volumes can be filtered by group: there are none",
    12: "summary of volumes",
    13: "volumes and snapshots show group_id",
    15: "metadata can be changed by who names what he read (ETag): not here",
    21: "administrators see provider_id",
    23: "a volume can be deleted by force",
    27: "attachments",
    31: "filters that are not known are refused",
    34: "lists can be filtered by the beginning of a name: not here",
    36: "summary shows metadata",
    41: "snapshots show their user",
    42: "a volume in use can be extended",
    44: "attachments are completed",
    45: "lists can be counted",
    48: "volumes show shared_targets and service_uuid",
    52: "types can be filtered by extra specs",
    53: "unknown fields of a request are refused",
    54: "attachments are created with a mode",
    61: "volumes show their cluster to administrators",
    63: "volumes show the id of their type",
    64: "volumes show their encryption key: there is none",
    65: "volumes and snapshots show whether they count",
    66: "a volume in use is snapshot without force",
    69: "shared_targets has three values",
}

_VERSION = re.compile(r"^(\d+)\.(\d+)$")


class UnknownVersion(Refused):
    """A version that is not served. 406."""


def negotiated(headers: list[str]) -> int:
    """Give the minor version that the header asks for. Raises: Invalid: it is no version; UnknownVersion."""
    asked = [words for header in headers for each in header.split(",") if (words := each.split())[:1] == [SERVICE]]
    if not asked:
        return LEAST
    if len(asked[0]) != 2:
        raise Invalid(f"The header {HEADER} says '{SERVICE} 3.X' here.")
    if asked[0][1] == "latest":
        return MOST
    found = _VERSION.match(asked[0][1])
    if not found:
        raise Invalid(f"{asked[0][1]} is no API version: it has the form 3.X.")
    major, minor = int(found[1]), int(found[2])
    if major != 3 or not LEAST <= minor <= MOST:
        raise UnknownVersion(f"Version {major}.{minor} is not served: it is from 3.{LEAST} to 3.{MOST}.")
    return minor
