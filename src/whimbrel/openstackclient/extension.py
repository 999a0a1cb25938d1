"""Registers the plug-in with python-openstackclient. Source: its document "How to write a plugin"."""

import argparse
from typing import Any

from osc_lib import utils

from whimbrel.openstackclient.session_api import SessionApi

API_NAME = "whimbrel"
API_VERSION_OPTION = "os_whimbrel_api_version"
DEFAULT_API_VERSION = "1"
API_VERSIONS = {DEFAULT_API_VERSION: "whimbrel.openstackclient.session_api.SessionApi"}


def make_client(instance: Any) -> SessionApi:
    """Return the client that commands find as `client_manager.whimbrel`."""
    return SessionApi(instance.session, region_name=instance.region_name, interface=instance.interface)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "--os-whimbrel-api-version",
        metavar="<whimbrel-api-version>",
        default=utils.env("OS_WHIMBREL_API_VERSION", default=DEFAULT_API_VERSION),
        help=f"Version of Whimbrel's own API, default={DEFAULT_API_VERSION} (Env: OS_WHIMBREL_API_VERSION)",
    )
    return parser
