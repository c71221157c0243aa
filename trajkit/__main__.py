"""`python -m trajkit`."""

from trajkit.cli import main

main()
