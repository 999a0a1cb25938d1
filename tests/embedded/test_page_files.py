"""The files of the console's page: noVNC is what its authors have published, and the page finds it."""

import base64
import re
from hashlib import sha512

import pytest

from whimbrel.embedded.console import page_files


@pytest.mark.parametrize(
    ("name", "checksum", "version"),
    [(page_files.NOVNC, page_files.NOVNC_SHA512, "1.7.0"), (page_files.XTERM, page_files.XTERM_SHA512, "6.0.0")],
)
def test_packages_are_as_published(name: str, checksum: str, version: str) -> None:
    found = sha512(page_files.package(name).read_bytes()).digest()
    assert base64.b64encode(found).decode() == checksum
    described = page_files.files()[f"{name.partition('-')[0]}/package.json"].content
    assert described.count(f'"version": "{version}"'.encode()) == 1


def test_every_script_finds_what_it_imports() -> None:
    files = page_files.files()
    waiting, seen = ["vnc_lite.js", "serial.js"], set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        directory = name.rpartition("/")[0].split("/") if "/" in name else []
        for path in re.findall(r"^(?:import|export)[^;]*?from ['\"](\..*?)['\"]", files[name].content.decode(), re.M):
            there = [*directory]
            for part in path.split("/"):
                there = there[:-1] if part == ".." else there if part == "." else [*there, part]
            found = "/".join(there)
            assert found in files, f"{name} imports {path}"
            waiting += [] if found in seen else [found]
    assert "novnc/core/rfb.js" in seen
    assert "novnc/vendor/pako/lib/zlib/inflate.js" in seen
    assert "xterm/lib/xterm.mjs" in seen


@pytest.mark.parametrize("name", ["vnc_lite.html", page_files.SERIAL])
def test_a_page_has_no_script_of_its_own_text(name: str) -> None:
    page = page_files.files()[name].content.decode()
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.S) == [""]
    assert "style=" not in page
    assert " on" not in re.sub(r">[^<]*<", "><", page)
