"""Cuts the power of a host by its fence device, and waits until the device says that it is off.

Invariant: only an answer "off" counts. A device that took the order and one that does not answer prove nothing.
"""

from random import Random

from whimbrel.domain.errors import Unavailable
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.fencing import FenceDevice
from whimbrel.saga.backoff import pause_s

OFF_WITHIN_S = 60.0
"""How long a machine may take to be off. Controllers take some seconds."""


async def ensure_off(device: FenceDevice, clock: Clock, rng: Random, within_s: float = OFF_WITHIN_S) -> None:
    """Cut the power, and repeat that until the device says that the machine is off.

    Raises: Refused: the device says no. Unavailable: it does not say "off" in time: the machine may be on or off.
    """
    deadline, tries, trouble = clock.now() + within_s, 0, "it says that the machine is on"
    while True:
        try:
            await device.power_off()
            if await device.power() == "off":
                return
        except Unavailable as silence:
            trouble = silence.reason
        tries += 1
        pause = pause_s(tries, rng)
        if clock.now() + pause > deadline:
            raise Unavailable(f"the fence device {device.address} did not confirm within {within_s:g} s: {trouble}")
        await clock.sleep(pause)
