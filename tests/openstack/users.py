"""Prints the test files that may use real OpenStack services: `pytest -m openstack $(python -m tests.openstack.users)`.

Collecting all other files takes longer than most of their tests. Invariant: a file that uses the services imports
tests.openstack_services, by itself or by a module of tests that it imports.
"""

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
SERVICES = "tests.openstack_services"
IMPORT = re.compile(r"^(?:from (tests[\w.]*) import (.*)|import (tests[\w.]*))", re.MULTILINE)


def using_files() -> list[Path]:
    """Return the test files, relative to the directory of `tests`."""
    root = TESTS.parent
    files = {".".join(path.relative_to(root).with_suffix("").parts): path for path in TESTS.rglob("*.py")}
    imports = {module: _imported(path.read_text()) for module, path in files.items()}
    found, before = {SERVICES}, set[str]()
    while found != before:
        before = set(found)
        found |= {module for module, imported in imports.items() if not found.isdisjoint(imported)}
    paths = [files[module].relative_to(root) for module in sorted(found)]
    return [path for path in paths if path.name.startswith("test_")]


def _imported(text: str) -> set[str]:
    """Return the modules of tests that a text imports, and names of their contents."""
    found = set()
    for package, names, module in IMPORT.findall(text):
        found |= {package, module, *(f"{package}.{name}" for name in re.findall(r"\w+", names))}
    return found


if __name__ == "__main__":
    print(*using_files())
