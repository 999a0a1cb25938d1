"""`python -m whimbrel`, and the script `whimbrel`: the command line, which Ctrl-C ends also while it is loaded."""

import sys


def main() -> None:
    try:
        from whimbrel.cli import main as run_command
    except KeyboardInterrupt:
        sys.exit(130)
    run_command()


if __name__ == "__main__":
    main()
