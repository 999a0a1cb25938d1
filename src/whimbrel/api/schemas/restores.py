"""Schemas of restores."""

from whimbrel.api.http.schema import Body
from whimbrel.api.schemas.parameters import BOOLEAN, obj, wrapped

BEGIN = Body({1: wrapped("begin", obj({"because": {"type": "string", "minLength": 1, "maxLength": 500}}, ["because"]))})
END = Body({1: wrapped("end", obj({"force": BOOLEAN}, ["force"]))})
