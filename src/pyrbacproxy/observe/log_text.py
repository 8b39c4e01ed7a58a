"""Text as a log may hold it: on one line, nothing that a terminal would obey, no credential."""

import re

MASK = "<masked>"

# What would end a line, move a terminal's cursor, or turn the order of the text round; and halves
# of surrogate pairs, which not every stream can write.
_CONTROL = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Each keeps its first group. A secret ends at a blank, a quote, or what ends a value in a URL.
# Names in a line may be long and a client's choice: none of these may look at a character again for
# each place where it could begin.
_SECRETS = (
    re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL),
    re.compile(r"(base64url\.bearer\.authorization\.k8s\.io\.)[A-Za-z0-9_=-]+"),
    re.compile(r"(\b(?:access_|id_|refresh_)?token=)[^\s&\"'#;,]+", re.IGNORECASE),
    re.compile(
        r"([\"'](?:access_|id_|refresh_)?token\\*[\"']\s*:\s*b?\\*[\"'])[^\"'\\]+", re.IGNORECASE
    ),
    re.compile(r"(\bbearer\s+)(?!tokens?[:,.;)]?(?:\s|\Z))[^\s\"',;\\]+", re.IGNORECASE),
    re.compile(
        r"(\bauthorization\W{1,8}(?:basic|negotiate|ntlm|digest)\s+)[^\s\"',;\\]+", re.IGNORECASE
    ),
    re.compile(r"(://)[^\s/@\"']+(?=@)"),
    # From where its letters begin, and only if a dot ends them.
    re.compile(
        r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]++\.[A-Za-z0-9_-])([A-Za-z0-9_-]*?\b)"
        r"eyJ[A-Za-z0-9_-]{6,}+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"
    ),
)


def masked(text: str) -> str:
    """The text without anything that looks like a credential."""
    for pattern in _SECRETS:
        text = pattern.sub(rf"\1{MASK}", text)
    return text


def on_one_line(text: str) -> str:
    """The text with everything odd in it escaped as in Python's string literals."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def json_on_one_line(text: str) -> str:
    """The same for JSON that leaves other characters than ASCII as they are: it means the same."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
