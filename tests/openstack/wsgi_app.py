"""Loads the WSGI application of a service for gunicorn; runs where the services are installed.

Some of them read their settings from the command line, which is gunicorn's here.
"""

import importlib
import sys
from typing import Any


def load(module: str, *arguments: str) -> Any:
    sys.argv = [module, *arguments]
    return importlib.import_module(module).application
