import pytest

from pyrbacproxy.authz.template_parser import Kind, TemplateError, tokens

INSIDE = [
    ("{{ a.b }}", ["NAME a", "FIELD .b"]),
    ("{{.}}", ["DOT ."]),
    ("{{$}}", ["VARIABLE $"]),
    ("{{$x.Value}}", ["VARIABLE $x", "FIELD .Value"]),
    ("{{$x:=1}}", ["VARIABLE $x", "DECLARE :=", "NUMBER 1"]),
    ("{{$x =1}}", ["VARIABLE $x", "ASSIGN =", "NUMBER 1"]),
    ("{{(a|b)}}", ["LEFT (", "NAME a", "PIPE |", "NAME b", "RIGHT )"]),
    ("{{\"}}\"`}}`'}'}}", ['STRING "}}"', "RAW_STRING `}}`", "CHARACTER '}'"]),
    (r'{{"\"a\\"}}', [r'STRING "\"a\\"']),
    ("{{-3}}", ["NUMBER -3"]),
    ("{{- -3 -}}", ["NUMBER -3"]),
    ("{{.5}}", ["NUMBER .5"]),
    ("{{\n\tif\r\n}}", ["KEYWORD if"]),
    ("{{ ifx }}", ["NAME ifx"]),
    ("{{`a\nb`}}", ["RAW_STRING `a\nb`"]),
]

TEXTS = [
    ("", []),
    ("plain }} { {", ["plain }} { {"]),
    ("a {{- 1 -}} b", ["a", "b"]),
    ("a \t\r\n{{- 1 }} b", ["a", " b"]),
    ("a {{ 1 -}}\n b", ["a ", "b"]),
    (" {{- 1 -}} ", []),
    ("{{ 1 -}}  {{- 1 }}", []),
    ("a{{/* }} */}}b", ["a", "b"]),
    ("a {{- /* x */ -}} b", ["a", "b"]),
    ("a {{/* x */ -}} b", ["a ", "b"]),
]

REFUSED = [
    ("ab{{ 1", 1, 3, "{{ without }}"),
    ("{{", 1, 1, "{{ without }}"),
    ("{{ 1 }", 1, 6, "unexpected '}'"),
    ("a\n b {{ 1 ? 2 }}", 2, 9, "unexpected '?'"),
    ('{{ "a }}', 1, 4, "an unclosed string"),
    ('{{ "a\n" }}', 1, 4, "an unclosed string"),
    ("{{ `a }}", 1, 4, "an unclosed string"),
    ("{{ 'a }}", 1, 4, "an unclosed character"),
    ("{{ $x+2 }}", 1, 4, "unexpected '$'"),
    ("{{ .Value-}}", 1, 4, "unexpected '.'"),
    ("{{-.Value}}", 1, 3, "unexpected '-'"),
    ("{{ a, }}", 1, 5, "unexpected ','"),
    ("{{/* a }}", 1, 3, "an unclosed comment"),
    ("{{/* a */ 1 }}", 1, 8, "a comment must be all"),
    ("{{ /* a */ }}", 1, 4, "unexpected '/'"),
    ("{{ é\u2028 }}", 1, 4, "unexpected"),
]


@pytest.mark.parametrize(("text", "expected"), INSIDE)
def test_an_action(text: str, expected: list[str]) -> None:
    first, *inside, close, end = tokens(text)
    assert (first.kind, close.kind, end.kind) == (Kind.OPEN, Kind.CLOSE, Kind.END)
    assert [f"{token.kind.name} {token.text}" for token in inside] == expected
    assert all(text.startswith(token.text, token.position) for token in inside)


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_text_and_trim_markers(text: str, expected: list[str]) -> None:
    assert [token.text for token in tokens(text) if token.kind is Kind.TEXT] == expected


def test_a_blank_before_a_token_is_known() -> None:
    spaced = [token.is_spaced for token in tokens("{{a .b.c ( d)}}")]
    assert spaced == [False, False, True, False, True, True, False, False, False]


@pytest.mark.parametrize(("text", "line", "column", "problem"), REFUSED)
def test_what_is_no_token_is_named_with_its_place(
    text: str, line: int, column: int, problem: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        list(tokens(text))
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"line {line}, column {column}: {problem}")
