"""I9: the policy of a server group holds for the claims and for the locations of its members."""

from collections.abc import Iterator, Mapping

import msgspec

from whimbrel.domain.ids import HostName, ProviderId, ServerId
from whimbrel.ports.placement.placement import GroupLocations
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.proof.violation import Kind, Violation

Location = tuple[ServerId, ProviderId]


class Grouped(msgspec.Struct, frozen=True, kw_only=True):
    """A group and the locations of its servers: by Placement, by claims of them and their moves, by their records.

    The provider of a location is the root provider of its host.
    """

    group: ServerGroup
    places: GroupLocations
    claimed: frozenset[Location]
    recorded: frozenset[Location]
    hosts: Mapping[HostName, ProviderId] = {}

    def in_words(self, places: frozenset[Location]) -> str:
        names: dict[ProviderId, str] = {root: host for host, root in self.hosts.items()}
        words = [f"{server} on {names.get(root, root)}" for server, root in sorted(places)]
        return ", ".join(words) or "nothing"


def rule_holds(one: Grouped) -> Iterator[Violation]:
    group = one.group
    if one.claimed != one.places.held:
        said, claimed = one.in_words(one.places.held), one.in_words(one.claimed)
        sentence = f"group {group.id} is said to hold {said}, and its members hold {claimed}"
        yield _violation(one, Kind.PLACES_DIFFER, sentence)
    for name, where in (("claims", one.claimed), ("records", one.recorded)):
        if _is_broken(group, where, one.places):
            places = one.in_words(where)
            sentence = f"{group.policy} of group {group.id} does not hold by the {name} of its servers: {places}"
            yield _violation(one, Kind.BROKEN_RULE, sentence, name)


def _is_broken(group: ServerGroup, where: frozenset[Location], places: GroupLocations) -> bool:
    servers, hosts = {server for server, _ in where}, {root for _, root in where}
    if group.policy == "anti-affinity":
        return any(sum(root == one for _, one in where) > (group.max_server_per_host or 1) for root in hosts)
    if group.policy == "affinity":
        return len(servers) > 1 and len(hosts) > 1 and places.moving_to is None
    return False


def _violation(one: Grouped, kind: Kind, sentence: str, about: str = "") -> Violation:
    evidence = {"members": list(one.group.members), "policy": one.group.policy}
    return Violation(invariant="I9", kind=kind, subject=one.group.id, about=about, sentence=sentence, evidence=evidence)
