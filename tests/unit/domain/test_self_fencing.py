"""When the cloud may count on it that a host has fenced itself."""

import pytest
from msgspec.structs import replace

from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.domain.self_fencing import bound, counted_after_s, self_fenced_at

HOST = Host(
    name=HostName("n17"),
    cell=CellName("c1"),
    id=ProviderId("p"),
    service_id="s",
    driver="libvirt",
    vcpus=1,
    memory_mib=1,
    disk_gib=1,
    seen_at=1000.0,
    session=3,
    self_fence_s=60.0,
)


def test_the_bound_has_a_part_for_each_assumption() -> None:
    assert counted_after_s(60.0) == pytest.approx(15 + 5 + (60 + 1 + 30) * 1.01)
    assert "111.91 s after the last heartbeat that it has stored" in bound(60.0)


def test_a_host_counts_as_fenced_after_the_bound_and_since_then() -> None:
    at = HOST.seen_at + counted_after_s(60.0)
    assert self_fenced_at(HOST, at - 0.01) is None
    assert self_fenced_at(HOST, at) == at
    assert self_fenced_at(HOST, at + 5000.0) == at


@pytest.mark.parametrize("fields", [{"self_fence_s": None}, {"session": 0}, {"seen_at": 0.0}, {"seen_at": 9e9}])
def test_a_host_that_promised_nothing_or_was_never_seen_does_not(fields: dict[str, float | None]) -> None:
    assert self_fenced_at(replace(HOST, **fields), 1e6) is None


def test_being_forced_down_changes_nothing() -> None:
    """That is an administrator's word, and evidence of another kind."""
    assert self_fenced_at(replace(HOST, forced_down=True), HOST.seen_at + 1) is None
