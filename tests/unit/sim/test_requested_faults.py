"""Faults of simulated hosts that a test asks for."""

from pathlib import Path

import pytest

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.sim.world.requested_faults import RequestedFault, RequestedFaults

A, B = ServerId("a"), ServerId("b")
N1, N2 = HostName("n1"), HostName("n2")


@pytest.fixture
def faults(tmp_path: Path) -> RequestedFaults:
    return RequestedFaults(tmp_path / "faults")


def strikes(faults: RequestedFaults, host: HostName, order: str, server: ServerId | None) -> bool:
    try:
        faults.check(host, order, server)
    except (Refused, Unavailable):
        return True
    return False


def test_nothing_fails_that_was_not_asked_for(faults: RequestedFaults) -> None:
    assert not strikes(faults, N1, "reserve", A)
    faults.add("1", RequestedFault(order="start"))
    assert not strikes(faults, N1, "reserve", A)


def test_a_fault_stays_with_the_first_server_on_all_hosts(faults: RequestedFaults) -> None:
    faults.add("1", RequestedFault(order="reserve", reason="full"))
    with pytest.raises(Refused, match="full"):
        faults.check(N1, "reserve", A)
    assert not strikes(faults, N1, "reserve", B)
    assert strikes(faults, N2, "reserve", A)


def test_a_fault_happens_as_often_as_asked_for(faults: RequestedFaults) -> None:
    faults.add("1", RequestedFault(order="stop", error="unavailable", times=2))
    assert [strikes(faults, N1, "stop", A) for _ in range(3)] == [True, True, False]


def test_a_fault_of_one_host_happens_only_there(faults: RequestedFaults) -> None:
    faults.add("1", RequestedFault(order="reserve", host=N2))
    assert not strikes(faults, N1, "reserve", A)
    assert strikes(faults, N2, "reserve", A)


def test_a_silent_host_answers_nothing_until_its_silence_ends(faults: RequestedFaults) -> None:
    faults.add("silent", RequestedFault(order=None, error="unavailable", host=N1))
    with pytest.raises(Unavailable):
        faults.check(N1, "capacity", None)
    assert strikes(faults, N1, "start", A)
    assert not strikes(faults, N2, "start", A)
    faults.remove("silent")
    assert not strikes(faults, N1, "start", A)
