"""What a host is, read from text that differs from machine to machine."""

import json
import sys

import pytest

from whimbrel.adapters.libvirt.connection import load_libvirt
from whimbrel.adapters.libvirt.machine import cpu_info, has_virtualization
from whimbrel.domain.errors import Refused


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


def test_the_processor_is_told_as_clients_read_it() -> None:
    capabilities = """<capabilities><host><cpu><arch>x86_64</arch><model>kvm64</model><vendor>AMD</vendor>
        <topology sockets='1' dies='1' cores='2' threads='1'/><feature name='ssse3'/><feature name='aes'/>
        </cpu></host></capabilities>"""
    assert json.loads(cpu_info(capabilities)) == {
        "arch": "x86_64",
        "model": "kvm64",
        "vendor": "AMD",
        "topology": {"sockets": 1, "dies": 1, "cores": 2, "threads": 1},
        "features": ["aes", "ssse3"],
    }
    assert cpu_info("<capabilities><host/></capabilities>") == "{}"


def test_without_the_binding_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)  # what an import of something absent finds
    with pytest.raises(Refused, match=r"pip install 'whimbrel\[libvirt\]'"):
        load_libvirt()
