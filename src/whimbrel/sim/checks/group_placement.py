"""Invariant I9: server groups, at every instant."""

from collections.abc import Mapping, Sequence

from whimbrel.domain.ids import HostName, ProviderId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.proof.due_allocations import Roots
from whimbrel.proof.group_members import grouped
from whimbrel.proof.invariants.server_groups import rule_holds


async def violated_rules(
    cloud: Cloud,
    groups: Sequence[ServerGroup],
    runs: Sequence[Run],
    servers: Sequence[Server],
    roots: Mapping[HostName, ProviderId],
) -> list[str]:
    """Return the violated group rules, by the servers' claims and by their locations.

    roots: the root provider of each host.
    """
    trees: Roots = {provider.id: provider.root for provider in await cloud.placement.providers()} if groups else {}
    found = [await grouped(cloud, group, runs, servers, roots, trees) for group in groups]
    return [f"I9: {violation.sentence}" for one in found for violation in rule_holds(one)]
