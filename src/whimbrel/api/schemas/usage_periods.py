"""Queries of the usage of projects.

Source: the schemas of simple_tenant_usage of Nova 34.
"""

from whimbrel.api.http.schema import Query
from whimbrel.api.schemas.parameters import ANY, NUMBER, Schema, many

_PERIOD: dict[str, Schema] = {"start": many(ANY), "end": many(ANY)}
_PAGE: dict[str, Schema] = {"limit": many(NUMBER), "marker": many(ANY)}
_LIST: dict[str, Schema] = _PERIOD | {"detailed": many(ANY)}

LIST = Query({1: _LIST, 40: _LIST | _PAGE}, strict_from=75)
ONE = Query({1: _PERIOD, 40: _PERIOD | _PAGE}, strict_from=75)
