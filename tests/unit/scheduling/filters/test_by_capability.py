"""ComputeCapabilitiesFilter: each thing that a flavor may ask of a host, as the host has it."""

import pytest

from tests.unit.scheduling.capacity import host, snapshot
from tests.unit.scheduling.passing import asking, flavored, passing
from whimbrel.ports.stores.fleet import Load

NAME = "ComputeCapabilitiesFilter"
CPU = '{"arch": "x86_64", "vendor": "Intel", "features": ["aes", "vmx"], "topology": {"cores": 4}}'
NOW = snapshot(
    [
        host("big", cpu_info=CPU, hypervisor_type="QEMU", hypervisor_version=6_002_000, memory_mib=4096, host_ip="::1"),
        host("small", cpu_info="{}", hypervisor_type="simulated", hypervisor_version=1000, memory_mib=512, disk_gib=8),
        host("broken", cpu_info="no JSON", hypervisor_type="", vcpus=2),
    ],
    {
        "big": {"VCPU": 1, "MEMORY_MB": 4, "DISK_GB": 8},
        "small": {"VCPU": 8, "DISK_GB": 6},
        "broken": {"VCPU": 8},
    },
    loads={"big": Load(servers=3, io_ops=2)},
)
ALL, NONE = {"big", "small", "broken"}, set[str]()


@pytest.mark.parametrize(
    ("key", "wanted", "who"),
    [
        ("hypervisor_type", "QEMU", {"big"}),
        ("hypervisor_type", "s!= QEMU", {"small", "broken"}),
        ("hypervisor_version", ">= 1000000", {"big"}),
        ("hypervisor_version", "<in> 1000", {"small"}),
        ("hypervisor_hostname", "<or> small <or> broken", {"small", "broken"}),
        ("host_ip", "::1", {"big"}),
        ("cpu_info__vendor", "Intel", {"big"}),
        ("cpu_info__features", "<in> vmx", {"big"}),
        ("cpu_info__features", "<all-in> aes vmx", {"big"}),
        ("cpu_info__features", "<all-in> aes avx", NONE),
        ("cpu_info__topology__cores", "= 4", {"big"}),
        ("cpu_info__topology__cores__more", "= 4", NONE),
        ("cpu_info__model", "s!= x", NONE),
        ("vcpus_total", "== 2", {"broken"}),
        ("vcpus_used", "== 7", {"big"}),
        ("total_usable_ram_mb", ">= 4096", {"big"}),
        ("free_ram_mb", "== 4092", {"big"}),
        ("free_ram_mb", "== 512", {"small"}),
        ("total_usable_disk_gb", "== 8", {"small"}),
        ("disk_mb_used", "== 2048", {"small"}),
        ("free_disk_mb", ">= 7000", {"big", "broken"}),
        ("num_instances", "== 3", {"big"}),
        ("num_io_ops", "<= 1", {"small", "broken"}),
        ("num_io_ops__more", "<= 1", NONE),
    ],
)
def test_a_host_has_what_is_asked(key: str, wanted: str, who: set[str]) -> None:
    for spec in (f"capabilities__{key}", key) if "__" not in key else (f"capabilities__{key}",):
        assert passing(NAME, asking(flavor=flavored(**{spec: wanted})), NOW) == who


def test_what_no_host_has_is_asked_only_where_the_scope_says_that_it_is_asked_of_hosts() -> None:
    assert passing(NAME, asking(flavor=flavored(capabilities__unheard_of="s!= x")), NOW) == NONE
    assert passing(NAME, asking(flavor=flavored(unheard_of="s!= x")), NOW) == ALL
    assert passing(NAME, asking(flavor=flavored(group_policy="isolate", same_subtree_A="1,2")), NOW) == ALL


def test_all_of_several_must_be_fulfilled_and_other_scopes_do_not_matter() -> None:
    flavor = flavored(hypervisor_type="s!= x", capabilities__num_io_ops="= 2", hw__cpu_policy="dedicated")
    assert passing(NAME, asking(flavor=flavor), NOW) == {"big"}
    assert passing(NAME, asking(flavor=flavored(hw__hypervisor_type="x")), NOW) == ALL
    assert passing(NAME, asking(), NOW) == ALL
