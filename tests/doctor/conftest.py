"""A small healthy Nova for the tests of the doctor."""

from pathlib import Path

import pytest

from tests.doctor.nova_copy import NovaCopy


@pytest.fixture
def copy(tmp_path: Path) -> NovaCopy:
    """Return one with server 1 on n1 in cell one, and server 2 on s1 in cell two."""
    made = NovaCopy.in_files(tmp_path)
    made.add_server(1)
    made.add_server(2, "s1")
    return made
