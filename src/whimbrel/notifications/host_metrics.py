"""Announces the load of each host that reports it, about every minute: `metrics.update`.

Nothing is kept: values that could not be sent are out of date, and the next ones follow.
"""

from uuid import UUID, uuid5

from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.notifications.versioned_objects import time, versioned
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.notifications import Notification, NotificationSink

NAMESPACE = UUID("b7c0a5de-1f83-4c69-8b2a-6d0e9f7a3c11")
"""Of message ids."""

EVERY_S = 60.0
"""As Nova: its computes look through their resources so often."""

PAGE = 500
"""Hosts that are announced in one round, so that other notifications do not wait for long."""


class HostMetrics:
    def __init__(self, cloud: Cloud, sink: NotificationSink) -> None:
        self._cloud = cloud
        self._sink = sink
        self._sent: dict[HostName, float] = {}  # host -> when its load was announced last

    async def announce(self) -> int:
        """Announce the load of hosts for which it is time. Return how many notifications were sent.

        Raises: Unavailable: the broker, or the databases.
        """
        if not self._cloud.rules.scheduler.metrics_weight_setting:
            return 0
        now = self._cloud.clock.now()
        reporting = [host for host in (await self._cloud.fleets.now()).hosts if host.metrics and host.is_up(now)]
        due = [host for host in reporting if now - self._sent.get(host.name, 0.0) >= EVERY_S][:PAGE]
        for host in due:
            await self._sink.send(_notification(host, now))
            self._sent[host.name] = now
        return len(due)


def _notification(host: Host, now: float) -> Notification:
    metrics = [
        versioned(
            "MetricPayload",
            {
                "name": name,
                "value": round(value * 100) if name.endswith("percent") else round(value),
                "numa_membw_values": None,
                "timestamp": time(host.seen_at),
                "source": host.driver,
            },
        )
        for name, value in host.metrics.items()
    ]
    payload = {"host": host.name, "host_ip": host.host_ip, "nodename": host.name, "metrics": metrics}
    return Notification(
        id=str(uuid5(NAMESPACE, f"{host.name} {now}")),
        event="metrics.update",
        publisher=f"nova-compute:{host.name}",
        priority="INFO",
        payload=versioned("MetricsPayload", payload),
        at=now,
    )
