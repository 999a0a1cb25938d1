"""Sends notifications to RabbitMQ by oslo.messaging, as Nova does: exchange, topics, envelope and context are the same.

Invariant: oslo.messaging blocks, so that it runs in a thread of its own and never in the event loop. Its Notifier logs
a message that it could not send and goes on; so the transport below it is used, which raises an error.
"""

import asyncio
import re
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from whimbrel.domain.errors import Invalid, Unavailable
from whimbrel.ports.services.notifications import Notification

SEND_S = 30.0
"""Time for a confirmation. A thread that is still busy after it is left alone until it ends by itself."""

Queues = Literal["transient", "durable", "quorum"]
"""The kind of queues, which must be that of the queues that are there already: RabbitMQ refuses another one."""

MISSING = (
    "[notifications] is enabled, which needs oslo.messaging: install whimbrel[notifications], or remove the setting"
    " 'transport_url_file' from this process"
)


class OsloSink:
    """Implements ports.services.notifications.NotificationSink."""

    def __init__(
        self,
        url: str,
        topics: Sequence[str] = ("versioned_notifications",),
        exchange: str = "nova",
        queues: Queues = "transient",
        ca_file: str | None = None,
        unversioned_topics: Sequence[str] = ("notifications",),
    ) -> None:
        """url: as in Nova's transport_url, rabbit://USER:PASSWORD@HOST:PORT/VHOST. ca_file: None: without TLS.

        Raises: Invalid: oslo.messaging is not installed, or the URL has no known transport.
        """
        self._topics = {True: topics, False: unversioned_topics}
        self._exchange = exchange
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="notifications")
        self._busy: asyncio.Future[None] | None = None
        self._transport = _transport(url, queues, ca_file)

    async def send(self, notification: Notification) -> None:
        if self._busy is not None and not self._busy.done():
            raise Unavailable("the broker has not answered yet")
        loop = asyncio.get_running_loop()
        self._busy = loop.run_in_executor(self._thread, partial(self._send, notification))
        try:
            async with asyncio.timeout(SEND_S):
                await asyncio.shield(self._busy)
        except TimeoutError:
            raise Unavailable(f"no confirmation within {SEND_S:.0f} seconds") from None

    async def check(self) -> None:
        """Connect to the broker and log in. Raises: Unavailable."""
        try:
            async with asyncio.timeout(SEND_S):
                await asyncio.get_running_loop().run_in_executor(self._thread, self._connect)
        except TimeoutError:
            raise Unavailable(f"no answer within {SEND_S:.0f} seconds") from None

    async def close(self) -> None:
        self._thread.submit(self._transport.cleanup)
        self._thread.shutdown(wait=False, cancel_futures=False)

    def _connect(self) -> None:
        """Raises: Unavailable."""
        try:
            with self._transport._driver._get_connection(retry=1):
                return
        except Exception as trouble:  # as in `_send`
            raise Unavailable(f"{type(trouble).__name__}: {_without_password(str(trouble))}") from None

    def _send(self, notification: Notification) -> None:
        """Send in the thread. Raises: Unavailable."""
        from oslo_messaging import Target

        message, context = body(notification), context_of(notification)
        for topic in self._topics[notification.is_versioned]:
            target = Target(topic=f"{topic}.{notification.priority.lower()}", exchange=self._exchange)
            try:
                self._transport._send_notification(target, dict(context), dict(message), version=2.0, retry=1)
            except Exception as trouble:  # of oslo.messaging, kombu or amqp, which have no common class
                raise Unavailable(f"{type(trouble).__name__}: {_without_password(str(trouble))}") from None


def body(notification: Notification) -> dict[str, Any]:
    """Return the message as oslo.messaging's Notifier makes it."""
    return {
        "message_id": notification.id,
        "publisher_id": notification.publisher,
        "event_type": notification.event,
        "priority": notification.priority,
        "payload": notification.payload,
        "timestamp": datetime.fromtimestamp(notification.at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
    }


def context_of(notification: Notification) -> dict[str, Any]:
    """Return the request as Nova's context has it; without a token."""
    user, project = notification.user_id, notification.project_id
    return {
        "request_id": notification.request_id,
        "user_id": user,
        "project_id": project,
        "user": user,
        "tenant": project,
        "is_admin": False,
        "roles": [],
        "auth_token": None,
    }


def _transport(url: str, queues: Queues, ca_file: str | None) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its packages announce the end of eventlet, which is not used here
            import oslo_messaging
            from oslo_config import cfg
    except ImportError:
        raise Invalid(MISSING) from None
    conf = cfg.ConfigOpts()
    conf([], project="whimbrel", default_config_files=[], default_config_dirs=[])
    try:
        transport = oslo_messaging.get_notification_transport(conf, url=url)
    except Exception as wrong:  # of oslo.messaging or stevedore
        reason = _without_password(str(wrong))
        raise Invalid(f"the broker of [notifications] cannot be used: {reason}; correct 'transport_url'") from None
    options = {
        "kombu_reconnect_delay": 0.0,
        "rabbit_retry_interval": 1,
        "amqp_durable_queues": queues == "durable",
        "rabbit_quorum_queue": queues == "quorum",
        "ssl": ca_file is not None,
        "ssl_ca_file": ca_file or "",
    }
    for name, value in options.items():
        conf.set_override(name, value, group="oslo_messaging_rabbit")
    return transport


def _without_password(text: str) -> str:
    """Remove what could be the login of a URL."""
    return re.sub(r"://[^@/\s]*@", "://***@", text)
