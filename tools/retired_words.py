"""Refuse retired words in the identifiers of src: `python -m tools.retired_words`. Exit code 1 if there is one.

The words, what to use instead, and the released names that keep them are in retired_words.toml.
"""

import ast
import itertools
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "whimbrel"
WORDS = Path(__file__).with_name("retired_words.toml")
CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def defined(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that a module defines, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def retired_in(name: str, use: dict[str, str]) -> list[str]:
    """Return the retired words that an identifier contains."""
    parts = CAPITAL.sub("_", name).lower().strip("_").split("_")
    pairs = ["_".join(pair) for pair in itertools.pairwise(parts)]
    return [word for word in (*parts, *pairs) if word in use]


def findings(path: Path, use: dict[str, str], released: dict[str, str]) -> Iterator[str]:
    """Yield a sentence for each identifier of a file, and for its own name, that contains a retired word."""
    names = [(path.stem, 1), *defined(ast.parse(path.read_text()))]
    for name, line in dict.fromkeys(names):
        if name not in released:
            for word in retired_in(name, use):
                yield f"{path.relative_to(ROOT)}:{line}: {name}: use {use[word]} instead of {word}"


def main() -> int:
    words = tomllib.loads(WORDS.read_text())
    sources = [path for path in sorted(SOURCES.rglob("*.py")) if "versions" not in path.parts]
    found = [each for path in sources for each in findings(path, words["use"], words["released"])]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
