"""What a host is, read from text that differs from machine to machine."""

import json
import sys

import pytest

from whimbrel.adapters.libvirt.connection import load_libvirt
from whimbrel.adapters.libvirt.host_capabilities import (
    cpu_info,
    hardware_traits,
    has_virtualization,
    host_model,
    machine_types,
    metrics,
    numa_nodes,
)
from whimbrel.domain.errors import Refused
from whimbrel.domain.numa import NumaNode


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        ("processor : 0\nflags\t\t: fpu vmx sse2\n", True),
        ("processor : 0\nflags\t\t: fpu svm sse2\n", True),
        ("processor : 0\nflags\t\t: fpu hypervisor sse2\n", False),
        ("processor : 0\nmodel name : vmx svm\n", False),
        ("", False),
    ],
)
def test_only_the_processor_says_whether_guests_can_run_natively(cpuinfo: str, expected: bool) -> None:
    assert has_virtualization(cpuinfo) is expected


def test_the_processor_is_shown_as_clients_read_it() -> None:
    capabilities = """<capabilities><host><cpu><arch>x86_64</arch><model>kvm64</model><vendor>AMD</vendor>
        <topology sockets='1' dies='1' cores='2' threads='1'/><feature name='ssse3'/><feature name='aes'/>
        </cpu></host></capabilities>"""
    assert json.loads(cpu_info(capabilities, ["aes", "sse2", "ssse3"])) == {
        "arch": "x86_64",
        "model": "kvm64",
        "vendor": "AMD",
        "topology": {"sockets": 1, "dies": 1, "cores": 2, "threads": 1},
        "features": ["aes", "ssse3"],
        "guest_features": ["aes", "sse2", "ssse3"],
        "machines": [],
    }
    assert cpu_info("<capabilities><host/></capabilities>") == "{}"


def test_the_types_of_machine_are_those_of_guests_of_its_processor() -> None:
    capabilities = """<capabilities><host/>
        <guest><arch name='i686'><machine>isapc</machine></arch></guest>
        <guest><arch name='x86_64'><machine>pc-q35-7.2</machine><machine canonical='pc-q35-7.2'>q35</machine>
        <domain type='kvm'><machine>pc-q35-7.2</machine></domain></arch></guest></capabilities>"""
    assert machine_types(capabilities, "x86_64") == ["pc-q35-7.2", "q35"]


def test_the_traits_are_those_of_what_guests_can_have_with_any_machine() -> None:
    def of(firmware: str, *buses: str) -> str:
        values = "".join(f"<value>{bus}</value>" for bus in buses)
        return f"""<domainCapabilities><os><enum name='firmware'>{firmware}</enum></os><devices>
            <disk><enum name='bus'>{values}</enum></disk>
            <video><enum name='modelType'><value>vga</value><value>ramfb</value></enum></video>
            </devices></domainCapabilities>"""

    traits = hardware_traits([of("", "ide", "virtio"), of("<value>efi</value>", "sata", "fdc")])
    assert [trait for trait in traits if "_VIF_" not in trait] == [
        *("COMPUTE_STORAGE_BUS_IDE", "COMPUTE_STORAGE_BUS_SATA", "COMPUTE_STORAGE_BUS_VIRTIO"),
        *("COMPUTE_GRAPHICS_MODEL_VGA", "COMPUTE_FIRMWARE_UEFI"),
    ]
    assert "COMPUTE_NET_VIF_MODEL_E1000" in traits
    assert hardware_traits([]) == ()


def test_the_model_closest_to_the_processor_is_taken_from_what_guests_can_have() -> None:
    capabilities = """<domainCapabilities><cpu><mode name='host-passthrough' supported='yes'/>
        <mode name='host-model' supported='yes'><model>EPYC</model><feature policy='require' name='pku'/></mode>
        <mode name='custom' supported='yes'><model>486</model></mode></cpu></domainCapabilities>"""
    expected = '<cpu><model>EPYC</model><feature policy="require" name="pku" /></cpu>'
    assert host_model(capabilities) == expected


def test_its_numa_nodes_are_shown() -> None:
    capabilities = """<capabilities><host><topology><cells num='2'>
        <cell id='0'><memory unit='KiB'>16777216</memory><cpus num='2'><cpu id='0'/><cpu id='2'/></cpus></cell>
        <cell id='1'><memory unit='KiB'>8388608</memory><cpus num='1'><cpu id='1'/></cpus></cell>
        </cells></topology></host></capabilities>"""
    assert numa_nodes(capabilities) == (NumaNode(cpus=2, memory_mib=16384), NumaNode(cpus=1, memory_mib=8192))
    assert numa_nodes("<capabilities><host/></capabilities>") == ()


def test_its_load_is_shown_by_novas_names() -> None:
    before, times = (
        {"user": 10, "idle": 80, "iowait": 0, "kernel": 10},
        {"user": 40, "idle": 130, "iowait": 10, "kernel": 20},
    )
    assert metrics(times, {}, 2400) == {
        "cpu.frequency": 2400.0, "cpu.user.time": 40.0, "cpu.idle.time": 130.0, "cpu.iowait.time": 10.0,
        "cpu.kernel.time": 20.0,
    }  # fmt: skip
    told = metrics(times, before, 2400)
    shares = {name: told[name] for name in told if name.endswith("percent")}
    assert shares == pytest.approx(
        {"cpu.user.percent": 0.3, "cpu.idle.percent": 0.5, "cpu.iowait.percent": 0.1, "cpu.kernel.percent": 0.1,
         "cpu.percent": 0.4}
    )  # fmt: skip
    assert metrics(times, times, 2400) == metrics(times, {}, 2400)


def test_without_the_binding_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)  # what an import of something absent finds
    with pytest.raises(Refused, match=r"pip install 'whimbrel\[libvirt\]'"):
        load_libvirt()
