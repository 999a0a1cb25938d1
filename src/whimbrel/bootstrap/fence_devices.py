"""Creates the fence devices that the settings declare. They are contacted when they are used, and not before."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from whimbrel.adapters.fencing.ipmi import IpmiDevice
from whimbrel.adapters.fencing.redfish import RedfishDevice
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.fencing import FenceDevice
from whimbrel.settings import CloudConfig
from whimbrel.settings.cell_sections import IpmiFence, RedfishFence


@dataclass(frozen=True)
class DeclaredFences:
    """Implements ports.hosts.fencing.Fences."""

    devices: Mapping[HostName, FenceDevice]

    def of(self, host: HostName) -> FenceDevice | None:
        return self.devices.get(host)


def fences_of(config: CloudConfig) -> DeclaredFences:
    """Return the fence devices of the hosts that have one."""
    return DeclaredFences({HostName(fence.host): _device(fence) for fence in config.fences})


def _device(fence: RedfishFence | IpmiFence) -> FenceDevice:
    password_file = Path(fence.password_file)
    if isinstance(fence, IpmiFence):
        return IpmiDevice(
            address=fence.address,
            user=fence.user,
            password_file=password_file,
            cipher_suite=fence.cipher_suite,
            timeout_s=fence.timeout_s,
        )
    return RedfishDevice(
        address=fence.address,
        user=fence.user,
        password_file=password_file,
        system=fence.system,
        ca_file=Path(fence.ca_file) if fence.ca_file else None,
        insecure=fence.insecure,
        timeout_s=fence.timeout_s,
    )
