"""The power of hosts, for operators: a host's fence device is asked, or cuts the power.

Only a process whose settings declare the device, and that can read its password, can do this.
"""

from random import Random

from whimbrel.api.http.call import Call
from whimbrel.api.views.host_power import HostPower, HostPowerAnswer
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import HostName
from whimbrel.hosts import admission
from whimbrel.hosts.power_cut import ensure_off
from whimbrel.ports.hosts.fencing import FenceDevice

ANSWER_WITHIN_S = 20.0
"""Shorter than clients wait for an answer."""


async def show(call: Call) -> HostPowerAnswer:
    """Ask the fence device of a host whether the host has power."""
    host, device = await _device(call)
    return _answer(host, device, await device.power())


async def cut(call: Call) -> HostPowerAnswer:
    """Cut the power of a host, and answer when its fence device has confirmed that it is off. Repeatable."""
    host, device = await _device(call)
    await ensure_off(device, call.cloud.clock, Random(), ANSWER_WITHIN_S)
    return _answer(host, device, "off")


async def _device(call: Call) -> tuple[HostName, FenceDevice]:
    """Raises: NotFound: the host; Refused: it has no fence device here."""
    host = HostName(call.params["host"])
    if await admission.find(call.cloud, host) is None:
        raise NotFound(f"Host {host} could not be found.")
    if device := call.cloud.fences.of(host):
        return host, device
    raise Refused(
        f"Host {host} has no fence device in the settings of this process: declare one there with [[fence]], or cut the"
        " power by hand."
    )


def _answer(host: HostName, device: FenceDevice, power: str) -> HostPowerAnswer:
    return HostPowerAnswer(HostPower(host=host, device=device.kind, address=device.address, power=power))
