"""The files of the dashboard: our own, and those of Preact and htm that they import.

Both are unmodified packages of the npm registry: Preact (MIT) draws the page, htm (Apache-2.0) is its templates.
"""

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from whimbrel.embedded.page_archive import File, files_of, own_files, packed_files

INDEX = "index.html"


class NpmPackage(NamedTuple):
    """An archive of the registry. sha512: its checksum there ("integrity"), in base64. served: what the page needs."""

    name: str
    archive: str
    sha512: str
    served: tuple[str, ...]

    @property
    def file(self) -> Traversable:
        return resources.files(__package__).joinpath(self.archive)


PACKAGES = (
    NpmPackage(
        "preact",
        "preact-11.2.0.tgz",
        "/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        ("dist/preact.mjs", "LICENSE"),
    ),
    NpmPackage(
        "htm",
        "htm-3.1.1.tgz",
        "983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        ("dist/htm.module.js", "LICENSE"),
    ),
)


@cache
def files() -> dict[str, File]:
    """Return all files below /dashboard by their paths."""
    found = own_files(__package__)
    for package in PACKAGES:
        packed = dict(packed_files(package.file))
        found |= {f"{package.name}/{path}": packed[path] for path in package.served}
    return files_of(found)
