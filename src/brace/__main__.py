"""`python -m brace`."""

from brace.cli import main

main()
