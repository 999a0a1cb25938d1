"""What a server of new processes imports once, so that each cloud of a test starts in a fraction of the time."""

import whimbrel.bootstrap.apps
import whimbrel.bootstrap.initial_contents
import whimbrel.bootstrap.process_factory
import whimbrel.cli.up  # noqa: F401
