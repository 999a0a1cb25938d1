"""ImagePropertiesFilter: the processor, hypervisor and version that an image needs."""

import pytest

from tests.unit.scheduling.capacity import host, snapshot
from tests.unit.scheduling.passing import asking, passing, rules

NAME = "ImagePropertiesFilter"
HOSTS = [
    host("intel", cpu_info='{"arch": "x86_64"}', hypervisor_type="QEMU", hypervisor_version=6_002_001),
    host("arm", cpu_info='{"arch": "aarch64"}', hypervisor_type="QEMU", hypervisor_version=8_000_000),
    host("old", cpu_info='{"arch": "i586"}', hypervisor_type="Xen", hypervisor_version=4_017_000),
    host("played", cpu_info="{}", hypervisor_type="simulated", hypervisor_version=1000),
]
ALL = {"intel", "arm", "old", "played"}


@pytest.mark.parametrize(
    ("properties", "who"),
    [
        ({}, ALL),
        ({"os_type": "linux"}, ALL),
        ({"hw_architecture": "x86_64"}, {"intel", "played"}),
        ({"architecture": "AMD64"}, {"intel", "played"}),
        ({"hw_architecture": "aarch64", "architecture": "x86_64"}, {"arm", "played"}),
        ({"hw_architecture": "i386"}, {"old", "played"}),
        ({"hw_architecture": "s390x"}, {"played"}),
        ({"img_hv_type": "kvm"}, {"intel", "arm", "played"}),
        ({"hypervisor_type": "QEMU"}, {"intel", "arm", "played"}),
        ({"img_hv_type": "xen"}, {"old"}),
        ({"img_hv_type": "vmware"}, set()),
        ({"hw_vm_mode": "hvm"}, ALL),
        ({"vm_mode": "hv"}, ALL),
        ({"hw_vm_mode": "xen"}, set()),
        ({"img_hv_requested_version": ">=6.2"}, {"intel", "arm"}),
        ({"img_hv_requested_version": ">6.2.1"}, {"arm"}),
        ({"img_hv_requested_version": ">=4.17, <8"}, {"intel", "old"}),
        ({"img_hv_requested_version": "!=8.0, >0.1.0"}, {"intel", "old"}),
        ({"hypervisor_version_requires": "==8,<=8.0.0"}, {"arm"}),
        ({"img_hv_requested_version": "about six"}, set()),
        ({"img_hv_type": "qemu", "hw_architecture": "x86_64", "img_hv_requested_version": "<1"}, {"played"}),
    ],
)
def test_an_image_gets_what_it_needs(properties: dict[str, str], who: set[str]) -> None:
    assert passing(NAME, asking(image_properties=properties), snapshot(HOSTS)) == who


def test_images_that_say_no_architecture_have_the_default_one() -> None:
    now = snapshot(HOSTS, rules=rules(image_properties_default_architecture="x86-64"))
    assert passing(NAME, asking(), now) == {"intel", "played"}
    assert passing(NAME, asking(image_properties={"architecture": "i686"}), now) == {"old", "played"}
