"""The unevenness of used shares: what a move is said to change is what it changes."""

import asyncio
import tracemalloc
from random import Random

import numpy as np
import pytest

from tests.depth import one_in
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.maintenance_goal import UsedShares
from whimbrel.maintenance.host_shares import HostShares
from whimbrel.maintenance.unevenness import Unevenness, best_first

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


@pytest.mark.parametrize("seed", one_in(4, range(20)))
async def test_each_change_is_the_difference_before_and_after_the_move(seed: int) -> None:
    rng = Random(seed)
    shares, homes = random_shares(rng)
    spread = rng.choice((0.0, 0.05, 0.1))
    now = Unevenness(shares, spread)
    changes = now.changes(np.array([shares.needs[server] for server in SERVERS]), homes)
    for number, server in enumerate(SERVERS):
        for column, host in enumerate(HOSTS):
            after = shares.after(server, HOSTS[homes[number]], host)
            assert changes[number, column] == pytest.approx(total(after, spread) - total(shares, spread), abs=1e-12)
    best = best_first(changes, 100)
    values = [changes[row, column] for row, column in best]
    assert all(value < 0 for value in values)
    assert values == sorted(values, key=lambda value: round(value, 12))
    needs = np.array([shares.needs[server] for server in SERVERS])
    for most in (3, 100):
        wanted = best_first(changes, most).tolist()
        for pairs in (1, 8, 1000):  # a server, two servers, or all at a time
            assert (await now.best_moves(needs, homes, most, pairs)).tolist() == wanted


async def test_many_servers_and_hosts_are_compared_in_little_memory() -> None:
    rng = np.random.default_rng(1)
    hosts, servers = tuple(HostName(f"h{number}") for number in range(400)), 2000
    capacity, used = np.full((len(hosts), 3), 100.0), rng.uniform(0, 90, (len(hosts), 3))
    now = Unevenness(HostShares(hosts, capacity, used, (8,) * len(hosts), {}), 0.1)
    needs, sources = np.full((servers, 3), 1.0), [number % len(hosts) for number in range(servers)]
    tracemalloc.start()
    try:
        found = await now.best_moves(needs, sources, 100)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
    assert found.tolist() == best_first(now.changes(needs, sources), 100).tolist()


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


async def test_others_have_their_turn_while_moves_are_compared() -> None:
    """A loop that is held for long misses heartbeats."""
    hosts = tuple(HostName(f"h{number}") for number in range(4))
    now = Unevenness(HostShares(hosts, np.full((4, 3), 100.0), np.zeros((4, 3)), (8,) * 4, {}), 0.1)
    turns = 0

    async def another() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(another())
    await now.best_moves(np.full((20, 3), 1.0), [0] * 20, 100, pairs=4)
    task.cancel()
    assert turns >= 19
