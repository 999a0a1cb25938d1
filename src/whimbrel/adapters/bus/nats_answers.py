"""Answers over NATS: a result as JSON, or an error by its name, marked by a header."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import structlog
from nats.aio.msg import Msg

from whimbrel.adapters.bus.compressed import compress, decompress
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.verbs import Verb, decode_trouble, encode, encode_trouble
from whimbrel.domain.errors import Refused, Unavailable, WorldError

log = structlog.get_logger(__name__)

TROUBLE = {"Trouble": "1"}
"""The header of an error."""


ENDS_S = 10.0
"""How long messages that are being answered may take when their receiver ends."""


@asynccontextmanager
async def answering() -> AsyncIterator[Callable[[Coroutine[Any, Any, None]], None]]:
    """Yield a function that starts a task to answer a message.

    The tasks are finished before the context ends, unless that takes longer than ENDS_S: then they are cancelled, and
    their senders get no answer.
    """
    tasks: set[asyncio.Task[None]] = set()

    def start(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    try:
        yield start
    finally:
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=ENDS_S)
            for task in late:
                task.cancel()


async def answer(
    bus: BusConnection, message: Msg, work: Awaitable[object], headers: dict[str, str] | None = None
) -> None:
    """Do what a message asks for, and send the result, or the error. headers: sent with the result.

    An answer that is too large for the bus becomes Unavailable: what the message asked for is done.
    """
    try:
        body, how = compress(encode(await work))
        how = how | (headers or {})
    except WorldError as error:
        body, how = encode_trouble(error), TROUBLE
    except Exception:  # any: the sender receives an error, and other messages are still answered
        log.exception("a message could not be processed", subject=message.subject)
        body, how = encode_trouble(Unavailable(f"{message.subject} failed, see the log of its receiver")), TROUBLE
    try:
        await bus.answer(message, body, how)
    except Refused as refusal:
        reason = f"the answer to {message.subject} was not sent: {refusal.reason}"
        await bus.answer(message, encode_trouble(Unavailable(reason)), TROUBLE)


def read_answer(verb: Verb, message: Msg, sender: str, name: str) -> Any:
    """Return the result. sender, name: for messages of errors. Raises: the sender's error; Unavailable."""
    try:
        content = decompress(message.data, message.headers)
        if message.headers and "Trouble" in message.headers:
            raise decode_trouble(content)
        return verb.decode_answer(content)
    except msgspec.DecodeError as error:
        raise Unavailable(f"no readable answer from {sender} to {name}: {error}") from error
