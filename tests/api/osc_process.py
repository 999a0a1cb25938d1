"""Runs commands of the openstack client one after the other: what takes its time, the start, happens once.

A line of input is a JSON list of words; the line that answers it has the status, and what was printed.
"""

import io
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from openstackclient import shell


def run(words: Sequence[str]) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = shell.main(words)
        except SystemExit as end:
            status = end.code
    return {"status": status or 0, "out": out.getvalue(), "err": err.getvalue()}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
