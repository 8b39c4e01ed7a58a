"""Text for a terminal: nothing that a file says may move the cursor, or stop the output."""


def printable(text: str) -> str:
    """The text with `?` for all that shows nothing: escapes, line ends, half characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
