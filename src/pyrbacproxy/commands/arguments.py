"""The command lines of the commands: what is wrong with one ends with 1, and no word is guessed."""

import argparse
import sys
from typing import NoReturn

FAILED = 1


class Arguments(argparse.ArgumentParser):
    """Wrong flags end with 1, as everything that the caller can mend."""

    def __init__(self, command: str, description: str | None, epilog: str) -> None:
        super().__init__(
            prog=f"pyrbacproxy {command}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end."""
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"Error: {message}\n")
