"""The pages: their commands are understood, what they name exists, their layers are the enforced ones."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cyclopts import CycloptsError, MissingArgumentError

from whimbrel.cli import app
from whimbrel.domain.release import number_of

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
COMMANDS = ROOT / "docs" / "generated" / "commands.md"  # made from the commands, with lines of usage
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
MODULES = [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/*.py")]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}  # Keep a Changelog has no others
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]


def printed(text: str) -> Iterator[str]:
    """List the commands of ours in blocks, as they are typed."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.removeprefix("$ ").startswith("whimbrel "):
                yield re.split(r" [>|] ", line.removeprefix("$ "))[0]


def mentioned(text: str) -> Iterator[str]:
    """List the commands of ours in running text: with optional parts, and without what is said elsewhere."""
    for words in re.findall(r"`(whimbrel [^`\n]*)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        yield re.sub(r"[\[\]]|\.\.\.", "", words)


def parse(command: str) -> None:
    """Raises: CycloptsError: the command line does not understand it."""
    words = shlex.split(command, comments=True)[1:]
    if "--help" not in words:
        app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_its_commands_are_understood(page: Path) -> None:
    text = page.read_text() if page != COMMANDS else ""
    for command in printed(text):
        parse(command)
    for command in mentioned(text):
        with suppress(MissingArgumentError):  # the name of a command
            parse(command)


@pytest.mark.parametrize("wrong", ["whimbrel mov list", "whimbrel move show X --wach", "whimbrel up --port high"])
def test_a_command_that_is_wrong_is_seen(wrong: str) -> None:
    with pytest.raises(CycloptsError):
        parse(wrong)


def test_commands_are_found() -> None:
    text = "`whimbrel up [--port N]`\n```console\n$ whimbrel move list  # all\nwhimbrel move show X > y\n```\n"
    assert list(printed(text)) == ["whimbrel move list  # all", "whimbrel move show X"]
    assert list(mentioned(text)) == ["whimbrel up --port N"]


def absent(text: str) -> list[str]:
    """Return the make targets and Python files that a page names and that do not exist."""
    targets = re.findall(r"(?:`|^\$ )make ([a-z-]+)", text, re.MULTILINE)
    files = re.findall(r"`([\w./]+\.py)\b", text)
    return [
        *(f"make {target}" for target in targets if target not in TARGETS),
        *(file for file in files if not any(str(module).endswith(f"/{file}") for module in MODULES)),
    ]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_its_targets_and_files_exist(page: Path) -> None:
    assert absent(page.read_text()) == []


def test_targets_and_files_that_do_not_exist_are_seen() -> None:
    assert absent("`make check`\n$ make tests\n`make all`, `saga/step.py`, `aga/step.py`\n") == [
        "make tests",
        "make all",
        "aga/step.py",
    ]


def test_the_changelog_can_be_read_by_programs() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= CHANGES
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version) for version in versions[1:])
    newest = number_of(versions[1].partition("]")[0].strip("["))
    assert number_of(PROJECT["version"]) >= newest, "the version in development, or the newest"


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_its_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), target


def test_the_index_of_pages_has_all_of_them() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [
        page.name
        for page in (ROOT / "docs").glob("*.md")
        if page.name != "README.md" and f"]({page.name})" not in index
    ] == []


def test_architecture_shows_the_layers_that_are_enforced() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("## The layers")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    shown = [sorted(re.findall(r"`(\w+)`", modules)) for modules in rows]
    assert shown == [sorted(re.findall(r"\w+", layer)) for layer in LAYERS]
