"""Makes a PostgreSQL database that is missing, as a SQLite file is made where none is.

Law: what cannot be made is left alone without a word; `schema.prepare`, which comes next, says what is wrong.
"""

import sqlalchemy as sa

from whimbrel.adapters.sql.database import postgres_url

ALWAYS_THERE = "postgres"


def make_missing(url: str) -> None:
    """Have the database of a PostgreSQL URL there, if its user may make one. Repeatable."""
    if not url.startswith("postgresql"):
        return
    place = sa.make_url(postgres_url(url))
    if not place.database or _answers(place):
        return
    engine = _engine(place.set(database=ALWAYS_THERE))
    name = engine.dialect.identifier_preparer.quote_identifier(place.database)
    try:
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}".replace(":", "\\:")))
    except sa.exc.DBAPIError:
        return  # somebody else made it, or it cannot be made


def _answers(place: sa.URL) -> bool:
    try:
        _engine(place).connect().close()
    except sa.exc.DBAPIError:
        return False
    return True


def _engine(place: sa.URL) -> sa.Engine:
    return sa.create_engine(place, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
