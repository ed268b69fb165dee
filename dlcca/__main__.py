"""``python -m dlcca`` is ``dlcca``."""

from dlcca.cli import main

main()
