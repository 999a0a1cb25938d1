"""The connection that looks at a schema at a start: it does not wait for ever for a server that does not answer."""

from typing import Any

import pytest
import sqlalchemy as sa

from whimbrel.adapters.sql.engine import schema


class Seen(Exception):
    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments


@pytest.mark.parametrize(("query", "timeout"), [("", "5"), ("?connect_timeout=30", "30")], ids=["usual", "of the URL"])
def test_it_has_a_timeout(query: str, timeout: str) -> None:
    engine = schema._postgres_engine(f"postgresql://whimbrel@db.example.org/cloud{query}", "global")

    def caught(_dialect: Any, _record: Any, _words: Any, arguments: dict[str, Any]) -> None:
        raise Seen(arguments)

    sa.event.listen(engine, "do_connect", caught)
    with pytest.raises(Seen) as seen:
        engine.connect()
    assert seen.value.arguments["connect_timeout"] == timeout
