"""Live moves: the running guest keeps its processor and its hypervisor, so a target needs both."""

import json
from typing import Any

from tests.unit.scheduling.capacity import host, snapshot
from tests.unit.scheduling.passing import asking
from whimbrel.domain.ids import HostName
from whimbrel.domain.live_transfer import GuestCpu
from whimbrel.scheduling.decision import make_trace
from whimbrel.scheduling.pipeline import rank
from whimbrel.scheduling.request import Request, RunningGuest


def info(*features: str, arch: str = "x86_64") -> str:
    return json.dumps({"arch": arch, "vendor": "Intel", "model": "Server", "features": features})


NOW = snapshot(
    [
        host("new", cpu_info=info("aes", "avx", "avx512f", "avx512vl"), hypervisor_version=8_000_000),
        host("same", cpu_info=info("aes", "avx", "avx512f"), hypervisor_version=7_002_000),
        host("old", cpu_info=info("aes"), hypervisor_version=7_002_000),
        host("older", cpu_info=info("aes"), hypervisor_version=6_000_000),
        host("unknown", cpu_info="{}", hypervisor_version=7_002_000),
        host("broken", cpu_info="no JSON", hypervisor_version=7_002_000),
        host("arm", cpu_info=info(arch="aarch64"), hypervisor_version=7_002_000),
        host("xen", cpu_info=info("aes", "avx", "avx512f"), hypervisor_type="Xen", hypervisor_version=8_000_000),
    ]
)


def live(*features: str, host: str = "elsewhere") -> Request:
    return asking(live=RunningGuest(host=HostName(host), cpu=GuestCpu(arch="x86_64", features=features)))


def passing(request: Request) -> set[str]:
    return {NOW.fleet.names[place] for place in rank(request, NOW).order.tolist()}


def said(request: Request) -> dict[str, Any]:
    trace = make_trace(rank(request, NOW), {}, ())
    return {one.host: one.reason for one in trace.considered if one.reason}


def test_a_cold_move_does_not_ask_for_the_processor_of_the_source() -> None:
    assert passing(asking()) == set(NOW.fleet.names)


def test_a_running_guest_needs_the_features_that_it_sees_and_unknown_ones_are_examined_later() -> None:
    assert passing(live("aes")) == {"new", "same", "old", "older", "unknown", "broken", "xen"}
    assert passing(live("aes", "avx512f")) == {"new", "same", "unknown", "broken", "xen"}
    assert passing(live()) == {"new", "same", "old", "older", "unknown", "broken", "xen"}


def test_what_guests_can_have_counts_before_what_the_model_does_not_have() -> None:
    reported = {"arch": "x86_64", "model": "Broadwell", "features": ["vmx"]}
    infos = {
        "kvm": {**reported, "guest_features": ["aes", "avx"]},
        "tcg": {**reported, "guest_features": ["aes"]},
        "unknown": {**reported, "guest_features": []},
    }
    now = snapshot([host(name, cpu_info=json.dumps(info)) for name, info in infos.items()])
    assert {now.fleet.names[place] for place in rank(live("avx"), now).order.tolist()} == {"kvm", "unknown"}


def test_what_is_lacking_is_named_and_counted() -> None:
    reasons = said(live("aes", "avx", "avx512f", "avx512vl"))
    assert reasons["same"].words == "its processor lacks avx512vl"
    assert reasons["old"].words == "its processor lacks avx and 2 more"
    assert (reasons["old"].constraint, reasons["old"].resource) == ("processor", "CPU features")
    assert (reasons["old"].asked, reasons["old"].free, reasons["same"].free) == (4, 1, 3)
    assert reasons["arm"].words == "its processor is not of the architecture x86_64, which the guest runs on"


def test_another_hypervisor_and_an_older_version_are_out() -> None:
    request = live("aes", host="same")
    assert passing(request) == {"new", "same", "old", "unknown", "broken"}
    reasons = said(request)
    assert reasons["xen"].words == "its hypervisor is not QEMU, which the guest runs on"
    assert reasons["older"].words == "its hypervisor is older than 7002000, the version that the guest runs on"
    assert {reasons["xen"].constraint, reasons["older"].constraint} == {"hypervisor"}
