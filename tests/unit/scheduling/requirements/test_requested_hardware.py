"""What images and flavors make of a guest's hardware: Nova's names, values and refusals."""

import pytest

from whimbrel.domain.errors import Invalid
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest_hardware import NO_REQUESTS, CpuTopology, Hardware
from whimbrel.scheduling.requirements.requested_hardware import hardware_of, traits_of


def made(specs: dict[str, str], properties: dict[str, str], vcpus: int = 4) -> Hardware:
    flavor = Flavor(flavor_id="1", name="m", vcpus=vcpus, memory_mib=1, root_gib=1, extra_specs=specs)
    return hardware_of(flavor, properties)


def test_who_asks_for_nothing_has_the_hardware_of_everybody() -> None:
    assert made({}, {}) == NO_REQUESTS
    assert made({"hw:cpu_policy": "shared"}, {"os_type": "linux", "hw_qemu_guest_agent": "yes"}) == NO_REQUESTS
    same = {"hw_disk_bus": "virtio", "hw_vif_model": "virtio", "hw_rng_model": "virtio", "hw_firmware_type": "bios"}
    assert made({}, same) == NO_REQUESTS


@pytest.mark.parametrize(
    ("specs", "properties", "expected"),
    [
        ({}, {"hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi"},
         Hardware(disk_bus="scsi", scsi_model="virtio-scsi")),
        ({}, {"hw_cdrom_bus": "sata", "hw_machine_type": "pc-q35-7.2"},
         Hardware(cdrom_bus="sata", machine="pc-q35-7.2")),
        ({}, {"hw_vif_model": "e1000e", "hw_firmware_type": "uefi"}, Hardware(vif_model="e1000e", firmware="uefi")),
        ({"hw_video:ram_max_mb": "64"}, {"hw_video_model": "qxl", "hw_video_ram": "64"},
         Hardware(video_model="qxl", video_ram_mib=64)),
        ({"hw_rng:allowed": "False", "hw_rng:rate_bytes": "5"}, {"hw_rng_model": "virtio"}, Hardware(rng=False)),
        ({"hw_rng:rate_bytes": "5", "hw_rng:rate_period": "7"}, {}, Hardware(rng_rate_bytes=5, rng_period_ms=7)),
        ({"hw:watchdog_action": "reset"}, {}, Hardware(watchdog="reset")),
        ({"hw:watchdog_action": "reset"}, {"hw_watchdog_action": "none"}, Hardware(watchdog="none")),
        ({"hw:watchdog_action": "reset"}, {"hw_watchdog_action": "disabled"}, NO_REQUESTS),
        ({"hw:serial_port_count": "3"}, {}, Hardware(serial_ports=3)),
        ({"hw:serial_port_count": "3"}, {"hw_serial_port_count": "2"}, Hardware(serial_ports=2)),
        ({}, {"hw_pointer_model": "usbtablet"}, Hardware(tablet="usb")),
        ({}, {"hw_pointer_model": "ps2mouse"}, NO_REQUESTS),
        ({}, {"hw_input_bus": "virtio"}, Hardware(tablet="virtio", keyboard="virtio")),
        ({"hw:boot_menu": "true"}, {}, Hardware(boot_menu=True)),
        ({"hw:boot_menu": "true"}, {"hw_boot_menu": "no"}, NO_REQUESTS),
        ({}, {"hw_time_hpet": "true"}, Hardware(hpet=True)),
        ({}, {"os_type": "windows"}, Hardware(is_windows=True)),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_asked_for(specs: dict[str, str], properties: dict[str, str], expected: Hardware) -> None:
    assert made(specs, properties) == expected


@pytest.mark.parametrize(
    ("specs", "properties", "words"),
    [
        ({}, {"hw_disk_bus": "ribbon"}, "'hw_disk_bus' cannot be 'ribbon'"),
        ({}, {"hw_cdrom_bus": "virtio"}, "no guest has a CD-ROM on this bus"),
        ({}, {"hw_machine_type": "q35", "hw_disk_bus": "ide"}, "has no bus 'ide'"),
        ({}, {"hw_machine_type": "pc'/>"}, "'hw_machine_type' cannot be"),
        ({}, {"hw_scsi_model": "buslogic"}, "no host of this cloud has such controllers"),
        ({}, {"hw_vif_model": "smoke"}, "'hw_vif_model' cannot be 'smoke'"),
        ({}, {"hw_firmware_type": "none"}, "'hw_firmware_type' cannot be 'none'"),
        ({}, {"hw_video_model": "paper"}, "'hw_video_model' cannot be 'paper'"),
        ({}, {"hw_video_ram": "8"}, "video memory 8 is higher than the maximum allowed by flavor 0"),
        ({"hw_video:ram_max_mb": "x"}, {}, "'hw_video:ram_max_mb' cannot be 'x'"),
        ({}, {"hw_rng_model": "dice"}, "'hw_rng_model' cannot be 'dice'"),
        ({"hw_rng:rate_bytes": "-1"}, {}, "'hw_rng:rate_bytes' cannot be '-1'"),
        ({"hw_rng:allowed": "perhaps"}, {}, "'hw_rng:allowed' cannot be 'perhaps'"),
        ({"hw:watchdog_action": "bark"}, {}, "'hw:watchdog_action' cannot be 'bark'"),
        ({"hw:serial_port_count": "1"}, {"hw_serial_port_count": "2"}, "Forbidden to exceed flavor value"),
        ({"hw:serial_port_count": "5"}, {}, "at most 4 serial ports"),
        ({}, {"hw_pointer_model": "trackball"}, "'hw_pointer_model' cannot be"),
        ({}, {"hw_input_bus": "ps2"}, "'hw_input_bus' cannot be"),
        ({"hw:boot_menu": "2"}, {}, "'hw:boot_menu' cannot be '2'"),
        ({}, {"hw_time_hpet": "often"}, "'hw_time_hpet' cannot be 'often'"),
        ({"hw:cpu_max_sockets": "2"}, {"hw_cpu_max_sockets": "4"}, "exceed permitted"),
        ({"hw:cpu_max_sockets": "2"}, {"hw_cpu_sockets": "4"}, "exceeds permitted"),
        ({"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "1", "hw:cpu_max_threads": "2"}, {}, "has 4 vCPUs"),
        ({"hw:cpu_cores": "0"}, {}, "cannot be 0"),
    ],
    ids=str,
)
def test_what_is_refused(specs: dict[str, str], properties: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid, match=words.replace("'", ".").replace("/>", "")):
        made(specs, properties)


@pytest.mark.parametrize(
    ("specs", "properties", "expected"),
    [
        ({"hw:cpu_sockets": "2"}, {}, (2, 2, 1)),
        ({"hw:cpu_cores": "4"}, {}, (1, 4, 1)),
        ({"hw:cpu_threads": "2"}, {}, (2, 1, 2)),
        ({"hw:cpu_sockets": "1", "hw:cpu_threads": "2"}, {}, (1, 2, 2)),
        ({"hw:cpu_cores": "2"}, {"hw_cpu_cores": "4"}, (2, 2, 1)),
        ({"hw:cpu_max_sockets": "2"}, {}, (2, 2, 1)),
        ({}, {"hw_cpu_max_sockets": "1"}, (1, 4, 1)),
        ({"hw:cpu_cores": "3"}, {}, (4, 1, 1)),
    ],
    ids=str,
)
def test_the_topology_is_the_nearest_to_the_requested_one(
    specs: dict[str, str], properties: dict[str, str], expected: tuple[int, int, int]
) -> None:
    assert made(specs, properties).topology == CpuTopology(*expected)


def test_only_hosts_with_its_hardware_are_asked_for() -> None:
    assert traits_of(NO_REQUESTS) == ()
    hardware = made({}, {"hw_disk_bus": "sata", "hw_vif_model": "ne2k_pci", "hw_video_model": "qxl"})
    assert traits_of(hardware, ["usb", None, "virtio"]) == (
        *("COMPUTE_STORAGE_BUS_SATA", "COMPUTE_STORAGE_BUS_USB"),
        *("COMPUTE_NET_VIF_MODEL_NE2K_PCI", "COMPUTE_GRAPHICS_MODEL_QXL"),
    )
    assert traits_of(made({}, {"hw_firmware_type": "uefi"})) == ("COMPUTE_FIRMWARE_UEFI",)
