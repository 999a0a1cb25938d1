"""A TCP proxy for the PostgreSQL server of the tests, which can be closed, as if the server were gone."""

import asyncio

import sqlalchemy as sa


class Proxy:
    """A port before a PostgreSQL server that can be shut: who is inside is thrown out, and nobody comes in."""

    def __init__(self, url: str) -> None:
        said = sa.make_url(url)
        self._host, self._port = said.host or "127.0.0.1", said.port or 5432
        self._said = said
        self._server: asyncio.Server | None = None
        self._inside: list[asyncio.StreamWriter] = []
        self._at = 0
        self._talks = asyncio.Event()
        self._talks.set()

    async def __aenter__(self) -> "Proxy":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()

    @property
    def url(self) -> str:
        return self._said.set(host="127.0.0.1", port=self._at).render_as_string(hide_password=False)

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._let_in, "127.0.0.1", self._at)
        self._at = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        assert self._server
        self._server.close()
        for writer in self._inside:
            writer.transport.abort()
        self._inside.clear()

    def silence(self) -> None:
        """Let nothing through any more, and tell nobody."""
        self._talks.clear()

    def talk(self) -> None:
        """Let through what has come meanwhile, and what comes."""
        self._talks.set()

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond_reader, beyond_writer = await asyncio.open_connection(self._host, self._port)
        self._inside += [writer, beyond_writer]
        await asyncio.gather(self._carry(reader, beyond_writer), self._carry(beyond_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._talks.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
