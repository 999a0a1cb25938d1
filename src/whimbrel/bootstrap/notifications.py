"""The part of a process that sends notifications to a message broker, if its settings name one."""

import asyncio
import platform

import structlog

from whimbrel.adapters.oslo_sink import OsloSink
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.global_.announcements import SqlAnnouncements
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import WorldError
from whimbrel.notifications.announcer import Announcer
from whimbrel.notifications.changed_objects import ChangedObjects
from whimbrel.notifications.host_metrics import HostMetrics
from whimbrel.notifications.usage_audits import UsageAudits
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.settings.sections import NotificationsTable

log = structlog.get_logger(__name__)

PAUSE_S = 1.0


def announcer_of(
    settings: NotificationsTable, cloud: Cloud, database: Database, keep: KeyValueStore, name: str
) -> Announcer | None:
    """Return what sends the notifications of the cloud; None: this process sends none.

    name: the process, unique in the cloud. keep: what all processes share.
    Raises: Invalid: oslo.messaging is missing, or cannot use the URL.
    """
    if not cloud.rules.notifications.enabled or settings.transport_url is None:
        return None
    sink = sink_of(settings, settings.transport_url)
    here = platform.node()
    objects = ChangedObjects(cloud, keep, sink, here)
    audits = UsageAudits(cloud, keep, sink, here)
    metrics = HostMetrics(cloud, sink)
    return Announcer(cloud, SqlAnnouncements(database, SAGAS), sink, SAGAS, name, here, objects, audits, metrics)


def sink_of(settings: NotificationsTable, url: str) -> OsloSink:
    """Raises: Invalid: as `announcer_of`."""
    return OsloSink(
        url, settings.topics, settings.exchange, settings.queues, settings.ca_file, settings.unversioned_topics
    )


async def announce_for_ever(announcer: Announcer) -> None:
    """Send what is marked, again and again, until cancelled."""
    while True:
        try:
            await announcer.announce()
        except WorldError as trouble:
            log.warning("no notifications were sent; they are sent later", reason=trouble.reason)
        except Exception:
            log.exception("a bug; notifications are sent later")
        await asyncio.sleep(PAUSE_S)
