"""[[fence]]: the fence devices of hosts, with their secrets in files."""

from pathlib import Path

import pytest

from tests.unit.settings.test_settings import GOOD, complaint, load
from whimbrel.adapters.fencing.ipmi import IpmiDevice
from whimbrel.adapters.fencing.redfish import RedfishDevice
from whimbrel.bootstrap.fence_devices import fences_of
from whimbrel.domain.ids import HostName

REDFISH = """
[[fence]]
host = "n1"
driver = "redfish"
address = "https://10.0.0.17"
user = "fencer"
password_file = "n1.password"
"""
IPMI = REDFISH.replace("redfish", "ipmi").replace("https://10.0.0.17", "10.0.0.17:6230")
BUS = '\n[bus]\nurls = ["tls://n1.example.org:4222"]\n'


def test_a_redfish_device_is_declared_for_a_host(tmp_path: Path) -> None:
    text = GOOD + REDFISH + 'system = "/redfish/v1/Systems/1"\nca_file = "bmc.pem"\ntimeout_s = 3.5\n'
    assert fences_of(load(tmp_path, text)).of(HostName("n1")) == RedfishDevice(
        address="https://10.0.0.17",
        user="fencer",
        password_file=tmp_path / "n1.password",
        system="/redfish/v1/Systems/1",
        ca_file=tmp_path / "bmc.pem",
        timeout_s=3.5,
    )


def test_an_ipmi_device_is_declared_for_a_host(tmp_path: Path) -> None:
    assert fences_of(load(tmp_path, GOOD + IPMI + "cipher_suite = 3\n")).of(HostName("n1")) == IpmiDevice(
        address="10.0.0.17:6230", user="fencer", password_file=tmp_path / "n1.password", cipher_suite=3
    )


def test_a_host_without_a_table_has_no_device(tmp_path: Path) -> None:
    assert fences_of(load(tmp_path, GOOD + REDFISH)).of(HostName("n2")) is None


def test_hosts_that_join_may_have_devices(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD + BUS + REDFISH.replace('"n1"', '"n17"'))
    assert fences_of(config).of(HostName("n17"))


def test_the_file_of_the_password_need_not_be_on_this_machine(tmp_path: Path) -> None:
    """Most processes with the file have no use for it: they start without."""
    assert not (tmp_path / "n1.password").exists()
    assert load(tmp_path, GOOD + REDFISH).fences


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (REDFISH + REDFISH, "host 'n1' has two tables [[fence]]; remove one of them"),
        (
            REDFISH.replace('"n1"', '"n9"'),
            "[[fence]] has the host 'n9', and no host is called that; name one that the file has, or remove the table",
        ),
        (
            REDFISH.replace("https", "http"),
            "[[fence]] of host 'n1': the password would be sent to http://10.0.0.17 without TLS; write https://, or set"
            " 'insecure = true' there",
        ),
        (
            REDFISH.replace('user = "fencer"\n', ""),
            "[[fence]] number 1 has no 'user'; give it the name of a user of the device that may turn the machine off",
        ),
        (
            IPMI + 'password = "p"\n',
            "[[fence]] number 1 has an unknown key 'password'; remove it, or use one of: host, user, password_file,"
            " timeout_s, address, cipher_suite, driver",
        ),
        (
            "self_fence_s = 60.0\n",
            "host 'n1' has 'self_fence_s', but it has no agent process that could lose the cloud; set it in [host] of a"
            " host that has joined, or remove it",
        ),
        (
            REDFISH.replace("redfish", "wire"),
            "[[fence]] number 1: 'driver' is 'wire'; it must be 'redfish' or 'ipmi'",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(tmp_path, GOOD + text) == said
