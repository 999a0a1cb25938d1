"""A process that is asked to stop before it serves ends without a word, instead of that it is up."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

from starlette.responses import PlainTextResponse

from whimbrel.cli.serving import Ports, serve
from whimbrel.settings import CloudConfig


class Process:
    """It does its background work until it is cancelled."""

    health: Any = SimpleNamespace(app=PlainTextResponse("ok"))

    async def run(self) -> None:
        await asyncio.Event().wait()


async def test_what_was_stopped_while_it_was_opened_is_not_said_to_be_up() -> None:
    stop, said = asyncio.Event(), []
    stop.set()
    with socket.create_server(("127.0.0.1", 0)) as endpoint:
        await serve(
            Process(), {}, Ports(CloudConfig(), endpoint, None), None, None, stop, lambda: said.append("it is up")
        )
    assert said == []
