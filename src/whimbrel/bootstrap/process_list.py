"""The processes of a cloud as its database has them: also when no API answers."""

from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import check
from whimbrel.adapters.sql.global_.processes import SqlProcesses
from whimbrel.api.operator.stored_processes import listed
from whimbrel.api.views.processes import ListedProcess


async def processes(url: str) -> list[ListedProcess]:
    """Return the processes by role and start. Raises: Refused: a database of another version; Unavailable."""
    check(url, "global")
    database = open_database(url, "global")
    try:
        return await listed(SqlProcesses(database, SystemClock()))
    finally:
        await database.close()
