"""The Redfish service of sushy-tools; what a machine runs ends with its power.

redfish_emulator.py PROGRAM ...: before the emulator turns a machine off it runs PROGRAM, if it is there, with the id
of the machine. The rest is for the emulator.
"""

import os
import subprocess
import sys
from typing import Any

from sushy_tools.emulator.main import main
from sushy_tools.emulator.resources.systems.libvirtdriver import LibvirtDriver

PROGRAM = sys.argv.pop(1)
set_power_state = LibvirtDriver.set_power_state


def end_and_set_power_state(driver: Any, identity: str, state: str) -> None:
    if "Off" in state and os.access(PROGRAM, os.X_OK):
        subprocess.run([PROGRAM, identity], check=False)
    set_power_state(driver, identity, state)


LibvirtDriver.set_power_state = end_and_set_power_state
main()
