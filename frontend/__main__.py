"""`python -m polyreme` is the command line."""

from polyreme.cli import main

main()
