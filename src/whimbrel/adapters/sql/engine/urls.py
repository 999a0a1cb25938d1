"""Database URLs: which ones are accepted, how they are passed to the drivers, and the connection limit of a process.

Invariant: an unsupported URL is refused before anything is opened, with a message that says what to write instead.
libpq parses PostgreSQL URLs, so all of its parameters work as it documents them, including several hosts for fail-over.
"""

import re
from pathlib import Path
from urllib.parse import quote, urlencode

from whimbrel.domain.errors import Invalid

CONNECTIONS = 16
"""Maximum number of connections of a process to one PostgreSQL database, unless configured.

Five processes fit into PostgreSQL's default of 100.
"""

SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgresql+psycopg://")
_ALIASES = ("postgres", "pgsql", "psql", "postgresql+psycopg2", "postgresql+asyncpg")
"""Schemes that other programs use for PostgreSQL."""
ENGINE = "postgresql+psycopg://"
"""The URL for SQLAlchemy: it selects the driver; libpq's parameters are passed to the driver unchanged."""
_ACCEPTED = "use postgresql://USER:PASSWORD@HOST/NAME or sqlite:///DIRECTORY"


def is_postgres(url: str) -> bool:
    return url.startswith(_POSTGRES)


def check_url(url: str) -> None:
    """Ensure that a process can open this database.

    Raises: Invalid: an unsupported kind of database, no directory, or nothing that libpq can parse.
    """
    if is_postgres(url):
        postgres_arguments(url)
    elif not url.startswith(SQLITE):
        raise Invalid(f"the database URL '{without_password(url)}' is not supported: {_advice(url)}")
    elif not url.removeprefix(SQLITE) or "?" in url:
        raise Invalid(f"the database URL '{url}' names no directory: use {SQLITE}DIRECTORY, a directory and no file")


def _advice(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if separator and scheme.lower() in (*_ALIASES, "postgresql"):
        return f"write postgresql://{_hidden(rest)}"
    if url.startswith("sqlite:"):
        directory = url.removeprefix("sqlite").lstrip(":/")
        return f"write {SQLITE}/{directory or 'DIRECTORY'} (an absolute directory has four slashes)"
    if not separator and url.startswith(("/", ".", "~")):
        return f"write {SQLITE}{Path(url).expanduser().absolute()}"
    return _ACCEPTED


def absolute(url: str) -> str:
    """Return the URL with its SQLite directory made absolute, so that processes started elsewhere find it."""
    return f"{SQLITE}{Path(url.removeprefix(SQLITE)).absolute()}" if url.startswith(SQLITE) else url


def postgres_arguments(url: str) -> dict[str, str]:
    """Return the connection parameters of a PostgreSQL URL, by libpq's names.

    Raises: Invalid: libpq cannot parse it.
    Source: PostgreSQL documentation, 34.1.1.2 Connection URIs.
    """
    import psycopg.conninfo  # a process on SQLite needs no psycopg

    try:
        found = psycopg.conninfo.conninfo_to_dict("postgresql://" + url.split("://", 1)[1])
    except psycopg.ProgrammingError as error:
        said = str(error).strip()  # the message quotes the invalid part, which may be a password
        why = "a % in it has to be written %25" if "percent-encoded" in said else said
        raise Invalid(_wrong(url, why)) from None
    arguments = {key: str(value) for key, value in found.items()}
    if "@" in arguments.get("host", "") + arguments.get("port", ""):
        raise Invalid(_wrong(url, "write %40 for an @ in a password"))
    for port in arguments.get("port", "").split(","):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
            raise Invalid(_wrong(url, f"'{port}' is no port number from 1 to 65535"))
    return arguments


def connect_arguments(url: str, schema: str) -> dict[str, str]:
    """Return the arguments of a PostgreSQL connection whose search path is this schema only. Raises: Invalid."""
    arguments = postgres_arguments(url)
    name = schema.replace('"', '""').replace("\\", "\\\\").replace(" ", "\\ ")
    options = (arguments.get("options"), f'-csearch_path="{name}"')
    return {**arguments, "options": " ".join(each for each in options if each)}


def _wrong(url: str, why: str) -> str:
    return f"the database URL '{without_password(url)}' is not understood: {why}"


def with_defaults(url: str, defaults: dict[str, str]) -> str:
    """Return a PostgreSQL URL with these parameters added, except those that it sets itself. Raises: Invalid."""
    arguments = {**defaults, **postgres_arguments(url)}
    return f"postgresql://?{urlencode(arguments, quote_via=quote)}"


def without_password(url: str) -> str:
    """Return the URL without its password, for display."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + _hidden(rest)


def _hidden(rest: str) -> str:
    shown = re.sub(r"^([^:/@]*):.*@", r"\1:...@", rest)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1...", shown)


def sqlite_file(url: str, schema: str) -> Path | None:
    """Return the file of this schema under a SQLite URL; None: in memory. Raises: Invalid: it is no SQLite URL."""
    if url != "sqlite://":
        check_url(url)
    directory = url.removeprefix("sqlite://").removeprefix("/")
    return Path(directory) / f"{schema}.sqlite" if directory else None
