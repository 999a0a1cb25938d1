"""Every microversion of the Placement API in one list.

Invariant: a microversion is identified by its minor number (all are 1.x). Code compares `call.minor` where behaviour
changes; this list describes each version.
"""

from whimbrel.http.microversions import Microversions

MICROVERSIONS: dict[int, str] = {
    0: "the start: providers, inventories, allocations, usages",
    1: "aggregates of providers",
    2: "custom resource classes",
    3: "providers can be filtered by aggregates",
    4: "providers can be filtered by resources",
    5: "all inventories of a provider can be deleted",
    6: "traits",
    7: "PUT makes a resource class, and does not rename one any more",
    8: "allocations must say project and user",
    9: "usages of projects and users",
    10: "allocation candidates",
    11: "providers have a link to their allocations",
    12: "allocations are written as they are read: an object by provider",
    13: "allocations of several consumers in one write",
    14: "trees of providers",
    15: "last-modified and cache-control",
    16: "a limit of candidates",
    17: "candidates can require traits, and show them",
    18: "providers can be filtered by traits",
    19: "aggregates change under the provider's generation",
    20: "a created provider is answered with its representation",
    21: "candidates can be filtered by aggregates",
    22: "traits can be forbidden",
    23: "errors have a code",
    24: "member_of can be repeated: all of them must hold",
    25: "numbered groups of requested resources",
    26: "all of an inventory can be reserved",
    27: "candidates show all resources of their providers",
    28: "consumers have a generation",
    29: "candidates take parts from several providers of a tree",
    30: "inventories and allocations can be reshaped in one write",
    31: "candidates of one tree",
    32: "aggregates can be forbidden",
    33: "groups of requested resources have names",
    34: "candidates say which provider serves which group",
    35: "traits that the root must have",
    36: "groups in one subtree",
    37: "a provider can get another parent, or lose it",
    38: "types of consumers",
    39: "one of several traits, and required can be repeated",
}

FIRST = min(MICROVERSIONS)
LAST = max(MICROVERSIONS)
VERSIONS = Microversions(
    "placement",
    1,
    FIRST,
    LAST,
    unreadable="invalid version string: {text}",
    unknown="Unacceptable version header: {text}. This API has {min_version} to {max_version}.",
)
