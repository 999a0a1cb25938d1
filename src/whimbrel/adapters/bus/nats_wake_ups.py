"""Wake-ups over NATS: empty messages to `wake.TOPIC`, in the account `control`."""

from collections.abc import Callable

from nats.aio.msg import Msg

from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_subjects import WAKE
from whimbrel.ports.wake_ups import TO_ONE, Topic


class NatsWakeUps:
    """Implements ports.wake_ups.WakeUps."""

    def __init__(self, bus: BusConnection) -> None:
        """bus: of the account `control`, opened and closed by its owner; it does not hear what it sends."""
        self._bus = bus
        self._listeners: dict[Topic, list[Callable[[], None]]] = {}

    @property
    def is_connected(self) -> bool:
        return self._bus.is_connected

    def wake(self, topic: Topic) -> None:
        self._bus.tell(f"{WAKE}.{topic}")

    def listen(self, topic: Topic, listener: Callable[[], None]) -> None:
        listeners = self._listeners.setdefault(topic, [])
        listeners.append(listener)
        if len(listeners) > 1:
            return

        async def heard(_: Msg) -> None:
            for each in listeners:
                each()

        self._bus.add_listener(f"{WAKE}.{topic}", heard, topic if topic in TO_ONE else "")
