"""Reference pages from the code: `python -m tools.reference ROOT` (make docs).

commands.md: every command with its options, and as a manual page. settings.md: every key of cloud.toml. policies.md:
every policy rule. events.md, metrics.md, api-extensions.md and json.md: see the modules beside this one.
"""

import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from cyclopts import App
from docutils.core import publish_string
from msgspec import NODEFAULT

from tools.api_extension_page import api_extensions
from tools.event_page import events
from tools.json_page import json_shapes
from tools.metric_page import metrics
from whimbrel.bootstrap.policy_rules import rule_requests, sections
from whimbrel.cli import app, show_whole_help
from whimbrel.settings.cell_sections import IpmiFence, LibvirtHost, SimulatedHost
from whimbrel.settings.error_messages import HEADS, TABLES, must_be, named
from whimbrel.settings.rules import OWN_TABLES

NOTE = "<!-- Made by `make docs`; do not edit. -->\n"

TITLE = "########\nwhimbrel\n########\n"
SUBTITLE = "*******************************\nmove servers without losing one\n*******************************\n"

KINDS = {**{name: (kind,) for name, kind in TABLES.items() if name}, "host": (SimulatedHost, LibvirtHost)}
KINDS["fence"] = (*KINDS["fence"], IpmiFence)
"""Table of the file -> the types that it may have, by its driver."""


def commands() -> str:
    """Return the page of commands."""
    made = _described("markdown")
    return f"{NOTE}\n{_without_trailing_space(made)}\n"


def manual() -> str:
    """Return the manual page."""
    text = _described("rst")
    head = f"{TITLE}\n{SUBTITLE}\n:Manual section: 1\n"
    body = re.sub(r"\.\. contents::.*\n(   .*\n)*", "", text.split("========\n", 2)[2])
    body = re.sub(r"^\.\. _.*:\n", "", body, flags=re.MULTILINE)
    quiet = {"report_level": 5, "datestamp": None, "generator": None}
    made: bytes = publish_string(f"{head}\n{body}", writer="manpage", settings_overrides=quiet)
    return f'.\\" Made by `make docs`; do not edit.\n{made.decode()}'


def _described(form: Literal["markdown", "rst"]) -> str:
    """Return what cyclopts writes of all commands."""
    _show_whole_helps(app)
    words, sys.argv = sys.argv, ["whimbrel"]  # the name of the program in some lines of usage
    try:
        return app.generate_docs(output_format=form, usage_name="whimbrel")
    finally:
        sys.argv = words


def _show_whole_helps(commands: App) -> None:
    for name in commands:
        if not name.startswith("-"):
            show_whole_help(commands[name])
            _show_whole_helps(commands[name])


def settings() -> str:
    """Return the page of settings."""
    head = (
        "# Settings\n\nThe keys of `cloud.toml` or `whimbrel.toml`, one file for all roles: that of `--settings`, else"
        " `whimbrel.toml` of the data\ndirectory, else `/etc/whimbrel/whimbrel.toml`. A file with a mistake is refused"
        " as a whole, with a sentence that says where it is.\n"
    )
    return f"{NOTE}\n{head}\n" + "\n".join(_table(name, kinds) for name, kinds in KINDS.items())


def _table(name: str, kinds: tuple[Any, ...]) -> str:
    heading = HEADS.get(name) or named(name)
    rows = dict.fromkeys(row for kind in kinds for row in _rows(name, kind))
    lines = [f"## `{heading}`", "", *_about(kinds), "| key | must be | default | |", "|---|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _about(kinds: Iterable[Any]) -> Iterator[str]:
    for kind in kinds:
        if "__doc__" in vars(kind) and kind.__doc__:
            yield re.sub(r"\s+", " ", kind.__doc__).strip()
            yield ""


def _rows(table: str, kind: Any) -> Iterator[str]:
    said = comments(kind)
    for field in msgspec.structs.fields(kind):
        if kind is TABLES["rules"] and field.name in OWN_TABLES:
            continue
        cells = (f"`{field.encode_name}`", must_be(table, field.encode_name), _default(field), said.get(field.name, ""))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if value is NODEFAULT:
        return "required"
    if value in (None, msgspec.UNSET) or isinstance(value, msgspec.Struct) or value in ((), {}, frozenset()):
        return ""
    return f"`{msgspec.json.encode(value).decode()}`"


def comments(kind: type) -> dict[str, str]:
    """Return field -> the comment behind its line, of a class and of those that it inherits from."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct:
            found |= _comments_of(each)
    return found


def _comments_of(kind: type) -> dict[str, str]:
    found, name = {}, ""
    for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(kind)).readline):
        if match := re.match(r"\s+(\w+): ", token.line):
            name = match[1]
        if token.type == tokenize.COMMENT and name and not token.line.lstrip().startswith("#"):
            found[name] = token.string.lstrip("# ")
    return found


def policies() -> str:
    """Return the page of policy rules."""
    head = (
        "# Policy rules\n\nThe rules of `policy.yaml` (`whimbrel up --policy FILE`, in the language of oslo.policy),"
        " with their defaults. `@` permits all\nusers, `!` none. A sample file:"
        " `oslopolicy-sample-generator --namespace whimbrel`.\n"
    )
    requests = rule_requests()
    tables = [
        f"## {title}\n\n| rule | default | requests |\n|---|---|---|\n"
        + "\n".join(_policy_row(name, text, requests.get(name, ())) for name, text in sorted(rules.items()))
        for title, rules in sections()
    ]
    return f"{NOTE}\n{head}\n" + "\n\n".join(tables) + "\n"


def _policy_row(name: str, default: str, requests: Iterable[str]) -> str:
    return f"| `{name}` | `{default or '@'}` | {', '.join(f'`{request}`' for request in requests)} |"


def _without_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


PAGES = {
    "docs/generated/commands.md": commands,
    "docs/generated/settings.md": settings,
    "docs/generated/policies.md": policies,
    "docs/generated/events.md": lambda: f"{NOTE}\n{events()}",
    "docs/generated/metrics.md": lambda: f"{NOTE}\n{metrics()}",
    "docs/generated/api-extensions.md": lambda: f"{NOTE}\n{api_extensions()}",
    "docs/generated/json.md": lambda: f"{NOTE}\n{json_shapes()}",
    "packaging/man/whimbrel.1": manual,
}


def main() -> None:
    for name, page in PAGES.items():
        (Path(sys.argv[1]) / name).write_text(page())


if __name__ == "__main__":
    main()
