"""IPMI by a program: what it is given, and what its errors mean. tests/contracts/test_fencing.py has the real one."""

from pathlib import Path

import msgspec
import pytest

from whimbrel.adapters.fencing.ipmi import IpmiDevice
from whimbrel.domain.errors import Refused, Unavailable

NO_SESSION = "Error: Unable to establish IPMI v2 / RMCP+ session"


def device(tmp_path: Path, script: str, **settings: float) -> IpmiDevice:
    program, password_file = tmp_path / "ipmitool", tmp_path / "password"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    password_file.write_text("correct-horse\n")
    return IpmiDevice(
        address="bmc.example:6230", user="fencer", password_file=password_file, program=str(program), **settings
    )


async def test_the_password_is_in_the_environment_and_not_in_the_arguments(tmp_path: Path) -> None:
    script = f'echo "$@" > {tmp_path}/given; echo "$IPMI_PASSWORD" > {tmp_path}/secret; echo Chassis Power is off'
    assert await device(tmp_path, script, timeout_s=8).power() == "off"
    given = (tmp_path / "given").read_text()
    assert "correct-horse" not in given
    assert (tmp_path / "secret").read_text() == "correct-horse\n"
    assert given.startswith("-v -I lanplus -H bmc.example -p 6230 -U fencer -E -N 2 -R 2 ")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (f"> RAKP 2 HMAC is invalid\n{NO_SESSION}", Refused),
        (f"RAKP 2 message indicates an error : unauthorized name\n{NO_SESSION}", Refused),
        ("Set Chassis Power Control to Down/Off failed: Insufficient privilege level", Refused),
        ("Set Chassis Power Control to Down/Off failed: Node busy", Unavailable),
        (f"Get Auth Capabilities error\n{NO_SESSION}", Unavailable),
        ("RAKP 2 message indicates an error : insufficient resources for session", Unavailable),
    ],
)
async def test_an_error_says_whether_asking_again_helps(
    tmp_path: Path, said: str, error: type[Refused | Unavailable]
) -> None:
    (tmp_path / "said").write_text(said)
    fence = device(
        tmp_path, f'case "$*" in *status) echo Chassis Power is on;; *) cat {tmp_path}/said >&2; exit 1;; esac'
    )
    with pytest.raises(error) as caught:
        await fence.power_off()
    assert type(caught.value) is error


async def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="does not answer within"):
        await device(tmp_path, "exec sleep 3600", timeout_s=0.2).power()


async def test_a_state_that_is_neither_on_nor_off_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="says no power state"):
        await device(tmp_path, "echo Chassis Power is unknown").power()


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    fence = msgspec.structs.replace(device(tmp_path, ""), program=f"{tmp_path}/none")
    with pytest.raises(Refused, match="apt-get install ipmitool"):
        await fence.power()


async def test_a_missing_password_is_named(tmp_path: Path) -> None:
    fence = device(tmp_path, "echo Chassis Power is on")
    fence.password_file.unlink()
    with pytest.raises(Refused, match="cannot be read here"):
        await fence.power()
