"""Every microversion of the volume service that changes an answer, also an answer that something is not supported.

Invariant: a microversion is identified by its minor number (all are 3.x). Code compares `call.minor` where behaviour
changes; this list describes each version.
"""

from whimbrel.http.microversions import Microversions

LEAST, MOST = 0, 70
HEADER = "OpenStack-API-Version"

MICROVERSIONS: dict[int, str] = {
    0: "the start",
    3: "messages: there are none",
    7: "services show their cluster: there is none",
    11: "groups have types: there are none",
    12: "summary of volumes",
    13: "volumes show group_id; groups: there are none",
    14: "snapshots show group_snapshot_id; snapshots of groups: there are none",
    21: "administrators see provider_id",
    23: "a volume can be deleted by force",
    27: "attachments",
    31: "filters that are not known are refused",
    33: "the filters of lists are listed",
    36: "summary shows metadata",
    41: "snapshots show their user",
    42: "a volume in use can be extended",
    44: "attachments are completed",
    45: "lists can be counted",
    48: "volumes show shared_targets and service_uuid",
    49: "services show the state of their back end",
    53: "unknown fields of a request are refused",
    54: "attachments are created with a mode",
    55: "transfers to other projects at volume-transfers: there are none",
    61: "volumes show their cluster to administrators",
    62: "projects have a default type of their own: none has",
    63: "volumes show the id of their type",
    64: "volumes show their encryption key: there is none",
    65: "volumes and snapshots show whether they count",
    66: "a volume in use is snapshot without force",
    68: "the content of a volume can be replaced by an image",
    69: "shared_targets has three values",
}

VERSIONS = Microversions(
    "volume",
    3,
    LEAST,
    MOST,
    unreadable="{text} is no API version: it has the form 3.X.",
    unknown="Version {text} is not served: it is from {min_version} to {max_version}.",
)
