"""One connection to NATS: it is always replaced when it is lost, and nothing is sent late.

When it is lost, every question that waits for an answer fails at once with Unavailable: a server of NATS forgets the
sender of a question, so that the answer would not arrive. A question while there is no connection waits for one, for a
few seconds; what was not sent when its sender gave up is never sent.
"""

import asyncio
import itertools
import random
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.nats_keys import Login, sign_nonce
from whimbrel.domain.errors import Refused, Unavailable, WorldError

log = structlog.get_logger(__name__)

OLDEST = (2, 2)
"""The first version of nats-server that stores accounts by itself and reports a subject without listeners."""

CONNECT_S = 5
PING_S = 5.0
"""How often the connection is tested; a test that takes as long ends it."""
RETURNS_S = 5.0
"""How long questions wait for a lost connection to come back. After that they are refused at once."""
CLOSE_S = 2.0
"""How long a connection may take to close."""
CANCEL_S = 0.1
RETRY_S = (0.05, 2.0)
"""The first and the longest time between two attempts to connect."""

Heard = Callable[[Msg], Awaitable[None]]


class NoResponders(Unavailable):
    """No client listens to the subject: the message was not delivered."""


_NOT_ADMITTED = re.compile(r"authorization violation|revoked", re.IGNORECASE)
"""How servers say that a key is not admitted."""


class _Listening:
    def __init__(self, subject: str, heard: Heard, queue: str) -> None:
        self.subject = subject
        self.heard = heard
        self.queue = queue
        self.subscription: Subscription | None = None  # of the present connection


class BusConnection:
    """A connection to one account of the bus: `async with BusConnection(...) as bus:`.

    login: called at each attempt, so that claims may be renewed. name: shown by servers of NATS. advice: what to do if
    the servers do not admit the key.
    """

    def __init__(
        self,
        servers: BusServers,
        login: Callable[[], Awaitable[Login]],
        name: str,
        ping_s: float = PING_S,
        advice: str = "",
    ) -> None:
        self._servers = servers
        self._login = login
        self._name = name
        self._ping_s = ping_s
        self._advice = advice
        self._tls = servers.tls_context()
        self._client: Client | None = None
        self._inbox = ""
        self._own = secrets.token_hex(8)  # others may have the same key, and the same inbox
        self._problem = "it was not tried yet"
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._listening: list[_Listening] = []
        self._is_here = asyncio.Event()
        self._lost_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._lost_at = asyncio.get_running_loop().time()
        self._work = asyncio.create_task(self._stay_connected())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while not self._work.done():
            self._work.cancel()  # again and again: nats-py and asyncio.wait_for may lose a cancellation
            await asyncio.wait({self._work}, timeout=CANCEL_S)
        self._lose(Unavailable("it was closed"))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_S)

    @property
    def is_connected(self) -> bool:
        return self._is_here.is_set()

    @property
    def problem(self) -> str:
        """Return why there is no connection; empty: there is one."""
        return "" if self.is_connected else self._problem

    async def connected(self, timeout_s: float | None = None) -> None:
        """Wait until there is a connection. Raises: Unavailable: there was none within timeout_s."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_here.wait()
        except TimeoutError:
            raise Unavailable(f"no connection to the bus at {' '.join(self._servers.urls)}: {self._problem}") from None

    async def ask(
        self,
        subject: str,
        body: bytes,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
        again_s: float | None = None,
    ) -> Msg:
        """Send a question and return the answer.

        again_s: interval after which an unanswered question is sent again: another member of a queue group may receive
        it. The first answer counts.
        Raises: NoResponders: no listener. Unavailable: no answer, it may have arrived. Refused: it is too large.
        """
        client = await self._present(timeout_s)
        number = str(next(self._numbers))
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._publish(client, subject, body, f"{self._inbox}.{number}", headers)
                while again_s is not None and not (await asyncio.wait([answer], timeout=again_s))[0]:
                    await self._publish(client, subject, body, f"{self._inbox}.{number}", headers)
                message: Msg = await answer
        except TimeoutError:
            raise Unavailable(f"no answer to {subject} in {timeout_s:.0f} s") from None
        finally:
            del self._waiting[number]
        if message.headers and message.headers.get("Status") == "503":
            raise NoResponders(f"no client on the bus listens to {subject}")
        return message

    async def answer(self, question: Msg, body: bytes, headers: Mapping[str, str]) -> None:
        """Answer a message. If its connection was lost meanwhile, the answer is dropped: its way back is gone.

        Raises: Refused: the answer is too large.
        """
        if question.reply:
            with suppress(Unavailable):  # not by the present connection, which may not answer it
                await self._publish(question._client, question.reply, body, "", headers)

    async def gather(self, subject: str, body: bytes, quiet_s: float) -> list[Msg]:
        """Send a question to all listeners and return the answers, once none has come for `quiet_s`."""
        client = await self._present(RETURNS_S)
        answers: asyncio.Queue[Msg] = asyncio.Queue()
        inbox = f"{self._inbox}.all{next(self._numbers)}"
        subscription = await client.subscribe(inbox, cb=answers.put)
        gathered = []
        try:
            await self._publish(client, subject, body, inbox, None)
            while True:
                async with asyncio.timeout(quiet_s):
                    gathered.append(await answers.get())
        except TimeoutError:
            return [each for each in gathered if not (each.headers or {}).get("Status")]
        finally:
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    def tell(self, subject: str) -> None:
        """Send an empty message if there is a connection. It may be lost."""
        if self._client:
            self._start(self._publish(self._client, subject, b"", "", None))

    @asynccontextmanager
    async def listen(self, subject: str, heard: Heard, queue: str = "") -> AsyncIterator[None]:
        """Listen while the context lasts. heard: called for each message, one after the other.

        If there is a connection, everything that is sent from now on is heard.
        """
        listening = _Listening(subject, heard, queue)
        self._listening.append(listening)
        try:
            if self._client:
                await self._subscribe(self._client, [listening])
            yield
        finally:
            self._listening.remove(listening)
            if listening.subscription and self._client:
                with suppress(nats.errors.Error, TimeoutError):
                    await _unsubscribe(self._client, listening.subscription)

    def add_listener(self, subject: str, heard: Heard, queue: str = "") -> None:
        """Listen as long as this connection exists; see listen. It takes effect soon."""
        listening = _Listening(subject, heard, queue)
        self._listening.append(listening)
        if self._client:
            self._start(self._subscribe(self._client, [listening]))

    def reconnect(self) -> None:
        """Replace the connection by one with the current claims."""
        if self._client:
            self._start(self._client.close())

    async def _present(self, timeout_s: float) -> Client:
        if self._client and not self._client.is_connected:  # it was just lost
            self._client = None
            self._lose(Unavailable("the connection was lost"))
        if self._client is None:
            waited_s = asyncio.get_running_loop().time() - self._lost_at
            await self.connected(max(0.0, min(RETURNS_S - waited_s, timeout_s)))
        assert self._client
        return self._client

    async def _publish(
        self, client: Client, subject: str, body: bytes, reply: str, headers: Mapping[str, str] | None
    ) -> None:
        try:
            await client.publish(subject, body, reply, dict(headers) if headers else None)
        except nats.errors.MaxPayloadError:
            raise Refused(too_large(len(body), client.max_payload)) from None
        except nats.errors.Error as error:
            raise Unavailable(f"{subject} was not sent: {error}") from error

    def _start(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            with suppress(WorldError, nats.errors.Error):  # the loss of the connection is noticed elsewhere
                await work

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Connecting

    async def _stay_connected(self) -> None:
        wait_s = RETRY_S[0]
        while True:
            client, lost = Client(), asyncio.Event()
            try:
                await self._connect(client, lost)
                wait_s = RETRY_S[0]
                await self._until_lost(client, lost)
                raise Unavailable(f"the connection was lost: {client.last_error}")
            except Exception as error:  # any: this loop is what brings the connection back
                before = self._problem
                self._lose(error)
                if self._problem != before:
                    log.warning("no connection to the bus", bus=self._name, error=self._problem)
            finally:
                self._client = None
                self._start(_closed(client))
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # a thousand agents do not come at once
            wait_s = min(2 * wait_s, RETRY_S[1])

    async def _connect(self, client: Client, lost: asyncio.Event) -> None:
        errors: set[str] = set()

        async def note(error: Exception) -> None:
            if not client.is_connected:
                errors.add(str(error) or repr(error))
            else:  # such as a subject that this key does not admit it for
                log.warning("the bus reports an error", bus=self._name, error=str(error))

        async def closed() -> None:
            lost.set()

        jwt, seed, inbox = await self._login()
        self._inbox = f"{inbox}.{self._own}"

        def sign(nonce: str) -> bytes:
            # The last moment before anything secret is sent: a server that claims to have no TLS is not the right one.
            if self._tls and not client._server_info.get("tls_required"):
                raise nats.errors.Error("the server does not offer TLS, which is required here")
            return sign_nonce(seed, nonce)

        try:
            await client.connect(
                list(self._servers.urls), error_cb=note, closed_cb=closed, name=self._name, allow_reconnect=False,
                max_reconnect_attempts=1, reconnect_time_wait=0, connect_timeout=CONNECT_S, ping_interval=86400,
                no_echo=True, tls=self._tls, user_jwt_cb=lambda: jwt.encode(), signature_cb=sign, pending_size=0,
            )  # fmt: skip
        except nats.errors.NoServersError:
            raise Unavailable("; ".join(sorted(errors))) from None
        check_version(str(client.connected_server_version).removeprefix("<nats server v").removesuffix(">"))
        await self._subscribe(client, [_Listening(f"{self._inbox}.*", self._answered, ""), *self._listening])
        self._client = client
        await self._subscribe(client, [each for each in self._listening if each.subscription is None])
        log.info("connected to the bus", bus=self._name, server=client.connected_url and client.connected_url.netloc)
        self._problem = ""
        self._is_here.set()

    async def _subscribe(self, client: Client, wanted: list[_Listening]) -> None:
        """Subscribe, and wait until the server has done it."""
        for each in wanted:
            each.subscription = await client.subscribe(each.subject, queue=each.queue, cb=each.heard)
        if wanted:
            await flush(client, CONNECT_S)

    async def _until_lost(self, client: Client, lost: asyncio.Event) -> None:
        """Return when the connection is closed. Raises: nats.errors.Error: the server has stopped answering."""
        while not lost.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._ping_s):
                    await lost.wait()
            if not lost.is_set():
                await client.flush(timeout=self._ping_s)  # type: ignore[arg-type]

    def _lose(self, error: Exception) -> None:
        problem = str(error) or repr(error)
        if self._advice and _NOT_ADMITTED.search(problem):
            problem = f"{problem}: {self._advice}"
        if self.is_connected:
            self._lost_at = asyncio.get_running_loop().time()
        self._problem = problem
        self._is_here.clear()
        for each in self._listening:
            each.subscription = None
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Unavailable("the connection to the bus was lost before the answer came"))

    async def _answered(self, message: Msg) -> None:
        answer = self._waiting.get(message.subject.rpartition(".")[2])
        if answer and not answer.done():
            answer.set_result(message)


async def flush(client: Client, timeout_s: float) -> None:
    """Wait until the server has processed all that was sent before.

    nats-py writes a ping at once, before what waits to be written: only the second one is behind it.
    """
    for _ in range(2):
        await client.flush(timeout=timeout_s)  # type: ignore[arg-type]


async def _unsubscribe(client: Client, subscription: Subscription) -> None:
    """End a subscription when all that the server has delivered to it was heard.

    nats-py's own `drain` would do, but for its ping: it forgets a subscription while the server still delivers to it.
    """
    await client._send_unsubscribe(subscription._id)
    await flush(client, CONNECT_S)
    async with asyncio.timeout(CONNECT_S):  # for ever, if the connection is lost now
        await subscription._pending_queue.join()
    await subscription.unsubscribe()


async def _closed(client: Client) -> None:
    with suppress(Exception):  # it is not used any more
        await client.close()


def check_version(version: str) -> None:
    """Raises: Unavailable: the server is too old."""
    numbers = version.split(".")
    if not (len(numbers) > 1 and numbers[0].isdigit() and numbers[1].isdigit()):
        return  # a build that is no release: its version has no order
    if (int(numbers[0]), int(numbers[1])) < OLDEST:
        raise Unavailable(
            f"nats-server is of version {version}, and {OLDEST[0]}.{OLDEST[1]} or newer is needed: see"
            " https://nats.io/download"
        )


def too_large(size: int, limit: int) -> str:
    return (
        f"a message of {size} bytes is larger than the {limit} bytes that the bus transmits: raise max_payload in the"
        " configuration of nats-server"
    )
