"""What is used of hosts, as shares of what Placement gives there, and how moves of servers change it.

Invariant: nothing is changed; a move makes new shares.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from whimbrel.domain.host import Host
from whimbrel.domain.ids import ConsumerId, HostName, ServerId
from whimbrel.domain.maintenance_goal import UsedShares
from whimbrel.domain.resources import DISK_GB, MEMORY_MB, PCPU, VCPU
from whimbrel.domain.server import Server
from whimbrel.ports.arrays import Floats
from whimbrel.ports.cloud import Cloud

NAMES = ("vcpus", "memory", "disk")
RESOURCE = {VCPU: 0, PCPU: 0, MEMORY_MB: 1, DISK_GB: 2}
"""Resource class -> number of the resource that it counts as."""


@dataclass(frozen=True, eq=False)
class HostShares:
    """Rows are hosts, columns the three resources. needs: what each server has claimed of its host."""

    hosts: tuple[HostName, ...]
    capacity: Floats  # 0: the host has no such resource of its own
    used: Floats
    servers: tuple[int, ...]
    needs: Mapping[ServerId, Floats]

    @cached_property
    def row(self) -> Mapping[HostName, int]:
        return {name: number for number, name in enumerate(self.hosts)}

    @cached_property
    def shares(self) -> Floats:
        """Return used shares; nan: the host has no such resource."""
        known = self.capacity > 0
        return np.where(known, self.used / np.where(known, self.capacity, 1.0), np.nan)

    @cached_property
    def spreads(self) -> Floats:
        """Return by how much the largest and the smallest share of each resource differ."""
        known = ~np.isnan(self.shares)
        most = np.where(known, self.shares, -np.inf).max(axis=0, initial=-np.inf)
        least = np.where(known, self.shares, np.inf).min(axis=0, initial=np.inf)
        return np.where(known.any(axis=0), most - least, 0.0)

    def fullest(self, host: HostName) -> float:
        """Return the largest of the shares of a host."""
        return float(np.nanmax(self.shares[self.row[host]], initial=0.0))

    def after(self, server: ServerId, source: HostName, target: HostName) -> "HostShares":
        """Return the shares after a server has moved."""
        used, servers = self.used.copy(), list(self.servers)
        for host, sign in ((source, -1), (target, 1)):
            used[self.row[host]] += sign * self.needs[server]
            servers[self.row[host]] += sign
        return replace(self, used=used, servers=tuple(servers))

    def only(self, hosts: Sequence[HostName]) -> "HostShares":
        rows = [self.row[host] for host in hosts]
        counts = tuple(self.servers[row] for row in rows)
        return HostShares(tuple(hosts), self.capacity[rows], self.used[rows], counts, self.needs)

    def percent(self, host: HostName, resource: int) -> str:
        return f"{100 * self.shares[self.row[host], resource]:.0f} %"

    def shown(self, host: HostName) -> UsedShares:
        row = self.row[host]
        parts = zip(NAMES, self.shares[row].tolist(), strict=True)
        percents = {name: None if share != share else round(100 * share, 2) for name, share in parts}
        return UsedShares(**percents, servers=self.servers[row])


async def read(cloud: Cloud, hosts: Sequence[Host], servers: Mapping[HostName, Sequence[Server]]) -> HostShares:
    """Return the shares of these hosts, and what each of their servers has claimed there."""
    row_of_tree = {host.id: number for number, host in enumerate(hosts)}
    capacity, used = np.zeros((len(hosts), len(NAMES))), np.zeros((len(hosts), len(NAMES)))
    row_of = {}
    for state in await cloud.placement.providers():
        if (row := row_of_tree.get(state.root)) is None:
            continue
        row_of[state.id] = row
        for name, amount in state.capacity.items():
            if (resource := RESOURCE.get(name)) is not None:
                capacity[row, resource] += amount
                used[row, resource] += amount - state.free[name]
    needs: defaultdict[ServerId, Floats] = defaultdict(lambda: np.zeros(len(NAMES)))
    home = {server.id: row_of_tree[host.id] for host in hosts for server in servers[host.name]}
    for claim in await cloud.placement.allocations([ConsumerId(server) for server in home]) if home else ():
        server = ServerId(claim.consumer)
        for name, amount in claim.resources.items():
            if row_of.get(claim.provider) == home[server] and (resource := RESOURCE.get(name)) is not None:
                needs[server][resource] += amount
    for server in home:
        needs[server]  # one that has claimed nothing
    counts = tuple(len(servers[host.name]) for host in hosts)
    return HostShares(tuple(host.name for host in hosts), capacity, used, counts, needs)
