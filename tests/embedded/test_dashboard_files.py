"""The files of the dashboard: the packages are what their authors have published, and the page finds all it imports."""

import base64
import re
from hashlib import sha512

import pytest

from whimbrel.embedded.dashboard import dashboard_files
from whimbrel.embedded.dashboard.app import IDENTITY_HERE
from whimbrel.embedded.dashboard.dashboard_files import PACKAGES, NpmPackage


@pytest.mark.parametrize("package", PACKAGES, ids=[package.name for package in PACKAGES])
def test_a_package_is_as_published_and_has_its_licence(package: NpmPackage) -> None:
    assert base64.b64encode(sha512(package.file.read_bytes()).digest()).decode() == package.sha512
    assert len(dashboard_files.files()[f"{package.name}/LICENSE"].content) > 1000


def test_every_script_finds_what_it_imports() -> None:
    files = dashboard_files.files()
    waiting, seen = ["dashboard.js"], set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        directory = name.rpartition("/")[0]
        for path in re.findall(r"^import\s[^;]*?from '([^']+)'", files[name].content.decode(), re.M):
            assert path.startswith("./"), f"{name} imports {path}"
            found = f"{directory}/{path[2:]}".lstrip("/")
            assert found in files, f"{name} imports {path}"
            waiting += [] if found in seen else [found]
    own = {name for name in files if name.endswith(".js") and "/" not in name}
    assert own | {"preact/dist/preact.mjs", "htm/dist/htm.module.js"} == seen


def test_the_page_has_no_script_or_style_of_its_own_text() -> None:
    page = dashboard_files.files()[dashboard_files.INDEX].content
    assert re.findall(rb"<script[^>]*>(.*?)</script>", page, re.S) == [b""]
    assert b"style=" not in page
    assert b"<style" not in page
    assert page.count(IDENTITY_HERE) == 1


def test_nothing_is_loaded_from_elsewhere() -> None:
    for name, file in dashboard_files.files().items():
        if "/" not in name:
            assert not re.findall(rb"https?://(?!www\.w3\.org/2000/svg)", file.content), name
