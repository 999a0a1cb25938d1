"""Schemas of repairs."""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import UUID, obj, wrapped

CREATE = Body({1: wrapped("repair", obj({"subject": UUID}, ["subject"]))})
