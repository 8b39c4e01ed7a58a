"""Files that are read again when their content changes; bad content leaves the old in use."""

import logging
from collections.abc import Callable

from pyrbacproxy.regular_file import read_regular

_LOG = logging.getLogger(__name__)


class TlsFileError(Exception):
    """A file that cannot be used: which, and why (never its content)."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path = path
        self.text = text


def read_file(path: str) -> bytes:
    """The content of a file. Raises TlsFileError."""
    try:
        return read_regular(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise TlsFileError(path, f"cannot be read: {reason or error}") from error


class WatchedFiles:
    """The files at `paths`, whose contents `use` gets, in this order, whenever one has changed.

    `use` raises TlsFileError, and then has done nothing, if they are bad. `name` is for the log;
    `fault` says why the last `check` kept the old, "" when it had no reason to. `reloads` counts
    changes that were put to use, `failures` the checks that found bad content.
    """

    def __init__(
        self, name: str, paths: tuple[str, ...], use: Callable[[tuple[bytes, ...]], None]
    ) -> None:
        self.name = name
        self._paths = paths
        self._use = use
        self._contents: tuple[bytes, ...] | None = None
        self.fault = ""
        self.reloads = 0
        self.failures = 0

    def load(self) -> None:
        """Read now, and use what is new. Raises TlsFileError: then the old stays in use."""
        # By path each time: symlinks are followed anew.
        contents = tuple(read_file(path) for path in self._paths)
        if contents == self._contents:
            return
        self._use(contents)
        if self._contents is not None:
            self.reloads += 1
            _LOG.info("Reloaded the %s from %s", self.name, ", ".join(self._paths))
        self._contents = contents

    def check(self) -> None:
        """As `load`, but a fault is logged, once for each change of state.

        What the content makes `use` raise beyond TlsFileError is kept as a fault, and raised.
        """
        try:
            self.load()
        except TlsFileError as error:
            if self._fails(str(error)):
                _LOG.error("Keeping the old %s: %s", self.name, error)
            return
        except Exception as error:
            # The old stays, whatever the new has raised; the task that checks logs it.
            self._fails(f"{', '.join(self._paths)}: unexpected {type(error).__name__}")
            raise
        if self.fault:
            self.fault = ""
            _LOG.info("The %s can be used again", self.name)

    def _fails(self, fault: str) -> bool:
        """Count and keep a fault; whether it is a new one."""
        self.failures += 1
        is_new = fault != self.fault
        self.fault = fault
        return is_new
