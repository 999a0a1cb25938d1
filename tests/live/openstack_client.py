"""The unmodified openstack client: each command is a process of its own, forked from one that has imported the client.

What takes a command its time is the start, and this happens once for all tests of a process. The client's process reads
what is asked as lines of JSON, and answers each with a line.
"""

import atexit
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from tempfile import TemporaryFile
from typing import Any, NoReturn


class OpenstackClient:
    def __init__(self) -> None:
        self._origin = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        assert self._origin.stdin
        assert self._origin.stdout
        print(json.dumps([words, environment]), file=self._origin.stdin, flush=True)
        status, out, err = json.loads(self._origin.stdout.readline())
        return subprocess.CompletedProcess(["openstack", *words], status, out, err)

    def close(self) -> None:
        assert self._origin.stdin
        self._origin.stdin.close()
        self._origin.wait()


@cache
def openstack_client() -> OpenstackClient:
    client = OpenstackClient()
    atexit.register(client.close)
    return client


# In the client's process

Main = Callable[[Sequence[str]], Any]


def serve(main: Main) -> None:
    for line in sys.stdin:
        words, environment = json.loads(line)
        print(json.dumps(execute(main, words, environment)), flush=True)


def execute(main: Main, words: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
    """Run one command; return its status and what it wrote."""
    with TemporaryFile() as out, TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.environ.clear()
            os.environ.update(environment)
            be_a_command(main, words)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return status, out.read().decode(), err.read().decode()


def be_a_command(main: Main, words: Sequence[str]) -> NoReturn:
    status: Any = 1
    try:
        status = main(words)
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    from openstackclient import shell

    serve(shell.main)
