"""What flavors, images and ports ask of placement, by table; Nova's own examples among them."""

from typing import Any

import pytest

from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.placement.assignments import Group, ResourceRequest
from whimbrel.scheduling.requirements import server
from whimbrel.scheduling.requirements.server import MOST_BUILT, resource_request

MEMORY = {"MEMORY_MB": 2048}
DISK = {"DISK_GB": 23}
PLAIN = {"VCPU": 4, **MEMORY, **DISK}
DISABLED = frozenset({"COMPUTE_STATUS_DISABLED"})
DEDICATED = {"hw:cpu_policy": "dedicated"}
UEFI = {"hw_firmware_type": "uefi"}
THREADS = "HW_CPU_HYPERTHREADING"
TPM = "COMPUTE_SECURITY_TPM_"


def flavor(specs: dict[str, str]) -> Flavor:
    return Flavor(
        flavor_id="1",
        name="m1",
        vcpus=4,
        memory_mib=2048,
        root_gib=20,
        ephemeral_gib=2,
        swap_mib=600,
        extra_specs=specs,
    )


def asked(specs: dict[str, str], properties: dict[str, str] | None = None, **more: Any) -> ResourceRequest:
    return resource_request(flavor(specs), properties or {}, **more)


def test_a_plain_flavor_asks_for_its_sizes_of_hosts_that_are_not_disabled() -> None:
    assert asked({}) == ResourceRequest(own=PLAIN, root_forbidden=DISABLED)
    assert asked({}, has_local_root=False).own == {**PLAIN, "DISK_GB": 3}


@pytest.mark.parametrize(
    ("specs", "own"),
    [
        ({"resources:VCPU": "2"}, {**PLAIN, "VCPU": 2}),
        ({"resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}, {"VCPU": 4}),
        ({"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0",
          "resources:CUSTOM_BAREMETAL": "1"}, {"CUSTOM_BAREMETAL": 1}),
        ({"resources:CUSTOM_GPU": "2"}, {**PLAIN, "CUSTOM_GPU": 2}),
        ({"resources:PCPU": "4"}, {"PCPU": 4, **MEMORY, **DISK}),
        ({"resources:PCPU": "5", "hw:emulator_threads_policy": "isolate"}, {"PCPU": 5, **MEMORY, **DISK}),
        ({"resources1:MEMORY_MB": "1024"}, {"VCPU": 4, **DISK}),
        ({"resources1:MEMORY_MB": "0"}, {"VCPU": 4, **DISK}),
        ({"hw:pmem": "6GB, 6GB,4gb"}, {**PLAIN, "CUSTOM_PMEM_NAMESPACE_6GB": 2, "CUSTOM_PMEM_NAMESPACE_4GB": 1}),
        ({"operators:own": "word", "quota:cpu_shares": "4", "hw:cpu_policy": "shared"}, PLAIN),
        ({"hw:mem_encryption": "False"}, PLAIN),
    ],
    ids=str,
)  # fmt: skip
def test_what_extra_specs_ask_for_instead(specs: dict[str, str], own: dict[str, int]) -> None:
    assert asked(specs).own == own


@pytest.mark.parametrize(
    ("specs", "properties", "own"),
    [
        (DEDICATED, {}, {"PCPU": 4}),
        (DEDICATED, {"hw_cpu_policy": "shared"}, {"PCPU": 4}),
        ({}, {"hw_cpu_policy": "dedicated"}, {"PCPU": 4}),
        ({**DEDICATED, "hw:emulator_threads_policy": "isolate"}, {}, {"PCPU": 5}),
        ({**DEDICATED, "hw:emulator_threads_policy": "share"}, {}, {"PCPU": 4}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-1"}, {}, {"VCPU": 2, "PCPU": 2}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}, {}, {"VCPU": 1, "PCPU": 3}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-2,^1",
          "hw:emulator_threads_policy": "isolate"}, {}, {"VCPU": 2, "PCPU": 3}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "3"}, {},
         {"VCPU": 3, "PCPU": 1}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "3"},
         {"hw_cpu_realtime_mask": "1-3"}, {"VCPU": 1, "PCPU": 3}),
    ],
    ids=str,
)  # fmt: skip
def test_dedicated_cpus(specs: dict[str, str], properties: dict[str, str], own: dict[str, int]) -> None:
    assert asked(specs, properties).own == {**own, **MEMORY, **DISK}


def test_where_no_host_has_dedicated_cpus_shared_ones_are_asked_for() -> None:
    one = asked({**DEDICATED, "hw:cpu_thread_policy": "require", "trait:CUSTOM_SSD": "required"})
    assert one.required == ("CUSTOM_SSD", THREADS)
    assert one.otherwise == ResourceRequest(own=PLAIN, required=("CUSTOM_SSD",), root_forbidden=DISABLED)
    assert asked({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"}).otherwise is None
    assert asked({"resources:PCPU": "4"}).otherwise is None
    assert asked(DEDICATED, rules=SchedulerRules(disable_fallback_pcpu_query=True)).otherwise is None


@pytest.mark.parametrize(
    ("specs", "properties", "expected"),
    [
        ({"trait:CUSTOM_SSD": "required"}, {}, {"required": ("CUSTOM_SSD",)}),
        ({"trait:CUSTOM_SSD": "forbidden"}, {}, {"forbidden": frozenset({"CUSTOM_SSD"})}),
        ({}, {"trait:HW_CPU_X86_AVX2": "required"}, {"required": ("HW_CPU_X86_AVX2",)}),
        ({}, {"traits_required": "CUSTOM_A, CUSTOM_B"}, {"required": ("CUSTOM_A", "CUSTOM_B")}),
        ({"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_A": "required"}, {"required": ("CUSTOM_A",)}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0", "hw:cpu_thread_policy": "require"}, {},
         {"required": (THREADS,), "own": {"VCPU": 3, "PCPU": 1, **MEMORY, **DISK}}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"}, {"hw_cpu_thread_policy": "isolate"},
         {"forbidden": frozenset({THREADS}), "own": {"VCPU": 3, "PCPU": 1, **MEMORY, **DISK}}),
        ({"hw:mem_encryption": "true"}, UEFI, {"own": {**PLAIN, "MEM_ENCRYPTION_CONTEXT": 1}}),
        ({}, {"hw_mem_encryption": "1", "hw_machine_type": "pc-q35-5.1", **UEFI},
         {"own": {**PLAIN, "MEM_ENCRYPTION_CONTEXT": 1}}),
        ({"hw:tpm_version": "2.0"}, {},
         {"required": (f"{TPM}2_0", f"{TPM}TIS"), "root_required": (f"{TPM}SECRET_SECURITY_USER",)}),
        ({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "host"}, {"hw_tpm_model": "tpm-crb"},
         {"required": (f"{TPM}2_0", f"{TPM}CRB"), "root_required": (f"{TPM}SECRET_SECURITY_HOST",)}),
        ({}, {"hw_tpm_version": "1.2"},
         {"required": (f"{TPM}1_2", f"{TPM}TIS"), "root_required": (f"{TPM}SECRET_SECURITY_USER",)}),
        ({"os:secure_boot": "required"}, {}, {"required": ("COMPUTE_SECURITY_UEFI_SECURE_BOOT",)}),
        ({"os:secure_boot": "optional"}, {"os_secure_boot": "required"},
         {"required": ("COMPUTE_SECURITY_UEFI_SECURE_BOOT",)}),
        ({"os:secure_boot": "optional"}, {"os_secure_boot": "disabled"}, {}),
        ({}, {"hw_firmware_stateless": "true"}, {"required": ("COMPUTE_SECURITY_STATELESS_FIRMWARE",)}),
        ({"hw:pci_numa_affinity_policy": "socket"}, {}, {"required": ("COMPUTE_SOCKET_PCI_NUMA_AFFINITY",)}),
        ({"hw:pci_numa_affinity_policy": "required"}, {}, {}),
        ({"hw:maxphysaddr_mode": "emulate"}, {}, {"required": ("COMPUTE_ADDRESS_SPACE_EMULATED",)}),
        ({"hw:viommu_model": "intel"}, {}, {"root_required": ("COMPUTE_VIOMMU_MODEL_INTEL",)}),
        ({}, {"hw_viommu_model": "auto"}, {"root_required": ("COMPUTE_VIOMMU_MODEL_AUTO",)}),
        ({"hw:virtio_packed_ring": "on"}, {}, {"root_required": ("COMPUTE_NET_VIRTIO_PACKED",)}),
        ({"accel:device_profile": "fast"}, {}, {"root_required": ("COMPUTE_ACCELERATORS",)}),
        ({"hw:ephemeral_encryption": "yes", "hw:ephemeral_encryption_format": "luks"}, {},
         {"root_required": ("COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS")}),
        ({}, {"hw_sound_model": "virtio"}, {"root_required": ("COMPUTE_SOUND_MODEL_VIRTIO",)}),
        ({}, {"hw_sound_model": "sb16", "hw_disk_bus": "scsi", "owner": "me"}, {}),
    ],
    ids=str,
)  # fmt: skip
def test_traits_and_what_needs_them(
    specs: dict[str, str], properties: dict[str, str], expected: dict[str, Any]
) -> None:
    assert asked(specs, properties) == ResourceRequest(**{"own": PLAIN, "root_forbidden": DISABLED, **expected})


def test_groups_of_a_flavor() -> None:
    one = asked(
        {
            "resources1:VGPU": "1",
            "trait1:CUSTOM_RED": "required",
            "resources_NET-a:SRIOV_NET_VF": "2",
            "trait_NET-a:CUSTOM_SLOW": "forbidden",
            "trait_NET-a:CUSTOM_FAST": "required",
            "resources2:VGPU": "0",
            "group_policy": "isolate",
            "same_subtree": "1,_NET-a",
        },
        groups=[Group(id="port", resources={"NET_BW_EGR_KILOBIT_PER_SEC": 5})],
        same_subtree=[("port", "other")],
    )
    assert one == ResourceRequest(
        own=PLAIN,
        root_forbidden=DISABLED,
        groups=(
            Group(id="1", resources={"VGPU": 1}, required=("CUSTOM_RED",)),
            Group(id="_NET-a", resources={"SRIOV_NET_VF": 2}, required=("CUSTOM_FAST",),
                  forbidden=frozenset({"CUSTOM_SLOW"})),
            Group(id="port", resources={"NET_BW_EGR_KILOBIT_PER_SEC": 5}),
        ),
        group_policy="isolate",
        same_subtree=(("1", "_NET-a"), ("port", "other")),
    )  # fmt: skip


def test_a_group_may_have_a_trait_and_nothing_else_where_it_is_above_another() -> None:
    one = asked({"resources1:VGPU": "1", "trait_NODE:HW_NUMA_ROOT": "required", "group_policy": "none",
                 "same_subtree_A": "1, _NODE"})  # fmt: skip
    assert one.groups[1] == Group(id="_NODE", resources={}, required=("HW_NUMA_ROOT",))
    assert one.same_subtree == (("1", "_NODE"),)


def test_a_group_that_is_taken_away_is_below_nothing() -> None:
    one = asked({"resources1:VGPU": "1", "resources2:VGPU": "0", "same_subtree": "1,2", "same_subtree2": "2"})
    assert [group.id for group in one.groups] == ["1"]
    assert one.same_subtree == (("1",),)


def test_one_group_beside_those_of_ports_needs_no_policy() -> None:
    ports = [Group(id="p1", resources={"VF": 1}), Group(id="p2", resources={"VF": 1})]
    assert asked({"resources1:VGPU": "1"}, groups=ports).group_policy == "none"
    assert asked({"resources1:VGPU": "1", "group_policy": "isolate"}, groups=ports).group_policy == "isolate"


@pytest.mark.parametrize(
    ("properties", "disk_format", "root_required"),
    [
        ({"hw_disk_bus": "scsi", "hw_vif_model": "e1000e", "hw_architecture": "x86_64"}, "qcow2",
         ("COMPUTE_STORAGE_BUS_SCSI", "COMPUTE_NET_VIF_MODEL_E1000E", "HW_ARCH_X86_64", "COMPUTE_IMAGE_TYPE_QCOW2")),
        ({}, None, ()),
    ],
    ids=["an image", "a volume"],
)  # fmt: skip
def test_pre_filters_are_off_until_they_are_asked_for(
    properties: dict[str, str], disk_format: str | None, root_required: tuple[str, ...]
) -> None:
    assert asked({}, properties, disk_format=disk_format).root_required == ()
    rules = SchedulerRules(image_metadata_prefilter=True, query_placement_for_image_type_support=True)
    assert asked({}, properties, disk_format=disk_format, rules=rules).root_required == root_required
    from_volume = asked({}, {}, disk_format=disk_format, rules=rules, has_local_root=False)
    assert from_volume.root_required == ()


@pytest.mark.parametrize(
    ("specs", "properties", "named"),
    [
        ({"resources:VCPU": "few"}, {}, "resources:VCPU"),
        ({"resources:VCPU": "-1"}, {}, "resources:VCPU"),
        ({"resources1:CPU": "1"}, {}, "resources1:CPU"),
        ({"resources:CUSTOM_gpu": "1"}, {}, "resources:CUSTOM_gpu"),
        ({"trait:CUSTOM_SSD": "preferred"}, {}, "trait:CUSTOM_SSD"),
        ({"trait:custom_ssd": "required"}, {}, "trait:custom_ssd"),
        ({}, {"trait:CUSTOM_SSD": "forbidden"}, "trait:CUSTOM_SSD"),
        ({}, {"traits_required": "CUSTOM_A,b"}, "traits_required"),
        ({"trait:CUSTOM_A": "forbidden"}, {"trait:CUSTOM_A": "required"}, "CUSTOM_A"),
        ({"trait1:CUSTOM_A": "required"}, {}, "resources1:"),
        ({"group_policy": "both"}, {}, "group_policy"),
        ({"resources1:VGPU": "1", "resources2:VGPU": "1"}, {}, "group_policy"),
        ({"resources1:VGPU": "1", "same_subtree": "1,_A"}, {}, "same_subtree"),
        ({"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}, {}, "resources:"),
        ({"hw:cpu_policy": "pinned"}, {}, "hw:cpu_policy"),
        ({}, {"hw_cpu_policy": "pinned"}, "hw_cpu_policy"),
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}, "hw_cpu_policy"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"}, {"hw_cpu_policy": "dedicated"}, "hw_cpu_policy"),
        ({**DEDICATED, "hw:cpu_thread_policy": "require"}, {"hw_cpu_thread_policy": "isolate"}, "hw_cpu_thread_policy"),
        ({**DEDICATED, "hw:cpu_thread_policy": "require", f"trait:{THREADS}": "required"}, {}, THREADS),
        ({**DEDICATED, "resources:PCPU": "4"}, {}, "resources:PCPU"),
        ({**DEDICATED, "resources1:VCPU": "4"}, {}, "resources:VCPU"),
        ({"resources:VCPU": "1", "resources:PCPU": "4"}, {}, "resources:PCPU"),
        ({"resources:PCPU": "3"}, {}, "resources:PCPU"),
        ({"resources:PCPU": "4", "hw:emulator_threads_policy": "isolate"}, {}, "hw:emulator_threads_policy"),
        ({"hw:cpu_thread_policy": "prefer"}, {}, "hw:cpu_thread_policy"),
        ({"hw:emulator_threads_policy": "isolate"}, {}, "hw:emulator_threads_policy"),
        ({"hw:cpu_dedicated_mask": "0"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_realtime": "true"}, {}, "hw:cpu_realtime"),
        ({**DEDICATED, "hw:cpu_dedicated_mask": "0"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_policy": "mixed"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0", "hw:cpu_realtime": "1"}, {}, "hw:cpu_realtime_mask"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-4"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-99999999999"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "first"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:mem_encryption": "true"}, {}, "hw_firmware_type"),
        ({"hw:mem_encryption": "true"}, {**UEFI, "hw_machine_type": "pc"}, "hw_machine_type"),
        ({"hw:mem_encryption": "true"}, {**UEFI, "hw_mem_encryption": "false"}, "hw_mem_encryption"),
        ({"hw:mem_encryption": "perhaps"}, {}, "hw:mem_encryption"),
        ({"hw:tpm_version": "3"}, {}, "hw:tpm_version"),
        ({"hw:tpm_version": "2.0"}, {"hw_tpm_version": "1.2"}, "hw_tpm_version"),
        ({"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}, {}, "tpm_model"),
        ({"os:secure_boot": "disabled"}, {"os_secure_boot": "required"}, "os_secure_boot"),
        ({"os:secure_boot": "always"}, {}, "os:secure_boot"),
        ({"hw:pci_numa_affinity_policy": "socket"}, {"hw_pci_numa_affinity_policy": "legacy"}, "pci_numa_affinity"),
        ({"hw:maxphysaddr_mode": "none"}, {}, "hw:maxphysaddr_mode"),
        ({"hw:viommu_model": "amd"}, {}, "hw:viommu_model"),
    ],
    ids=str,
)
def test_what_is_said_wrongly_is_refused_by_its_name(
    specs: dict[str, str], properties: dict[str, str], named: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        asked(specs, properties)
    assert named in refusal.value.reason


def test_what_changes_in_place_is_read_again() -> None:
    """Requests are kept by the values that they were built from."""
    specs, properties = {"resources:VGPU": "1"}, {"trait:HW_CPU_X86_AVX": "required"}
    before = asked(specs, properties)
    specs["resources:VGPU"], properties["trait:HW_CPU_X86_SSE"] = "2", "required"
    after = asked(specs, properties)
    assert (before.own["VGPU"], after.own["VGPU"]) == (1, 2)
    assert (before.required, after.required) == (("HW_CPU_X86_AVX",), ("HW_CPU_X86_AVX", "HW_CPU_X86_SSE"))
    assert asked(specs, of_host=["COMPUTE_A"]) != asked(specs, of_host=["COMPUTE_B"]) != asked(specs)


def test_no_more_requests_are_kept_than_that() -> None:
    for number in range(MOST_BUILT + 1):
        asked({"resources:VGPU": str(1 + number)})
    assert 0 < len(server._built) <= MOST_BUILT
