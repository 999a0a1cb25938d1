"""Database URLs: what is accepted, and what a refusal says to write instead."""

from pathlib import Path

import pytest

from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.engine.urls import (
    absolute,
    check_url,
    connect_arguments,
    postgres_arguments,
    with_defaults,
    without_password,
)
from whimbrel.domain.errors import Invalid

WRONG = [
    ("postgres://u:p@h/d", "write postgresql://u:...@h/d"),
    ("PostgreSQL://h/d", "write postgresql://h/d"),
    ("postgresql+asyncpg://h/d", "write postgresql://h/d"),
    ("postgresql:/h/d", "use postgresql://"),
    ("postgresq://h/d", "use postgresql://"),
    ("mysql://u:secret@h/d", "use postgresql://USER:PASSWORD@HOST/NAME or sqlite:///DIRECTORY"),
    ("sqlite:/var/db", "write sqlite:////var/db"),
    ("sqlite://var/db", "write sqlite:////var/db"),
    ("sqlite3:///db", "use postgresql://"),
    ("sqlite:///", "names no directory"),
    ("/var/lib/db", "write sqlite:////var/lib/db"),
    ("", "use postgresql://"),
    ("postgresql://h:port/d", "'port' is no port number"),
    ("postgresql://h:99999/d", "'99999' is no port number"),
    ("postgresql://a:1,b:x/d", "'x' is no port number"),
    ("postgresql://u:p@secret:5@h/d", "write %40 for an @"),
    ("postgresql://u:p@secret@h/d", "write %40 for an @"),
    ("postgresql://u:secret%zz@h/d", "%25"),
    ("postgresql://h/d?secure=1", 'parameter: "secure"'),
]


@pytest.mark.parametrize(("url", "advice"), WRONG)
def test_what_is_not_accepted_is_refused_with_what_to_write(url: str, advice: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_url(url)
    assert advice in refused.value.reason
    assert "secret@" not in refused.value.reason
    assert "secret%" not in refused.value.reason


@pytest.mark.parametrize("url", [url for url, _ in WRONG])
def test_no_way_to_a_database_takes_it_for_a_directory(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid):
        prepare(url, "keep")
    with pytest.raises(Invalid):
        open_database(url, "keep")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("postgresql://a:1,b:2/db", {"host": "a,b", "port": "1,2", "dbname": "db"}),
        ("postgresql+psycopg://u@h/d", {"user": "u", "host": "h", "dbname": "d"}),
        ("postgresql:///d?host=/run/postgresql", {"host": "/run/postgresql", "dbname": "d"}),
        ("postgresql://[::1]:5433/d", {"host": "::1", "port": "5433", "dbname": "d"}),
        (
            "postgresql://u:p%40ss@a,b/d?target_session_attrs=read-write",
            {"user": "u", "password": "p@ss", "host": "a,b", "dbname": "d", "target_session_attrs": "read-write"},
        ),
    ],
)
def test_what_libpq_understands_is_accepted(url: str, arguments: dict[str, str]) -> None:
    check_url(url)
    assert arguments.items() <= postgres_arguments(url).items()
    assert postgres_arguments(with_defaults(url, {"connect_timeout": "5", "host": "c"})) == {
        **postgres_arguments(url),
        "connect_timeout": "5",
    }


def test_options_of_the_url_stay_beside_the_schema() -> None:
    given = connect_arguments("postgresql://h/d?options=-cstatement_timeout%3D9", "cell_a")
    assert given["options"] == '-cstatement_timeout=9 -csearch_path="cell_a"'


def test_a_directory_means_the_same_to_processes_started_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert absolute("sqlite:///var/db") == absolute("sqlite:////var/db") == "sqlite:////var/db"
    assert absolute("postgresql://h/d") == "postgresql://h/d"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/lib/whimbrel", "sqlite:////var/lib/whimbrel"),
        ("postgresql://u:p@ss:w@host:5432/name", "postgresql://u:...@host:5432/name"),
        ("postgresql://u@host:5432/name", "postgresql://u@host:5432/name"),
        ("postgresql://host:5432/name", "postgresql://host:5432/name"),
        ("postgresql://host/name?password=p&user=u", "postgresql://host/name?password=...&user=u"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
