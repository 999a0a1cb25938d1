"""A RabbitMQ for tests, with an exchange and topics of their own: WHIMBREL_TEST_RABBITMQ, or the usual local one."""

import json
import os
import socket
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import pytest

URL = os.environ.get("WHIMBREL_TEST_RABBITMQ", "rabbit://guest:guest@127.0.0.1:5672/")


def problem() -> str:
    """Return why there is no broker for tests; "": there is one."""
    if find_spec("oslo_messaging") is None:
        return "oslo.messaging is not installed: pip install 'whimbrel[notifications]'"
    where = urlsplit(URL)
    try:
        socket.create_connection((where.hostname or "", where.port or 5672), timeout=2).close()
    except OSError as error:
        return f"no RabbitMQ at {where.hostname}:{where.port or 5672} ({error}): apt install rabbitmq-server"
    return ""


class Consumer:
    """Reads what was sent to a topic, from the queue that waits for its consumers."""

    def __init__(self, exchange: str, topic: str) -> None:
        from kombu import Connection

        self.exchange = exchange
        self.topic = topic
        self.unversioned_topic = f"{topic}-unversioned"
        self._connection = Connection(URL.replace("rabbit://", "amqp://") + "/")

    def messages(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Return and remove all messages of a topic: the envelope's contents, in order, those of priority info first.

        topic: None: that of versioned notifications.
        """
        found = []
        channel = self._connection.channel()
        for queue in _queues(topic or self.topic):
            channel.queue_declare(queue, durable=False, auto_delete=False)
            while (message := channel.basic_get(queue, no_ack=True)) is not None:
                found.append(json.loads(json.loads(message.body)["oslo.message"]))
        channel.close()
        return found

    def close(self) -> None:
        channel = self._connection.channel()
        for queue in (*_queues(self.topic), *_queues(self.unversioned_topic)):
            channel.queue_delete(queue)
        channel.exchange_delete(self.exchange)
        self._connection.release()


def _queues(topic: str) -> list[str]:
    return [f"{topic}.{priority}" for priority in ("info", "error")]


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    if why := problem():
        pytest.skip(why)
    name = f"whimbrel-test-{uuid.uuid4().hex[:8]}"
    found = Consumer(name, name)
    yield found
    found.close()
