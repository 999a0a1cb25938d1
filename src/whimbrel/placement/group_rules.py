"""The rules of server groups for claims."""

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import ServerId
from whimbrel.ports.placement.placement import GroupLocations, GroupRule


def check(rule: GroupRule, server: ServerId, places: GroupLocations) -> None:
    """Raises: Refused: the claim would violate the group's policy."""
    if reason := problem(rule, server, places):
        raise Refused(reason)


def problem(rule: GroupRule, server: ServerId, places: GroupLocations) -> str | None:
    """Return why a server may not claim on the rule's host, or None. Its own claims never count."""
    others = places.beside(server)
    if rule.policy == "anti-affinity" and others.get(rule.root, 0) >= rule.max_server_per_host:
        return (
            f"The anti-affinity policy of server group {rule.group} does not allow it: of its other servers"
            f" {others[rule.root]} on this host, and at most {rule.max_server_per_host} may be on one host."
        )
    if rule.policy == "affinity" and rule.root != places.moving_to and others.keys() - {rule.root}:
        to = " and the group is being moved to another host" if places.is_moving else ""
        return (
            f"The affinity policy of server group {rule.group} does not allow it: its other servers are not on this"
            f" host{to}. Move them together: whimbrel server move --group."
        )
    return None
