"""Files that pages consist of: our own beside a module, and packages of the npm registry as published."""

import tarfile
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
OTHER_TYPE = "text/plain; charset=utf-8"


class File(NamedTuple):
    content: bytes
    media_type: str


def files_of(contents: Mapping[str, bytes]) -> dict[str, File]:
    """Return files with their types by their paths."""
    types = {name: MEDIA_TYPES.get(name.rpartition(".")[2], OTHER_TYPE) for name in contents}
    return {name: File(content, types[name]) for name, content in contents.items()}


def own_files(package: str) -> dict[str, bytes]:
    """Return the files in the directory `page` of a package."""
    return {each.name: each.read_bytes() for each in resources.files(package).joinpath("page").iterdir()}


def packed_files(archive: Traversable) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive of the registry by their paths in the package."""
    with archive.open("rb") as packed, tarfile.open(fileobj=packed, mode="r:gz") as members:
        for member in members.getmembers():
            if file := members.extractfile(member):
                yield member.name.partition("/")[2], file.read()
