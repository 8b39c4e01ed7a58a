"""Tables in Markdown, on stdout."""


def table(*titles: str) -> None:
    """Begin a table."""
    print()
    row(*titles)
    row(*("---" for _ in titles))


def row(*cells: str) -> None:
    """One line of a table."""
    print(f"| {' | '.join(cells)} |", flush=True)
