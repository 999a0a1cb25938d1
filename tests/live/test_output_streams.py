"""What the command line does if its output cannot be written: nobody reads on, the disk is full, the locale is old."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import execute

WHIMBREL = [sys.executable, "-m", "whimbrel"]
LONG = [*WHIMBREL, "completion", "bash"]  # prints, and fits in no buffer
SHORT = [*WHIMBREL, "--version"]  # is written at the end of the process only


@pytest.mark.parametrize("words", [LONG, SHORT], ids=["long", "short"])
def test_a_full_disk_is_one_sentence(words: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = subprocess.run(words, env=buffered(), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.stderr == "whimbrel: the output cannot be written: No space left on device; make room\n"
    assert ended.returncode == 1


@pytest.mark.parametrize("words", [LONG, SHORT], ids=["long", "short"])
def test_a_reader_that_has_seen_enough_is_no_error(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as pipe:
        ended = subprocess.run(words, env=buffered(), stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_encoding_without_a_letter_escapes_it() -> None:
    ended = execute([*WHIMBREL, "pki", "list", "--dir", "zwölf"], env=buffered() | {"PYTHONIOENCODING": "ascii"})
    assert (ended.returncode, "zw\\xf6lf" in ended.stderr) == (1, True)
    program = "from whimbrel.cli import terminal; terminal.write_json({'name': 'zwölf'})"
    ended = execute([sys.executable, "-c", program], env=buffered() | {"PYTHONIOENCODING": "ascii"})
    assert ended.stdout == '{"name":"zw\\u00f6lf"}\n'


def buffered() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("module", ["cyclopts", "structlog"], ids=["the command line", "a command"])
def test_ctrl_c_while_modules_are_loaded_prints_nothing(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    ended = execute(
        [*WHIMBREL, "up", "--data-dir", str(tmp_path / "data"), "--port", "0"], env=buffered() | {"PYTHONPATH": path}
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
