"""The program's first lines: signals are caught before anything else is imported."""

import sys

from pyrbacproxy.signals import Signals


def main() -> int:
    """The console script, and `python -m pyrbacproxy`; returns the exit status."""
    signals = Signals()
    signals.catch()
    # Late: the imports take a tenth of a second, and seconds under a CPU limit.
    from pyrbacproxy import cli  # noqa: PLC0415

    return cli.main(signals=signals)


if __name__ == "__main__":
    sys.exit(main())
