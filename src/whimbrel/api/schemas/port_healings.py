"""Schemas of the healing of ports."""

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import UUID, obj, single, wrapped

LIST = Query({1: {"server_id": single(UUID)}}, strict_from=1)
CREATE = Body({1: wrapped("healing", obj({"server_id": UUID}, ["server_id"]))})
