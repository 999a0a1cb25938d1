"""The tables of the stores: one module and one MetaData per kind of store, imported on demand."""

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
    """Return the kind of a schema: `cell_<name>` is a cell; any other schema is named after its kind.

    Several clouds can share a PostgreSQL database: a prefix `<cloud>__`, in lower case, is ignored.
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
