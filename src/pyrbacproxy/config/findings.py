"""`Findings`: the problems and warnings of a configuration, reported all at once."""

from pyrbacproxy.values import Frozen, field


class Findings(Frozen):
    """Problems fail at start-up, warnings go to the log; both name flag or file, key and value."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def problem(self, text: str) -> None:
        """Add a problem: the program will fail at start-up."""
        self.problems.append(text)

    def warn(self, text: str) -> None:
        """Adds what only is to be said."""
        self.warnings.append(text)
