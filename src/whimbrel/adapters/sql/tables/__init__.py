"""The tables of the stores: one module and one MetaData for each kind of store, imported only when asked for."""

from importlib import import_module
from typing import Final

import sqlalchemy as sa

MODULES: Final = {
    "global": "global_",
    "cell": "cell",
    "placement": "placement",
    "identity": "identity",
    "images": "images",
    "network": "network",
    "volumes": "volumes",
    "keep": "keep",
}


def kind_of(schema: str) -> str:
    """Give the kind of a schema: `cell_<name>` is a cell, any other schema is named after its kind.

    Several clouds can share a PostgreSQL database: `<cloud>__` before the name, in small letters, is not part of it.
    """
    cloud, mark, rest = schema.partition("__")
    name = rest if mark and not cloud.startswith("cell_") else schema
    kind = "cell" if name.startswith("cell_") else name
    if kind not in MODULES:
        raise ValueError(f"no kind of store is called {kind!r}")
    return kind


def metadata_of(kind: str) -> sa.MetaData:
    """Import the tables of a kind."""
    metadata = import_module(f"{__name__}.{MODULES[kind]}").metadata
    assert isinstance(metadata, sa.MetaData)
    return metadata
