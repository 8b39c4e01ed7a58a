"""The program's first lines: signals are caught before anything else is imported."""

import gc
import sys

from pyrbacproxy.signals import Signals


def main() -> int:
    """The console script, and `python -m pyrbacproxy`; returns the exit status."""
    # What the start makes stays until the end: looking through it for garbage is a tenth of the
    # start's time. `cli` and `serve` turn the collector on again.
    gc.disable()
    signals = Signals()
    signals.catch()
    # Late: the imports take a tenth of a second, and seconds under a CPU limit.
    from pyrbacproxy import cli  # noqa: PLC0415

    return cli.main(signals=signals)


if __name__ == "__main__":
    sys.exit(main())
