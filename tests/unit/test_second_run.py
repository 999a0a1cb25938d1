"""Which failed tests run a second time, and what the exit status is then."""

from pathlib import Path

import pytest

from tests import second_run

pytestmark = pytest.mark.long  # each test starts pytest twice

PASSES_ALONE = """
from pathlib import Path

def test_it():
    with open("runs", "a+") as runs:
        runs.write("one more\\n")
    assert len(Path("runs").read_text().splitlines()) == 2
"""
FAILS = "def test_it(): assert False"
PASSES = "def test_it(): pass"


def write(directory: Path, **files: str) -> None:
    """Write a test file each; a name begins with its directory: live_kill is tests/live/test_kill.py."""
    for name, text in files.items():
        room, _, subject = name.partition("_")
        (directory / "tests" / room).mkdir(parents=True, exist_ok=True)
        (directory / "tests" / room / f"test_{subject}.py").write_text(text)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_test_of_processes_may_pass_by_itself(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tree, live_kill=PASSES_ALONE, unit_one=PASSES)
    assert second_run.main([]) == pytest.ExitCode.OK
    assert capfd.readouterr().out.endswith("by themselves:\n    tests/live/test_kill.py::test_it\n")


def test_it_has_to_pass_then(tree: Path) -> None:
    write(tree, live_kill=FAILS)
    assert second_run.main([]) == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("others", [{"unit_one": FAILS}, {f"live_{each}": FAILS for each in "abcde"}])
def test_other_tests_or_many_have_no_second_run(tree: Path, others: dict[str, str]) -> None:
    write(tree, live_kill=PASSES_ALONE, **others)
    assert second_run.main([]) == pytest.ExitCode.TESTS_FAILED
    assert (tree / "runs").read_text() == "one more\n"
