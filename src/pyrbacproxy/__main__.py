"""The program's first lines: signals are caught before anything else is imported."""

import gc
import importlib.util
import sys

from pyrbacproxy.signals import Signals


def main() -> int:
    """The console script, and `python -m pyrbacproxy`; returns the exit status."""
    # What the start makes stays until the end: looking through it for garbage is a tenth of the
    # start's time. `cli` and `serve` turn the collector on again.
    gc.disable()
    signals = Signals()
    signals.catch()
    _import_when_used("cryptography.x509")
    # Late: the imports take a tenth of a second, and seconds under a CPU limit.
    from pyrbacproxy import cli  # noqa: PLC0415

    return cli.main(signals=signals)


def _import_when_used(name: str) -> None:
    """Defer a module that a library imports for functions that serving does not call.

    pyOpenSSL imports cryptography.x509, which takes 7 ms and 0.8 MiB; here a self-signed pair alone
    needs it.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # `from package import module` looks here first; any look into the module would import it.
    package, _, attribute = name.rpartition(".")
    setattr(sys.modules[package], attribute, module)


if __name__ == "__main__":
    sys.exit(main())
