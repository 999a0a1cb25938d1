"""One suite for what notifications are sent to: the broker in memory, and RabbitMQ by oslo.messaging."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.brokers import URL, Consumer, consumer
from whimbrel.adapters.oslo_sink import OsloSink, body
from whimbrel.domain.errors import Invalid, Unavailable
from whimbrel.ports.services.notifications import Notification, NotificationSink
from whimbrel.sim.world.notification_sink import MemorySink

__all__ = ["consumer"]

SENT = Notification(
    id="5b3d7a58-5a54-5c57-8f2f-0d2ba3f5e9b1",
    event="instance.resize.start",
    publisher="nova-compute:h1",
    priority="INFO",
    payload={"nova_object.name": "InstanceActionPayload", "nova_object.data": {"uuid": "s", "task_state": None}},
    at=1_700_000_000.25,
    request_id="req-1",
    user_id="u",
    project_id="p",
)

Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture(params=["memory", "rabbitmq"])
async def sink_and_read(request: pytest.FixtureRequest) -> AsyncIterator[tuple[NotificationSink, Read]]:
    """Yield a sink, and a function that returns the messages that arrived since it was called last."""
    if request.param == "memory":
        memory = MemorySink()

        def read() -> list[dict[str, Any]]:
            found, memory.sent = memory.sent, []
            return [body(each) for each in sorted(found, key=lambda each: each.priority == "ERROR")]

        yield memory, read
        return
    reader: Consumer = request.getfixturevalue("consumer")
    sink = OsloSink(URL, (reader.topic,), reader.exchange, unversioned_topics=(reader.unversioned_topic,))
    yield sink, reader.messages
    await sink.close()


async def test_what_was_sent_has_arrived(sink_and_read: tuple[NotificationSink, Read]) -> None:
    sink, read = sink_and_read
    await sink.send(SENT)
    [found] = read()
    assert {name: found[name] for name in body(SENT)} == body(SENT)


async def test_the_order_is_kept(sink_and_read: tuple[NotificationSink, Read]) -> None:
    sink, read = sink_and_read
    for number in range(5):
        await sink.send(replace(SENT, id=str(number)))
    assert [each["message_id"] for each in read()] == list("01234")


async def test_errors_have_a_queue_of_their_own(sink_and_read: tuple[NotificationSink, Read]) -> None:
    sink, read = sink_and_read
    await sink.send(replace(SENT, priority="ERROR"))
    await sink.send(SENT)
    assert [each["priority"] for each in read()] == ["INFO", "ERROR"]


async def test_what_is_sent_again_has_the_same_id(sink_and_read: tuple[NotificationSink, Read]) -> None:
    sink, read = sink_and_read
    await sink.send(SENT)
    await sink.send(SENT)
    assert [each["message_id"] for each in read()] == [SENT.id, SENT.id]


async def test_unversioned_ones_have_a_topic_of_their_own(consumer: Consumer) -> None:
    sink = OsloSink(URL, (consumer.topic,), consumer.exchange, unversioned_topics=(consumer.unversioned_topic,))
    beside = replace(SENT, id="2", event="compute.instance.resize.start", publisher="compute.h1", is_versioned=False)
    await sink.send(beside)
    await sink.send(SENT)
    [found] = consumer.messages()
    [unversioned] = consumer.messages(consumer.unversioned_topic)
    assert (found["message_id"], unversioned["message_id"]) == (SENT.id, "2")
    assert {name: unversioned[name] for name in body(beside)} == body(beside)
    await sink.close()


async def test_a_broker_that_is_away_is_an_error() -> None:
    away = MemorySink()
    away.is_away = True
    with pytest.raises(Unavailable):
        await away.send(SENT)


async def test_a_rabbitmq_that_is_away_is_an_error(consumer: Consumer) -> None:
    sink = OsloSink("rabbit://guest:secret@127.0.0.1:1/", (consumer.topic,), consumer.exchange)
    with pytest.raises(Unavailable) as raised:
        await sink.send(SENT)
    assert "secret" not in raised.value.reason
    await sink.close()


async def test_the_context_is_that_of_the_request(consumer: Consumer) -> None:
    sink = OsloSink(URL, (consumer.topic,), consumer.exchange)
    await sink.send(SENT)
    [found] = consumer.messages()
    context = {name.removeprefix("_context_"): value for name, value in found.items() if name.startswith("_context_")}
    assert (context["request_id"], context["user_id"], context["project_id"]) == ("req-1", "u", "p")
    assert context["auth_token"] is None
    await sink.close()


def test_a_transport_that_is_not_there_is_refused(consumer: Consumer) -> None:
    with pytest.raises(Invalid, match="transport_url") as raised:
        OsloSink("carrier-pigeon://me:secret@here/")
    assert "secret" not in raised.value.reason
