r"""Allow and ignore patterns, compiled once: Go's `path.Match` on the whole decoded path.

Reference 3.2.1. `*` and `?` never match `/`, a class may, negation is `^` only, `\` escapes,
nothing folds case and nothing is anchored implicitly; `fnmatch` differs in each of these. A pattern
becomes a regular expression: each star with what follows it up to the next star is an atomic group
that takes the leftmost fit, as Go does. So a star is never tried again, and no pattern makes a long
path expensive.
"""

import re
from collections.abc import Iterable


class PatternError(ValueError):
    """A pattern that Go's `path.Match` calls bad; the message names the pattern and the place."""

    def __init__(self, pattern: str, position: int, problem: str) -> None:
        super().__init__(f"bad pattern {pattern!r}: {problem} at character {position + 1}")
        self.pattern = pattern
        self.position = position


class PathPatterns:
    """Any number of patterns as one question."""

    __slots__ = ("_expression", "_literals")

    def __init__(self, patterns: Iterable[str]) -> None:
        compiled = [(pattern, compile_pattern(pattern)) for pattern in patterns]
        globs = [expression.pattern for text, expression in compiled if _has_wildcard(text)]
        self._literals = frozenset(text for text, _ in compiled if not _has_wildcard(text))
        self._expression = re.compile("|".join(globs), re.DOTALL) if globs else None

    def match(self, path: str) -> bool:
        """Whether any pattern matches the whole path."""
        if path in self._literals:
            return True
        return self._expression is not None and self._expression.fullmatch(path) is not None


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as an expression to be used with `fullmatch`; raises `PatternError`."""
    chunks = _chunks(pattern)
    first, starred = chunks[0], chunks[1:]
    if not starred:
        return re.compile(first, re.DOTALL)
    # The last chunk must fit the end, so its star takes what it can; those before take the leftmost
    # fit for good.
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in starred[:-1])
    return re.compile(f"{first}{middle}[^/]*{starred[-1]}", re.DOTALL)


def _has_wildcard(pattern: str) -> bool:
    return any(character in "*?[\\" for character in pattern)


def _chunks(pattern: str) -> list[str]:
    """The expressions between the stars; the first is what comes before any star."""
    chunks = [""]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "*":
            if len(chunks) == 1 or chunks[-1]:  # several stars in a row are one
                chunks.append("")
            at += 1
        elif character == "?":
            chunks[-1] += "[^/]"
            at += 1
        elif character == "[":
            text, at = _class(pattern, at)
            chunks[-1] += text
        else:
            literal, at = _character(pattern, at)
            chunks[-1] += re.escape(literal)
    return chunks


def _class(pattern: str, start: int) -> tuple[str, int]:
    """The character class that begins at `start`, and where it ends."""
    at = start + 1
    negated = pattern.startswith("^", at)
    at += negated
    ranges: list[str] = []
    is_first = True
    while is_first or not pattern.startswith("]", at):
        low, at = _class_member(pattern, at)
        high = low
        if pattern.startswith("-", at):
            high, at = _class_member(pattern, at + 1)
        if low <= high:  # a reversed range is allowed and matches nothing
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
        is_first = False
    inside = "".join(ranges)
    if not inside:
        return ("." if negated else "(?!)"), at + 1
    return f"[{'^' * negated}{inside}]", at + 1


def _class_member(pattern: str, at: int) -> tuple[str, int]:
    """One character of a class, perhaps escaped; a class must go on after it."""
    if pattern.startswith(("-", "]"), at):
        raise PatternError(pattern, at, f"{pattern[at]!r} needs a backslash before it")
    member, end = _character(pattern, at) if at < len(pattern) else ("", at)
    if "\udc80" <= member <= "\udcff":
        raise PatternError(pattern, at, "a byte that is no UTF-8")
    if end >= len(pattern):
        raise PatternError(pattern, end, "a class that does not end")
    return member, end


def _character(pattern: str, at: int) -> tuple[str, int]:
    """The character at `at`, or the one behind a backslash there, and where it ends."""
    if pattern[at] != "\\":
        return pattern[at], at + 1
    if at + 1 == len(pattern):
        raise PatternError(pattern, at, "a backslash with nothing behind it")
    return pattern[at + 1], at + 2
