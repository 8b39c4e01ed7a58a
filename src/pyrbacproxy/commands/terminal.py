"""Arguments and terminal output of the commands."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NoReturn

# --- arguments ------------------------------------------------------------------------
# The command lines of the commands: what is wrong with one ends with 1, and no word is guessed.

FAILED = 1


class Arguments(argparse.ArgumentParser):
    """Wrong flags end with 1, as everything that the caller can mend."""

    def __init__(self, command: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=f"pyrbacproxy {command}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def parse_args(  # type: ignore[override] # no namespace is ever handed in
        self, args: Sequence[str]
    ) -> argparse.Namespace:
        """The values. A flag that no command has is told first: a required one that is missing may
        only be misspelt.
        """
        problems = list(self._unknown(takewhile(lambda word: word != "--", args)))
        if problems:
            self.error("; ".join(problems))
        return super().parse_args(args)

    def _unknown(self, words: Iterable[str]) -> Iterable[str]:
        known = [name for name in self._option_string_actions if name.startswith("--")]
        for word in words:
            name = word.partition("=")[0]
            if not name.startswith("--") or name in known:
                continue
            # Late: few starts need it.
            import difflib  # noqa: PLC0415

            near = difflib.get_close_matches(name.casefold(), known, 1)
            yield f"unknown flag: {name}" + (f", did you mean {near[0]}?" if near else "")

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end."""
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"Error: {message}\n")


# --- terminal -------------------------------------------------------------------------
# Text for a terminal: nothing that a file says may move the cursor, or stop the output.


def printable(text: str) -> str:
    """The text with `?` for all that shows nothing: escapes, line ends, half characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
