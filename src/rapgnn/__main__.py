"""``python -m rapgnn``."""

from rapgnn.cli import main

main()
