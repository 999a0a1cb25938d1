"""A process whose settings name a message broker sends notifications; others only mark what is to be sent."""

import asyncio
from pathlib import Path

from tests.bootstrap.test_process_factory import HOST, ONE, Home
from tests.brokers import URL, Consumer, consumer
from whimbrel.bootstrap import process_factory
from whimbrel.bootstrap.connection_check import check_connections
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.process_base import Start, prepare_stores
from whimbrel.bootstrap.registration import this_process
from whimbrel.bootstrap.roles import UP
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import SMALL, World

__all__ = ["consumer"]

ENABLED = "[notifications]\nenabled = true\n"


async def conducting(home: Home, text: str) -> Process:
    config, url = home.config(text), home.data.database_url
    prepare_stores(url)
    record = this_process("up", "main", "here", "lock")
    return await process_factory.open_process(Start(UP, config, url, record, home.data))


async def with_a_server(process: Process) -> None:
    """Create a server whose image is missing: both hosts are tried."""
    world = await World.build()
    new = world.new_server("s", SMALL)
    await create.accept(process.cloud, process.engine, world.requester(), [new])
    while await process.cloud.journal.open_run(new.id) is not None:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await world.close()


async def test_what_happens_is_sent_to_the_broker_of_the_settings(tmp_path: Path, consumer: Consumer) -> None:
    (tmp_path / "broker").write_text(URL)
    broker = f'transport_url_file = "broker"\nexchange = "{consumer.exchange}"\ntopics = ["{consumer.topic}"]\n'
    process = await conducting(Home(tmp_path), ENABLED + broker + ONE)
    assert process.announcer
    await with_a_server(process)
    await process.announcer.announce()
    await process.close()
    events = [(each["event_type"], each["publisher_id"].partition(":")[0]) for each in consumer.messages()]
    assert events == [
        ("scheduler.select_destinations.start", "nova-scheduler"),
        ("scheduler.select_destinations.end", "nova-scheduler"),
        ("instance.create.start", "nova-compute"),
        ("instance.create.start", "nova-compute"),
        ("instance.create.error", "nova-compute"),
        ("instance.create.error", "nova-compute"),
        ("compute_task.build_instances.error", "nova-conductor"),
    ]


async def test_the_format_of_the_settings_is_sent(tmp_path: Path, consumer: Consumer) -> None:
    (tmp_path / "broker").write_text(URL)
    broker = f'transport_url_file = "broker"\nexchange = "{consumer.exchange}"\ntopics = ["{consumer.topic}"]\n'
    formats = f'notification_format = "unversioned"\nunversioned_topics = ["{consumer.unversioned_topic}"]\n'
    process = await conducting(Home(tmp_path), ENABLED + broker + formats + ONE)
    assert process.announcer
    await with_a_server(process)
    await process.announcer.announce()
    await process.close()
    events = [
        (each["event_type"], each["publisher_id"].partition(".")[0])
        for each in consumer.messages(consumer.unversioned_topic)
    ]
    assert events == [
        ("compute.instance.create.start", "compute"),
        ("compute.instance.create.start", "compute"),
        ("compute.instance.create.error", "compute"),
        ("compute.instance.create.error", "compute"),
        ("compute_task.build_instances", "compute_task"),
    ]
    assert consumer.messages() == []


async def test_a_process_without_a_broker_marks_only(tmp_path: Path) -> None:
    process = await conducting(Home(tmp_path), ENABLED + ONE)
    assert process.announcer is None
    await with_a_server(process)
    backlog = (await process.cloud.journal.tally(0.0)).backlog
    assert backlog is not None
    assert (backlog.marked, backlog.sent) == (1, 0)
    await process.close()


async def test_they_are_off_unless_they_are_enabled(tmp_path: Path) -> None:
    process = await conducting(Home(tmp_path), f'[notifications]\ntransport_url = "{URL}"\n' + ONE)
    assert process.announcer is None
    assert (await process.cloud.journal.tally(0.0)).backlog is None
    await process.close()


async def test_a_check_connects_to_the_broker(tmp_path: Path, consumer: Consumer) -> None:
    home = Home(tmp_path)
    prepare_stores(home.data.database_url)
    for url, state in ((URL, "ok"), ("rabbit://guest:secret@127.0.0.1:1/", "failed")):
        config = home.config(f'{ENABLED}transport_url = "{url}"\n' + ONE + HOST.format("n3"))
        checked = await check_connections(config, home.data.database_url)
        [found] = [one for one in checked if one.subject == "notifications"]
        assert found.state == state
        assert "secret" not in found.text
