"""`Findings`: what reading a configuration turns up, gathered so that all is told at once."""

from pyrbacproxy.values import Frozen, field


class Findings(Frozen):
    """Problems end the start, warnings go to the log; both name flag or file, key and value."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def problem(self, text: str) -> None:
        """Adds what ends the start."""
        self.problems.append(text)

    def warn(self, text: str) -> None:
        """Adds what only is to be said."""
        self.warnings.append(text)
