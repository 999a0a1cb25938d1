"""The files of the pages: our own, and those of noVNC and xterm.js as their authors have published them.

noVNC is the unmodified package @novnc/novnc of the npm registry (MPL-2.0), xterm.js is @xterm/xterm (MIT), with their
sources and their licences.
"""

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from whimbrel.embedded.page_archive import File, files_of, own_files, packed_files

NOVNC = "novnc-1.7.0.tgz"
NOVNC_SHA512 = "ucEJOx4T2avIRCleodk7YobZj5O2Ga2AeLfQ69A/yjG9HHba2+PDgwSkN3FttrmG+70ZGx21sElNFouK13RzyA=="
"""The checksum of the package in the registry ("integrity"), in base64."""
XTERM = "xterm-6.0.0.tgz"
XTERM_SHA512 = "TQwDdQGtwwDt+2cgKDLn0IRaSxYu1tSUjgKarSDkUM0ZNiSRXFpjxEsvc/Zgc5kq5omJ+V0a8/kIM2WD3sMOYg=="
SERVED_OF_XTERM = ("lib/xterm.mjs", "css/xterm.css", "LICENSE", "package.json")
"""The rest of it, sources and maps, is larger than all other pages together."""
SERIAL = "serial.html"


def package(name: str) -> Traversable:
    """Return an archive: NOVNC or XTERM."""
    return resources.files(__package__).joinpath(name)


@cache
def files() -> dict[str, File]:
    """Return all files of the pages by their paths."""
    novnc = {f"novnc/{name}": content for name, content in packed_files(package(NOVNC))}
    xterm = {f"xterm/{name}": content for name, content in packed_files(package(XTERM)) if name in SERVED_OF_XTERM}
    return files_of({**own_files(__package__), **novnc, **xterm})
