"""Schemas of the proof."""

from whimbrel.api.http.schema import Query
from whimbrel.api.schemas.parameters import BOOLEAN_WORD, single

SHOW = Query({1: {"progress": single(BOOLEAN_WORD)}}, strict_from=1)
