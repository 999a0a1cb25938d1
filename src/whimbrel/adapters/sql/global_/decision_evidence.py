"""The evidence of scheduling decisions, stored beside the runs; compressed, because it covers many hosts."""

import zlib

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.global_.run_rows import Sagas
from whimbrel.adapters.sql.tables.global_ import evidence, runs
from whimbrel.domain.ids import RunId
from whimbrel.ports.stores.journal import Evidence

FAST = 1
"""Compression level: a higher one saves 10% more and takes three times as long."""

_ADD = fixed(sa.insert(evidence))
_OF = fixed(
    sa.select(evidence.c.step, evidence.c.at, evidence.c.document, runs.c.saga, runs.c.version)
    .join(runs, runs.c.id == evidence.c.run)
    .where(evidence.c.run == bindparam("b_run"))
    .order_by(evidence.c.number)
)


async def add_evidence(tx: Tx, run: RunId, added: Evidence) -> None:
    document = zlib.compress(added.document, FAST)
    await tx.tell(_ADD, {"run": run, "step": added.step, "at": added.at, "document": document})


async def read_evidence(tx: Tx, run: RunId, sagas: Sagas) -> list[Evidence]:
    rows = await tx.rows(_OF, {"b_run": run})
    renamed = sagas.renamed(rows[0].saga, rows[0].version) if rows else {}
    return [
        Evidence(step=renamed.get(row.step, row.step), at=row.at, document=zlib.decompress(row.document))
        for row in rows
    ]
