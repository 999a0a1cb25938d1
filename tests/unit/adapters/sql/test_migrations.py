"""Migrations expand: processes of the release before go on beside the new schema, and may be started again.

A migration that takes something away is a contract migration: it declares `safe_since`, the first release that does not
need what it takes away, and `oldest_program`, the newest schema version of its kind in that release.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tools.released import release
from whimbrel.adapters.sql.engine.schema import MIGRATIONS, VERSIONS_OF_0_1, oldest_program, revisions
from whimbrel.adapters.sql.tables import MODULES
from whimbrel.domain.release import number_of

MADE = {"create_table", "create_index", "add_column", "f", "bulk_insert", "batch_alter_table", "get_bind"}
"""Operations that older programs may ignore, with the exceptions in `_why`."""

REPLACED = {"drop_constraint", "create_check_constraint", "alter_column", "drop_index", "create_index"}
"""Allowed for checks, columns and unique indexes named in `permits_more`: they permit all that they did before."""


def files() -> list[Path]:
    return sorted(
        file
        for kind in MODULES
        for file in (MIGRATIONS / kind / "versions").glob("[0-9]*_*.py")
        if file.name.split("_")[0] > VERSIONS_OF_0_1[kind]
    )


def contractions(source: str) -> list[str]:
    """Return what in a migration a program of the release before cannot live with."""
    [upgrade] = [
        each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == "upgrade"
    ]
    created = {_text(call.args[0]) for call in _operations(upgrade) if _name(call) == "create_table"}
    wider = declared(source).get("permits_more", ())
    found = [call for call in _operations(upgrade) if not (_name(call) in REPLACED and _text(call.args[0]) in wider)]
    return [f"line {call.lineno}: {why}" for call in found if (why := _why(call, created))]


def _operations(function: ast.FunctionDef) -> Iterator[ast.Call]:
    """Yield the calls of `op` and of what `batch_alter_table` returns."""
    batches = {"op"}
    for node in ast.walk(function):
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            batches.add(node.optional_vars.id)
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if isinstance(node.func.value, ast.Name) and node.func.value.id in batches:
            yield node


def _why(call: ast.Call, created: set[str]) -> str | None:
    name, given = _name(call), {word.arg: word.value for word in call.keywords}
    if name not in MADE:
        return f"{name} changes or removes what older programs use"
    if name == "create_index" and _is_true(given.get("unique")) and _text(call.args[1]) not in created:
        return "a unique index refuses rows that older programs write"
    if name == "add_column":
        [column] = [each for each in call.args if isinstance(each, ast.Call)]
        words = {word.arg: word.value for word in column.keywords}
        if "nullable" in words and not _is_true(words["nullable"]) and "server_default" not in words:
            return "older programs insert rows without this column: it needs a default"
        if _is_true(words.get("unique")):
            return "a unique column refuses rows that older programs write"
    return None


def _name(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    return call.func.attr


def _text(node: ast.expr) -> str:
    return ast.literal_eval(node) if isinstance(node, ast.Constant) else ast.unparse(node)


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def declared(source: str) -> dict[str, Any]:
    names = ("safe_since", "oldest_program", "revision", "down_revision", "permits_more")
    found = [node for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    pairs = [(target.id, node.value) for node in found for target in node.targets if isinstance(target, ast.Name)]
    return {name: ast.literal_eval(value) for name, value in pairs if name in names}


def complaint(kind: str, source: str, now: str = "0.2.0") -> str | None:
    """Return what is wrong with a migration; None: nothing."""
    said, found = declared(source), contractions(source)
    if "safe_since" not in said and "oldest_program" not in said:
        return "; ".join(found) or None
    if not found:
        return "it removes nothing, but declares that it does"
    if "safe_since" not in said or "oldest_program" not in said:
        return "it declares one of safe_since and oldest_program, and needs both"
    if number_of(said["safe_since"]) >= number_of(now):
        return f"release {said['safe_since']} is not out yet, so older programs are in use"
    if said["oldest_program"] not in revisions(kind) or said["oldest_program"] >= said["revision"]:
        return f"{said['oldest_program']} is no earlier version of this schema"
    return None


@pytest.mark.parametrize("file", files(), ids=lambda file: f"{file.parts[-3]} {file.stem}")
def test_older_programs_live_with_it(file: Path) -> None:
    assert complaint(file.parts[-3], file.read_text(), release()) is None


def test_migrations_are_checked() -> None:
    assert {"0015_machines.py", "0007_sessions.py"} <= {file.name for file in files()}


@pytest.mark.parametrize("kind", MODULES)
def test_the_oldest_program_is_declared_by_the_last_contract_migration(kind: str) -> None:
    files = (MIGRATIONS / kind / "versions").glob("[0-9]*_*.py")
    said = [declared(file.read_text()).get("oldest_program", "") for file in files]
    assert oldest_program(kind) == max(*said, VERSIONS_OF_0_1[kind], "")


@pytest.mark.parametrize("kind", MODULES)
def test_each_migration_follows_the_one_of_the_number_before(kind: str) -> None:
    """Two branches of the code may have taken the same number."""
    before = None
    for file in sorted((MIGRATIONS / kind / "versions").glob("[0-9]*_*.py")):
        number, found = file.name.split("_")[0], declared(file.read_text())
        assert (found["revision"], found["down_revision"]) == (number, before)
        before = number


def migration(body: str, head: str = "") -> str:
    return f'revision = "0003"\n{head}\n\ndef upgrade() -> None:\n    ' + dedent(body).replace("\n", "\n    ")


@pytest.mark.parametrize(
    "body",
    [
        'op.drop_table("runs")',
        'op.drop_column("runs", "at")',
        'op.drop_index("runs_due", "runs")',
        'op.drop_constraint("sizes", "runs")',
        'op.rename_table("runs", "sagas")',
        'op.alter_column("runs", "at", new_column_name="step")',
        'op.alter_column("runs", "at", type_=sa.Text())',
        'op.execute("UPDATE runs SET at = 1")',
        'op.add_column("runs", sa.Column("n", sa.Integer(), nullable=False))',
        'op.add_column("runs", sa.Column("n", sa.Integer(), unique=True))',
        'op.create_index("one", "runs", ["at"], unique=True)',
        'op.create_check_constraint("sizes", "runs", "at > 0")',
        'with op.batch_alter_table("runs") as batch:\n    batch.drop_column("at")',
    ],
)
def test_what_older_programs_do_not_live_with(body: str) -> None:
    assert contractions(migration(body))
    assert complaint("placement", migration(body, 'safe_since = "0.1.0"\noldest_program = "0002"')) is None
    for head in (
        "",
        'safe_since = "0.1.0"',
        'safe_since = "9.9"\noldest_program = "0002"',
        'safe_since = "0.1.0"\noldest_program = "0003"',
        'safe_since = "0.1.0"\noldest_program = "9999"',
    ):
        assert complaint("placement", migration(body, head))


@pytest.mark.parametrize(
    "body",
    [
        'op.add_column("runs", sa.Column("n", sa.Integer(), nullable=False, server_default="0"))',
        'op.add_column("runs", sa.Column("n", sa.Integer(), nullable=True))',
        'op.create_table("new", sa.Column("id", sa.Integer(), unique=True))',
        'op.create_table("new", sa.Column("id", sa.Integer()))\nop.create_index("one", "new", ["id"], unique=True)',
        'op.create_index("some", "runs", ["at"])',
        'with op.batch_alter_table("runs") as batch:\n    batch.add_column(sa.Column("n", sa.Integer()))',
    ],
)
def test_what_older_programs_live_with(body: str) -> None:
    assert complaint("placement", migration(body)) is None
    assert complaint("placement", migration(body, 'safe_since = "0.1.0"\noldest_program = "0002"'))
