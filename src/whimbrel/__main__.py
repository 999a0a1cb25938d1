"""`python -m whimbrel`: the command line, for those who have no script on their path."""

from whimbrel.cli import main

main()
