"""Path patterns are Go's `path.Match`: tables, then any pattern beside a plain reading of Go."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.authz.paths import PathPatterns, PatternError, compile_pattern

MATCHES = [
    ("/metrics", "/metrics"),
    ("/api/v1/label/*/values", "/api/v1/label/job/values"),
    ("/api/*", "/api/"),
    ("/*", "/"),
    ("/*", "/x"),
    ("/a*b*c", "/abbc"),
    ("/a*b*c", "/aXbYbZc"),
    ("/**", "/x"),
    ("/a**b", "/ab"),
    ("/q?", "/q\u00e9"),
    ("/q?", "/q\udcff"),  # a byte that is no UTF-8 is one character
    ("/m[a-c]x", "/mbx"),
    ("/m[^a]x", "/mbx"),
    ("/m[^a]x", "/m/x"),  # a class may match a slash
    ("/s[/_]t", "/s/t"),
    ("/b[!a]x", "/b!x"),  # a bang negates nothing
    ("/b[!a]x", "/bax"),
    ("/[*]", "/*"),
    ("/[a\\]b]", "/]"),
    ("/[a^]", "/^"),
    ("/[[]", "/["),
    ("/[a&&b~~c||d]", "/~"),
    ("/[^z-a]", "/x"),  # a reversed range is empty, and its negation is everything
    ("/lit\\*", "/lit*"),
    ("/a\\b", "/ab"),
    ("/a b", "/a b"),
    ("/semi;x=1", "/semi;x=1"),
    ("/a.b", "/a.b"),
    ("/a]b", "/a]b"),
    ("/a-b", "/a-b"),
    ("*", "abc"),
    ("", ""),
]

MISSES = [
    ("/metrics", "/metrics/"),
    ("/metrics", "/Metrics"),
    ("/metrics", "/metricsx"),
    ("/api/*", "/api"),
    ("/api/*", "/api/a/b"),
    ("/**", "/x/y"),
    ("/public/*", "/public/x/../../metrics"),
    ("/q?", "/q/"),
    ("/q?", "/q"),
    ("/m[^a]x", "/max"),
    ("/b[!a]x", "/bbx"),
    ("/[z-a]", "/x"),
    ("/lit\\*", "/litX"),
    ("/a.b", "/axb"),
    ("/a*b*c", "/abbcd"),
    ("*[/x]*y", "x/y"),  # the first star takes the leftmost fit and is never tried again
    ("", "/"),
    ("/x", "/x\n"),
    ("/*", "/x/\n"),
]

BAD = [
    ("/[", "does not end at character 3"),
    ("/[a", "does not end at character 4"),
    ("/[^", "does not end at character 4"),
    ("/[a-", "does not end at character 5"),
    ("/[a-]", "'\\]' needs a backslash before it at character 5"),
    ("/[]a]", "'\\]' needs a backslash before it at character 3"),
    ("/[^]a]", "'\\]' needs a backslash before it at character 4"),
    ("/[-a]", "'-' needs a backslash before it at character 3"),
    ("/a\\", "nothing behind it at character 3"),
    ("/[a\\", "nothing behind it at character 4"),
    ("/*/[", "does not end at character 5"),
    ("/[\udcff]", "no UTF-8 at character 3"),
]


@pytest.mark.parametrize(("pattern", "path"), MATCHES)
def test_match(pattern: str, path: str) -> None:
    assert PathPatterns([pattern]).match(path)


@pytest.mark.parametrize(("pattern", "path"), MISSES)
def test_miss(pattern: str, path: str) -> None:
    assert not PathPatterns([pattern]).match(path)


@pytest.mark.parametrize(("pattern", "problem"), BAD)
def test_a_bad_pattern_is_named_with_its_place(pattern: str, problem: str) -> None:
    with pytest.raises(PatternError, match=problem) as caught:
        compile_pattern(pattern)
    assert repr(pattern) in str(caught.value)
    assert caught.value.pattern == pattern
    with pytest.raises(PatternError):
        PathPatterns(["/fine", pattern])


def test_any_of_several_patterns_is_enough() -> None:
    patterns = PathPatterns(["/one", "/t*", "/x/?", "/a*c"])
    assert [patterns.match(path) for path in ("/one", "/two", "/x/y", "/abc")] == [True] * 4
    assert not patterns.match("/onet")
    assert not PathPatterns([]).match("/one")


def test_fr08_a_star_does_not_cross_a_slash() -> None:
    assert not PathPatterns(["/public/*"]).match("/public/a/b")
    assert PathPatterns(["/m[^a]x"]).match("/mbx")
    with pytest.raises(PatternError, match=re.escape("'/['")):
        PathPatterns(["/["])


def test_many_stars_do_not_make_a_long_path_expensive() -> None:
    patterns = PathPatterns(["/" + "*a" * 12 + "*b"])
    # Were the stars tried again, this would not end.
    assert not patterns.match("/" + "a" * 20_000)


# --- against a plain reading of Go's rules ----------------------------------------------


def go_match(pattern: str, name: str) -> bool:
    """`path.Match`: chunks between stars, the leftmost fit for all but the last."""
    elements = go_elements(pattern)
    chunks: list[list[str]] = [[]]
    for element in elements:
        if element == "*":
            chunks.append([])
        else:
            chunks[-1].append(element)
    # Several stars in a row are one star.
    chunks = [chunks[0], *(c for c in chunks[1:-1] if c), *chunks[1:][-1:]]
    for number, chunk in enumerate(chunks):
        is_last = number == len(chunks) - 1
        starts = [0] if number == 0 else range(len(name) - len(name.partition("/")[2]) + 1)
        limit = len(name.partition("/")[0])
        for start in starts:
            rest = name[start + len(chunk) :]
            fits = go_fits(chunk, name[start : start + len(chunk)])
            if start <= limit and fits and not (is_last and rest):
                name = rest
                break
        else:
            return False
    return not name


def go_elements(pattern: str) -> list[str]:
    return re.findall(r"\[(?:\\.|[^\]\\])+\]|\\.|.", pattern, re.DOTALL)


def go_fits(chunk: list[str], text: str) -> bool:
    return len(chunk) == len(text) and all(
        go_is(element, character) for element, character in zip(chunk, text, strict=True)
    )


def go_is(element: str, character: str) -> bool:
    if element == "?":
        return character != "/"
    if element.startswith("\\"):
        return element[1] == character
    if not element.startswith("["):
        return element == character
    inside = element[1:-1]
    negated = inside.startswith("^")
    members = re.findall(r"(\\.|.)(?:-(\\.|.))?", inside[negated:])
    found = any(low[-1] <= character <= (high or low)[-1] for low, high in members)
    return found != negated


LETTERS = "ab/*]^-!\\"
MEMBERS = st.sampled_from(["a", "b", "/", "!", "a-b", "b-a", "\\]", "\\-", "\\^", "*"])
CLASSES = st.builds(
    lambda negation, members: f"[{negation}{''.join(members)}]",
    st.sampled_from(["", "^"]),
    st.lists(MEMBERS, min_size=1, max_size=3),
)
PARTS = st.one_of(st.sampled_from(["a", "b", "/", "*", "?", "\\*", "\\a", "]", "-"]), CLASSES)


@given(st.lists(PARTS, max_size=6).map("".join), st.text(LETTERS, max_size=8))
def test_any_pattern_matches_as_in_go(pattern: str, path: str) -> None:
    assert PathPatterns([pattern]).match(path) == go_match(pattern, path)


@given(st.text("ab[]^-\\*?/", max_size=10))
def test_any_text_is_a_pattern_or_an_error(text: str) -> None:
    try:
        place = compile_pattern(text).groups
    except PatternError as error:
        place = error.position
    assert 0 <= place <= len(text)
