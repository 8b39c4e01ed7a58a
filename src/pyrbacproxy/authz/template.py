"""The part of Go's text/template that rewrites use: `{{ .Value }}` with blanks and trim markers.

Go finds a bad template at the first request and drops the connection (D3); we find it at the start.
What is Go's but not ours (functions, conditions, other fields, comments) is refused there too,
never guessed.
"""

import re
from dataclasses import dataclass

_BLANKS = " \t\r\n"

# A trim marker is a minus with a blank on its inner side, as in Go; `{{-.Value}}` is no marker
# there either.
_VALUE = re.compile(
    r"\{\{(?P<left>-(?=[ \t\r\n]))?[ \t\r\n]*\.Value[ \t\r\n]*?(?P<right>(?<=[ \t\r\n])-)?\}\}"
)
_END = "}}"


class TemplateError(ValueError):
    """What is not understood: `text` is the action in question, `position` its place, counted from
    0.
    """

    def __init__(self, position: int, text: str) -> None:
        super().__init__(
            f"only {{{{ .Value }}}} is understood, not {text!r} at character {position + 1}"
        )
        self.position = position
        self.text = text


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: literal texts, between each two of which the value goes (n texts, n-1
    values).
    """

    texts: tuple[str, ...]

    def render(self, value: str) -> str:
        """The text with the value in every place; the value itself is never evaluated (FR45)."""
        return value.join(self.texts)


def literal(text: str) -> Template:
    """A template without any place for the value: braces in `text` mean nothing."""
    return Template((text,))


def parse(text: str) -> Template:
    """Parse a template; raises `TemplateError` for any action other than `{{ .Value }}`."""
    texts: list[str] = []
    at = 0
    trims_next = False
    while True:
        start = text.find("{{", at)
        before = text[at:] if start < 0 else text[at:start]
        if trims_next:
            before = before.lstrip(_BLANKS)
        if start < 0:
            return Template((*texts, before))
        action = _VALUE.match(text, start)
        if action is None:
            raise TemplateError(start, _action_text(text, start))
        texts.append(before.rstrip(_BLANKS) if action["left"] else before)
        trims_next = bool(action["right"])
        at = action.end()


def _action_text(text: str, start: int) -> str:
    end = text.find(_END, start)
    return text[start:] if end < 0 else text[start : end + len(_END)]
