"""The benchmark of the doctor: what it plays of Neutron and Cinder is enough for the doctor, which asks ever more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench/bench_doctor.py"


@pytest.mark.long
def test_the_doctor_gets_through_the_clouds_of_its_benchmark() -> None:
    done = subprocess.run([sys.executable, BENCH, "1000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["bench"], found["servers"], found["findings"]) == ("doctor", 1000, 3)
    assert found["peak_mib"] < 300
