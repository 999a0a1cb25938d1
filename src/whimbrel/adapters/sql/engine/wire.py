"""One connection to PostgreSQL, used below SQLAlchemy and psycopg's cursors: statements are prepared and pipelined.

One round trip costs as much as a dozen pipelined statements, so a statement whose result is not needed is sent together
with the next one whose result is.
Invariant: a connection on which an operation was interrupted (cancelled, connection lost) is broken and never reused.
"""

import asyncio
import os
import select
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from whimbrel.adapters.sql.engine.fixed import Text, Values

PREPARED = 1000
"""How many prepared statements one connection keeps per schema."""

_SAID = [psycopg.postgres.types[name].oid for name in ("bool", "float8", "bytea")]
"""Types that are declared to PostgreSQL; it infers the others from the context, or the statement has a cast."""

_GOOD = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
_STALE = (psycopg.errors.FeatureNotSupported, psycopg.errors.InvalidSqlStatementName)
"""Errors of a prepared statement after its tables were changed, or after a proxy between client and server discarded
it.
"""


class Sent:
    """A command that was sent, and later its result."""

    __slots__ = ("answer", "prepared", "text")

    def __init__(self, text: Text | None = None, prepared: dict[Text, bytes] | None = None) -> None:
        self.text = text
        self.prepared = prepared  # where the statement that it prepares is registered
        self.answer: pq.abc.PGresult | None = None

    @property
    def count(self) -> int:
        """Return the number of affected rows, once answered."""
        return (self.answer and self.answer.command_tuples) or 0

    @property
    def said(self) -> bytes | None:
        """Return PostgreSQL's command tag."""
        return self.answer.command_status if self.answer else None


class Wire:
    def __init__(self, connection: AsyncConnection, driver: "psycopg.AsyncConnection[Any]") -> None:
        """connection: SQLAlchemy's, for statements that are not fixed; it begins and ends no transactions."""
        self._connection = connection
        self.is_broken = False
        self.is_lost = False  # broken, and the database is probably unreachable
        self.used_at = 0.0
        self._pq = driver.pgconn
        self._encoding = driver.info.encoding
        self._values = Transformer(driver)
        self.schema = ""  # of the statements that are sent
        self._path: str | None = None  # the schema in which names without one are looked up; None: not known
        self._prepared: dict[Text, bytes] = {}  # in this schema
        self._prepared_in: dict[str, dict[Text, bytes]] = {}
        self._numbers = 0
        self._waiter: asyncio.Future[None] | None = None
        self._watched: int | None = None  # the socket that the event loop watches; libpq closes it when it is lost
        self._sent: deque[Sent] = deque()

    # Sending: nothing is flushed before a caller waits for results, or calls `part`

    def command(self, sql: bytes) -> Sent:
        """Send a statement that has no values and returns no rows."""
        self._enter()
        self._pq.send_query_params(sql, None)
        return self._note(Sent())

    def enter(self, schema: str) -> None:
        """Select the schema for the statements that follow. Fixed ones name it themselves, so nothing is sent."""
        self.schema = schema
        self._prepared = self._prepared_in.setdefault(schema, {})

    @property
    def _quoted_schema(self) -> str:
        return '"' + self.schema.replace('"', '""') + '"'

    def send(self, text: Text, values: Mapping[str, Any]) -> Sent:
        self._enter()
        bound = text.bound(values)
        given = self._values.dump_sequence([bound[each] for each in text.order], [PyFormat.TEXT] * len(text.order))
        name = self._prepared.get(text) or self._prepare(text, self._values.types or ())
        self._pq.send_query_prepared(name, given)
        return self._note(Sent(text))

    def part(self) -> None:
        """Flush what was sent without waiting for the results: the next user of the connection receives them."""
        self._pq.pipeline_sync()
        self._note(Sent())
        self._pq.flush()

    def _prepare(self, text: Text, types: Sequence[int]) -> bytes:
        if len(self._prepared) >= PREPARED:
            oldest = next(iter(self._prepared))
            self.command(b"DEALLOCATE " + self._prepared.pop(oldest))
        self._numbers += 1
        name = self._prepared[text] = b"fixed_%d" % self._numbers
        self._pq.send_prepare(
            name,
            text.sql_in(self._quoted_schema).encode(self._encoding),
            [each if each in _SAID else 0 for each in types],
        )
        self._note(Sent(text, self._prepared))
        return name

    def _enter(self) -> None:
        if self._pq.pipeline_status == pq.PipelineStatus.OFF:
            self._pq.enter_pipeline_mode()

    def _note(self, sent: Sent) -> Sent:
        self._sent.append(sent)
        return sent

    # Waiting

    async def answers(self) -> None:
        """Wait for the results of all that was sent. Raises: psycopg.Error: the first error."""
        if not self._sent:
            return
        trouble: psycopg.Error | None = None
        try:
            self._pq.pipeline_sync()
            self._note(Sent())
            while self._sent:
                answer = await self._next()
                wrong = self._take(self._sent.popleft(), answer)
                trouble = trouble or wrong
        except psycopg.Error as error:
            self.is_lost = True
            self.cut()
            raise trouble or error from error
        except BaseException:
            self.cut()
            raise
        if trouble:
            self.is_broken = isinstance(trouble, _STALE)
            raise trouble

    async def execute(self, statement: sa.Executable, values: Values) -> sa.CursorResult[Any]:
        """Execute a statement through SQLAlchemy, after all pending results have arrived."""
        await self._select_path()
        try:
            return await self._connection.execute(statement, values)
        except DBAPIError as error:
            if error.connection_invalidated:
                self.is_lost = True
                self.cut()
            raise
        except BaseException:
            self.cut()
            raise

    async def make(self, metadata: sa.MetaData) -> None:
        await self._select_path()
        await self._connection.run_sync(metadata.create_all)

    async def _select_path(self) -> None:
        """Have names without a schema looked up in the selected one, after all pending results have arrived."""
        if self._path != self.schema:
            self.command(f"SET search_path TO {self._quoted_schema}".encode(self._encoding))
        await self.answers()
        self._path = self.schema
        if self._pq.pipeline_status != pq.PipelineStatus.OFF:
            self._pq.exit_pipeline_mode()
        self._unwatch()  # psycopg watches by itself

    async def roll_back(self) -> None:
        """Roll back the transaction. If that fails, close the connection, which ends the transaction too."""
        self._path = None  # it may have been set in this transaction
        try:
            with suppress(psycopg.Error):
                await self.answers()  # otherwise their errors would abort the rollback
            if not self.is_broken:
                self.command(b"ROLLBACK")
                await self.answers()
        except psycopg.Error:
            self.is_lost = True
            self.cut()

    def rows(self, sent: Sent) -> list[Any]:
        """Return the rows of a statement, once answered."""
        answer, text = sent.answer, sent.text
        if answer is None or text is None or not answer.nfields:
            return []
        self._values.set_pgresult(answer)
        return text.rows(self._values.load_rows(0, answer.ntuples, _as_it_is), lambda: self._columns(answer))

    def _columns(self, answer: pq.abc.PGresult) -> list[tuple[str, int]]:
        return [
            ((answer.fname(number) or b"").decode(self._encoding), answer.ftype(number))
            for number in range(answer.nfields)
        ]

    def _take(self, sent: Sent, answer: pq.abc.PGresult) -> psycopg.Error | None:
        sent.answer = answer
        if answer.status in _GOOD or answer.status == pq.ExecStatus.PIPELINE_SYNC:
            return None
        if sent.prepared and sent.text:
            sent.prepared.pop(sent.text, None)  # preparing it failed
        if answer.status == pq.ExecStatus.PIPELINE_ABORTED:
            return None  # an earlier statement failed
        return error_from_result(answer, self._encoding)

    async def _next(self) -> pq.abc.PGresult:
        while True:
            while self._pq.flush():
                await self._ready(writing=True)
            while self._pq.is_busy():
                await self._ready()
            answer = self._pq.get_result()
            if answer is not None:
                return answer
            if self._pq.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")

    async def _ready(self, *, writing: bool = False) -> None:
        """Wait until the socket is readable, or writable if requested, and consume the input."""
        loop, socket = asyncio.get_running_loop(), self._pq.socket
        ready = self._waiter = loop.create_future()
        if self._watched is None:  # it stays so: each change of what is watched is a call of the kernel
            loop.add_reader(socket, self._readable)
            self._watched = socket
        if writing:
            loop.add_writer(socket, _wake, ready)
        try:
            await ready
        finally:
            self._waiter = None
            if writing:
                loop.remove_writer(socket)
        self._pq.consume_input()

    def _readable(self) -> None:
        if self._waiter:
            _wake(self._waiter)
        else:
            self._unwatch()  # what arrives now is for the next user

    def _unwatch(self) -> None:
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None

    # Ending

    def has_ended(self) -> bool:
        """Check whether the server closed the idle connection. Polls the socket; sends nothing."""
        unread = select.poll()
        try:
            unread.register(self._pq.socket, select.POLLIN)
            while unread.poll(0):  # unread results of flushed statements may precede the end
                self._pq.consume_input()
        except psycopg.Error:
            return True
        return False

    def cut(self) -> None:
        """Close the connection. The server rolls back what is in progress once it is done."""
        self.is_broken = True
        self._unwatch()
        self._pq.finish()

    def hang_up(self) -> None:
        """Fail all pending queries; used when the server stops responding."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._pq.socket)) as end:
            end.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        self.cut()
        await self._connection.invalidate()
        await self._connection.close()


def positional(dialect: sa.Dialect) -> sa.Dialect:
    """Return the same dialect with positional values ($1), as PostgreSQL has them."""
    return type(dialect)(dbapi=dialect.dbapi, paramstyle="numeric_dollar")  # type: ignore[call-arg]


def _wake(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def _as_it_is(row: Any) -> Any:
    return row
