"""Matching of paths: literal segments before parameters, and one set of parameter names for each path."""

import pytest

from whimbrel.http.path_tree import PathTree


def tree(*lines: tuple[str, str]) -> PathTree[str]:
    made = PathTree[str]()
    for method, path in lines:
        made.add(method, path, f"{method} {path}")
    return made


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", [("GET /", {})]),
        ("a/b", [("GET /a/b", {}), ("GET /a/{x}", {"x": "b"}), ("GET /{y}/b", {"y": "a"})]),
        ("a/c", [("GET /a/{x}", {"x": "c"})]),
        ("a/", []),
        ("a", []),
        ("a/b/c", []),
    ],
)
def test_a_path_may_mean_several_lines_and_words_come_first(path: str, found: list[tuple[str, dict[str, str]]]) -> None:
    paths = tree(("GET", "/{y}/b"), ("GET", "/a/{x}"), ("GET", "/a/b"), ("GET", "/"))
    assert [(node.leaves["GET"][0], params) for node, params in paths.find(path.split("/"))] == found


def test_a_path_has_one_set_of_names() -> None:
    with pytest.raises(AssertionError, match="other names"):
        tree(("GET", "/a/{x}"), ("PUT", "/a/{y}"))
