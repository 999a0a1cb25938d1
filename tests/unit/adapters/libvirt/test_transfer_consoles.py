"""Consoles of a guest that is migrated live, between hosts of this release and of the one before."""

import xml.etree.ElementTree as ET

import pytest

from whimbrel.adapters.libvirt.domain_xml import NAMESPACE
from whimbrel.adapters.libvirt.transfer_xml import at_target

GUEST = f"""<domain><metadata><w:guest xmlns:w="{NAMESPACE}" slot="s" home="/there" project="p"/></metadata>
<devices>{{}}</devices></domain>"""
FILE = '<serial type="file"><source path="/there/console.log" append="on"/><target port="0"/></serial>'
TERMINAL = """<serial type="pty"><source path="/there/console.log"/><log file="/there/console.log" append="on"/>
<target port="0"/></serial><graphics type="vnc"><listen type="socket"/></graphics>
<video><model type="vga" vram="16384" heads="1"/></video>"""
LIVE_FILE = """<serial type="file"><source path="/here/console.log" append="on"/>
<target type="isa-serial" port="0"/><alias name="serial0"/></serial>
<console type="file"><source path="/here/console.log" append="on"/><target type="serial" port="0"/></console>"""
LIVE_TERMINAL = """<serial type="pty"><source path="/dev/pts/4"/><log file="/here/console.log" append="on"/>
<target type="isa-serial" port="0"/><alias name="serial0"/></serial>
<console type="pty" tty="/dev/pts/4"><source path="/dev/pts/4"/><log file="/here/console.log" append="on"/>
<target type="serial" port="0"/></console>
<graphics type="vnc" socket="/run/here/vnc.sock"><listen type="socket" socket="/run/here/vnc.sock"/></graphics>
<video><model type="vga" vram="16384" heads="1"/><alias name="video0"/></video>"""


@pytest.mark.parametrize("there", [FILE, TERMINAL])
@pytest.mark.parametrize("live", [LIVE_FILE, LIVE_TERMINAL])
def test_the_guest_keeps_its_devices_and_gets_the_ends_of_the_target(live: str, there: str) -> None:
    moved = ET.fromstring(at_target(GUEST.format(live), GUEST.format(there), "running"))
    text = ET.tostring(moved, encoding="unicode")
    assert "/here" not in text
    assert "/dev/pts" not in text
    kind = "file" if there == FILE else "pty"
    lines = moved.findall("devices/serial") + moved.findall("devices/console")
    assert [line.attrib for line in lines] == [{"type": kind}] * 2
    assert all([each.get("path") for each in line.findall("source")] == ["/there/console.log"] for line in lines)
    assert all(len(line.findall("log")) == (kind == "pty") for line in lines)
    assert [target.get("type") for target in moved.iterfind("devices/*/target")] == ["isa-serial", "serial"]
    had_screen = live == LIVE_TERMINAL
    assert len(moved.findall("devices/graphics")) == len(moved.findall("devices/video")) == had_screen
    assert all(listen.attrib == {"type": "socket"} for listen in moved.iterfind("devices/graphics/listen"))
