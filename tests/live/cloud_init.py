"""cloud-init's own readers of OpenStack's data sources, from its Debian package, run by the system's Python."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.prerequisites import missing

PYTHON = "/usr/bin/python3"
INSTALL = "apt-get install -y --no-install-recommends cloud-init xorriso"

_READ = """
import json, sys
from cloudinit.sources import convert_vendordata
from cloudinit.sources.helpers import openstack

kind, place = sys.argv[1:]
reader = openstack.ConfigDriveReader(place) if kind == "drive" else openstack.MetadataReader(place)
found = reader.read_v2()
macs = {link["ethernet_mac_address"]: f"eth{n}" for n, link in enumerate(found["networkdata"]["links"])}
found["converted"] = openstack.convert_net_json(found["networkdata"], known_macs=macs)
found.pop("ec2-metadata", None)
found["vendors"] = [convert_vendordata(found[key]) for key in ("vendordata", "vendordata2")]
print(json.dumps(found, default=lambda content: content.decode("latin-1")))
"""


def check_installed() -> None:
    """Skip the test where cloud-init or xorriso is not installed."""
    here = subprocess.run(
        [PYTHON, "-c", "import cloudinit.sources.helpers.openstack"], capture_output=True, check=False
    )
    if here.returncode != 0 or shutil.which("xorriso") is None:
        missing("cloud-init reads what guests are told, and it or xorriso is not installed", INSTALL)


def read_drive(image: Path, directory: Path) -> dict[str, Any]:
    """Return what cloud-init finds on a config drive. directory: an empty one, for the files."""
    extract = ["xorriso", "-osirrox", "on", "-indev", str(image), "-extract", "/", str(directory)]
    done = subprocess.run(extract, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Volume id    : 'config-2'" in done.stderr
    return _read("drive", str(directory))


def read_service(url: str) -> dict[str, Any]:
    """Return what cloud-init finds at a metadata service."""
    return _read("service", url)


def _read(kind: str, place: str) -> dict[str, Any]:
    done = subprocess.run([PYTHON, "-c", _READ, kind, place], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
