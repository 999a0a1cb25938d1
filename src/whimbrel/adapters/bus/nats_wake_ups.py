"""Wake-ups over NATS: empty messages in the account `control`, to a queue group, so that each reaches one listener."""

from collections.abc import Callable

from nats.aio.msg import Msg

from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_subjects import WAKE

CONDUCTORS = "conductors"


class NatsWakeUps:
    """Implements ports.wake_ups.WakeUps."""

    def __init__(self, bus: BusConnection) -> None:
        """bus: of the account `control`, opened and closed by its owner; it does not hear what it sends."""
        self._bus = bus

    @property
    def is_connected(self) -> bool:
        return self._bus.is_connected

    def wake(self) -> None:
        self._bus.tell(f"{WAKE}.{CONDUCTORS}")

    def listen(self, listener: Callable[[], None]) -> None:
        async def heard(_: Msg) -> None:
            listener()

        self._bus.add_listener(f"{WAKE}.{CONDUCTORS}", heard, CONDUCTORS)
