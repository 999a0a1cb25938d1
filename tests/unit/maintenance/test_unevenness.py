"""The unevenness of used shares: what a move is said to change is what it changes."""

import tracemalloc
from random import Random

import numpy as np
import pytest

from tests.depth import one_in
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.maintenance_goal import UsedShares
from whimbrel.maintenance.host_shares import HostShares
from whimbrel.maintenance.unevenness import MoveOrder, Unevenness

HOSTS = tuple(HostName(f"h{number}") for number in range(4))
SERVERS = tuple(ServerId(f"s{number}") for number in range(6))


def random_shares(rng: Random) -> tuple[HostShares, list[int]]:
    """Return shares of hosts of which one has no disk, and the row of the host of each server."""
    capacity = np.array([[rng.randint(8, 64), rng.randint(8, 64), rng.choice((0, 100))] for _ in HOSTS], float)
    needs = {server: np.array([rng.randint(1, 3), rng.randint(1, 3), rng.randint(0, 9)], float) for server in SERVERS}
    homes = [rng.randrange(len(HOSTS)) for _ in SERVERS]
    used = np.zeros((len(HOSTS), 3))
    for server, row in zip(SERVERS, homes, strict=True):
        used[row] += needs[server]
    return HostShares(HOSTS, capacity, used, tuple(homes.count(row) for row in range(len(HOSTS))), needs), homes


def total(shares: HostShares, spread: float) -> float:
    """Return the unevenness, computed host by host."""
    found = 0.0
    for resource in range(3):
        known = [row for row in range(len(HOSTS)) if shares.capacity[row, resource]]
        if not known:
            continue
        common = shares.used[:, resource].sum() / sum(shares.capacity[row, resource] for row in known)
        for row in known:
            share = shares.used[row, resource] / shares.capacity[row, resource]
            found += max(0.0, abs(share - common) - spread / 2) ** 2
    return found


def changes_of(shares: HostShares, homes: list[int], spread: float, stays: set[int]) -> dict[tuple[int, int], float]:
    """Return how each move of a server that stays changes the unevenness, if that is for the better."""
    found = {
        (row, column): total(shares.after(SERVERS[row], HOSTS[homes[row]], host), spread) - total(shares, spread)
        for row in stays
        for column, host in enumerate(HOSTS)
        if column != homes[row]
    }
    return {move: change for move, change in found.items() if change < -1e-11}


@pytest.mark.parametrize("seed", one_in(4, range(20)))
async def test_moves_are_ordered_by_what_they_change(seed: int) -> None:
    """After each move too, of which only two hosts are computed anew."""
    rng = Random(seed)
    shares, homes = random_shares(rng)
    spread = rng.choice((0.0, 0.05, 0.1))
    order = MoveOrder(Unevenness(shares, spread), np.array([shares.needs[server] for server in SERVERS]), homes)
    stays = set(range(len(SERVERS)))
    while expected := changes_of(shares, homes, spread, stays):
        found = [move for move in order.best(1000) if move in expected]
        assert sorted(found) == sorted(expected)
        assert [expected[move] for move in found] == pytest.approx(sorted(expected.values()), abs=1e-11)
        assert list(order.best(2)) == list(order.best(1000))[:2]
        row, column = rng.choice(found)
        shares = shares.after(SERVERS[row], HOSTS[homes[row]], HOSTS[column])
        stays.remove(row)
        order.moved(row, column, Unevenness(shares, spread))


@pytest.mark.parametrize("seed", one_in(4, range(20)))
async def test_one_move_ends_it_only_where_that_is_possible(seed: int) -> None:
    rng = Random(seed)
    shares, homes = random_shares(rng)
    now = Unevenness(shares, rng.choice((0.2, 0.3, 0.4)))
    ends = any(
        Unevenness(shares.after(server, HOSTS[homes[row]], host), now.spread).is_acceptable
        for row, server in enumerate(SERVERS)
        for host in HOSTS
        if host != HOSTS[homes[row]]
    )
    assert now.may_end_by_one_move or not ends


async def test_many_servers_and_hosts_are_compared_in_little_memory() -> None:
    rng = np.random.default_rng(1)
    hosts, servers = tuple(HostName(f"h{number}") for number in range(400)), 2000
    capacity, used = np.full((len(hosts), 3), 100.0), rng.uniform(0, 90, (len(hosts), 3))
    now = Unevenness(HostShares(hosts, capacity, used, (8,) * len(hosts), {}), 0.1)
    needs, sources = rng.uniform(1, 2, (servers, 3)), [number % len(hosts) for number in range(servers)]
    tracemalloc.start()
    try:
        found = list(MoveOrder(now, needs, sources).best(100))
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
    assert len(found) == 100


@pytest.mark.parametrize("seed", range(10))
def test_a_move_and_its_return_leave_the_shares_as_they_were(seed: int) -> None:
    shares, homes = random_shares(Random(seed))
    home = HOSTS[homes[0]]
    back = shares.after(SERVERS[0], home, HOSTS[3]).after(SERVERS[0], HOSTS[3], home)
    assert (back.used == shares.used).all()
    assert back.servers == shares.servers


def test_a_resource_that_a_host_does_not_have_counts_for_no_spread() -> None:
    capacity, used = np.array([[4.0, 8.0, 0.0], [4.0, 8.0, 10.0]]), np.array([[1.0, 2.0, 0.0], [3.0, 2.0, 9.0]])
    shares = HostShares(HOSTS[:2], capacity, used, (1, 2), {})
    assert shares.spreads.tolist() == [0.5, 0.0, 0.0]
    assert shares.shown(HOSTS[0]) == UsedShares(vcpus=25.0, memory=25.0, disk=None, servers=1)
    assert (shares.fullest(HOSTS[0]), shares.fullest(HOSTS[1])) == (0.25, 0.9)
    assert Unevenness(shares, 0.5).is_acceptable
    assert not Unevenness(shares, 0.4).is_acceptable
