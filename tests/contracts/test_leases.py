"""What an agent and a watchdog may count on from the lease that they share."""

from pathlib import Path

import pytest

from whimbrel.adapters.lease_files import LeaseFiles, SystemBootClock
from whimbrel.domain.errors import Unavailable
from whimbrel.ports.hosts.leases import BootClock, Fencing, Lease, Leases, ProcessId, Watch
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.memory_leases import MemoryLeases, SimulatedBootClock

LEASE = Lease(boot="b1", sent_at=1234.5, self_fence_s=60.0, session=7, agent=ProcessId(pid=12, started=345))


@pytest.fixture(params=["memory", "files"])
def leases(request: pytest.FixtureRequest, tmp_path: Path) -> Leases:
    return MemoryLeases() if request.param == "memory" else LeaseFiles(tmp_path)


def test_a_lease_is_read_as_it_was_written(leases: Leases) -> None:
    assert leases.lease() is None
    leases.write(LEASE)
    assert leases.lease() == LEASE
    shorter = Lease(boot="b", sent_at=1.0, self_fence_s=2.0)
    leases.write(shorter)
    assert leases.lease() == shorter


def test_a_lease_can_be_ended_twice(leases: Leases) -> None:
    leases.write(LEASE)
    leases.remove()
    leases.remove()
    assert leases.lease() is None


def test_signs_of_life_are_read_as_they_were_written(leases: Leases) -> None:
    assert leases.watch() is None
    for at in (1.0, 22.0, 3.0):
        leases.watched(Watch(boot="b1", at=at))
        assert leases.watch() == Watch(boot="b1", at=at)


def test_what_was_done_is_recorded_in_order(leases: Leases) -> None:
    assert leases.fencings() == []
    done = [
        Fencing(began_at=1.0, ended_at=2.0, lease=LEASE, stopped=["a/b"], killed=[]),
        Fencing(began_at=3.0, ended_at=4.0, lease=None, stopped=[], killed=["process 12"]),
    ]
    for each in done:
        leases.record(each)
    assert leases.fencings() == done


@pytest.fixture(params=["simulated", "system"])
def boot(request: pytest.FixtureRequest) -> BootClock:
    return SystemBootClock() if request.param == "system" else SimulatedBootClock(JumpingClock())


def test_the_clock_of_a_boot_does_not_go_back(boot: BootClock) -> None:
    first = boot.now()
    assert 0 <= first <= boot.now()
    assert boot.boot == boot.boot != ""


# Files


@pytest.mark.parametrize("content", [b"", b"{}", b"00000000 {}", b"garbage"])
def test_a_file_that_is_no_lease_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lease.json").write_bytes(content)
    assert LeaseFiles(tmp_path).lease() == "damaged"


def test_a_half_written_lease_is_damaged(tmp_path: Path) -> None:
    """A reader that is faster than the writer must not take the digits of two leases for one."""
    files = LeaseFiles(tmp_path)
    files.write(LEASE)
    old = (tmp_path / "lease.json").read_bytes()
    files.write(Lease(boot="b1", sent_at=9999.5, self_fence_s=60.0, session=7, agent=LEASE.agent))
    new = (tmp_path / "lease.json").read_bytes()
    (tmp_path / "lease.json").write_bytes(new[:34] + old[34:])
    assert files.lease() == "damaged"


def test_a_lease_is_renewed_in_place(tmp_path: Path) -> None:
    """A full disk must not end the lease of a host whose cloud answers."""
    files = LeaseFiles(tmp_path)
    files.write(LEASE)
    before = (tmp_path / "lease.json").stat()
    files.write(Lease(boot="b1", sent_at=9999.5, self_fence_s=60.0))
    after = (tmp_path / "lease.json").stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)


def test_a_directory_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    files = LeaseFiles(tmp_path / "none")
    with pytest.raises(Unavailable, match="cannot write"):
        files.write(LEASE)
