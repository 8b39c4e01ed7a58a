"""Templates as operators write them: what comes out, and what is refused where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.authz.template_parser import TemplateError, parse
from pyrbacproxy.authz.templates import RenderError, literal

RENDERED = [
    ("", "V", ""),
    ("plain", "V", "plain"),
    ("ns-{{ .Value }}", "V", "ns-V"),
    ("{{.Value}}/{{\t.Value\n}}", "V", "V/V"),
    ("a {{- .Value -}} s", "V", "aVs"),
    ("{{/* why */}}x", "V", "x"),
    ("{{ $.Value }}", "V", "V"),
    ("{{ \"a\" }}{{ `b` }}{{ 'c' }}{{ true }}{{ -7 }}", "V", "ab99true-7"),
    ('{{ printf "%s.example" .Value }}', "V", "V.example"),
    ('{{ .Value | printf "%s-%s" "a" }}', "V", "a-V"),
    ('{{ .Value | printf "%q" | len }}', "V", "3"),
    ('{{ (printf "%s" .Value) | len }}', "V", "1"),
    ('{{ print "a" (len .Value) 2 }}', "V", "a1 2"),
    ("{{ print print .Value }}", "V", "V"),
    ("{{ println .Value }}", "V", "V\n"),
    ('{{ if eq .Value "a" "b" }}1{{ else }}2{{ end }}', "b", "1"),
    ('{{ if eq .Value "a" "b" }}1{{ else }}2{{ end }}', "c", "2"),
    ("{{ if .Value }}1{{ end }}", "", ""),
    ('{{ if eq .Value "a" }}1{{ else if eq .Value "b" }}2{{ else }}3{{ end }}', "b", "2"),
    ("{{ if .Value }}{{ if false }}1{{ else }}2{{ end }}3{{ end }}", "V", "23"),
    ("{{ with slice .Value 0 1 }}{{ . }}{{ $.Value }}{{ end }}", "abc", "aabc"),
    ("{{ with .Value }}1{{ else }}{{ .Value }}2{{ end }}", "", "2"),
    ('{{ with "" }}1{{ else with .Value }}{{ . }}{{ else }}2{{ end }}', "V", "V"),
    ("{{ with $x := .Value }}{{ . }}{{ $x }}{{ end }}", "V", "VV"),
    ("{{ with .Value }}{{ with len . }}{{ . }}{{ end }}{{ . }}{{ end }}", "V", "1V"),
    ("{{ $x := .Value }}{{ $x }}", "V", "V"),
    ("{{ $x := 1 }}{{ $y := 2 }}{{ $x }}", "V", "1"),
    ('{{ $x := "a" }}{{ if true }}{{ $x = .Value }}{{ end }}{{ $x }}', "V", "V"),
    ('{{ $x := "a" }}{{ if true }}{{ $x := .Value }}{{ end }}{{ $x }}', "V", "a"),
    ("{{ $x := .Value }}{{ $x := len $x }}{{ $x }}", "V", "1"),
    ("{{ if $x := .Value }}1{{ else }}<{{ $x }}>{{ end }}", "", "<>"),
    ('{{ $x := "a" }}{{ if $x = .Value }}{{ $x }}{{ end }}', "V", "V"),
    ('{{ and .Value "x" }}{{ or .Value "y" }}{{ not .Value }}', "V", "xVfalse"),
    ('{{ "x" | or .Value }}', "", "x"),
    ("{{ if and (gt (len .Value) 2) (lt (len .Value) 9) }}1{{ end }}", "abc", "1"),
    ('{{ index .Value 0 | printf "%c" }}', "abc", "a"),
    ("{{ html .Value }}{{ urlquery .Value }}", "a&b", "a&amp;ba%26b"),
    ("{{ slice .Value 0 1 }}{{ slice .Value 1 }}", "é", "é"),
    ('{{.Value}}{{ "\\xff" }}', "V", "V\udcff"),
]

REFUSED = [
    ("{{}}", 3, "a missing value"),
    ("{{ .Value | }}", 13, "unexpected }}"),
    ("{{ ( ) }}", 6, "a missing value"),
    ("{{ (.Value }}", 12, "unexpected }}"),
    ("{{ .Value ) }}", 11, "unexpected )"),
    ("{{ value }}", 4, 'function "value" is not defined'),
    ("{{ .Value | value }}", 13, 'function "value" is not defined'),
    ("{{ js .Value }}", 4, 'function "js" is not supported'),
    ("{{ nil }}", 4, 'function "nil" is not defined'),
    ("{{ range .Value }}{{ end }}", 4, "range is not supported"),
    ('{{ define "x" }}{{ end }}', 4, "define is not supported"),
    ('{{ template "x" }}', 4, "template is not supported"),
    ('{{ block "x" . }}{{ end }}', 4, "block is not supported"),
    ("{{ break }}", 4, "break is not supported"),
    ("a{{ end }}", 5, "{{end}} without a beginning"),
    ("{{ else }}", 4, "{{else}} without a beginning"),
    ("{{ if .Value }}", 4, "if without end"),
    ("{{ with .Value }}{{ else }}", 4, "with without end"),
    ("{{ if 1 }}{{ else }}{{ else }}{{ end }}", 29, "a second else"),
    ("{{ if 1 }}{{ else with 2 }}{{ end }}", 19, "unexpected with"),
    ("{{ if 1 }}{{ end 2 }}", 18, "unexpected 2"),
    ("{{ if }}{{ end }}", 7, "a missing value in if"),
    ("{{ . }}", 4, "unexpected ."),
    ("{{ with 1 }}{{ ..a }}{{ end }}", 17, "there is no field .a in a text"),
    ("{{ $ }}", 6, "there is no field }}"),
    ("{{ print $ .Value }}", 10, "undefined variable $"),
    ("{{ $.Other }}", 5, "there is no field .Other"),
    ("{{ .Value.x }}", 10, "there is no field .x in a text"),
    ('{{ "a".x }}', 7, "there is no field .x in a text"),
    ("{{ len .Other }}", 8, "there is no field .Other, only .Value"),
    ("{{ if true }}{{ .Other }}{{ end }}", 17, "there is no field .Other, only .Value"),
    ("{{ with 1 }}{{ .Value }}{{ end }}", 16, "there is no field .Value in with"),
    ("{{ with 1 }}{{ $.Other }}{{ end }}", 17, "there is no field .Other"),
    ('{{ .Value "x" }}', 11, 'unexpected "x" after .Value'),
    ("{{ .Value | .Value }}", 13, "nothing can be piped into .Value"),
    ("{{ .Value | (print) }}", 13, "nothing can be piped into ("),
    ("{{ $x }}", 4, "undefined variable $x"),
    ("{{ $x = 1 }}", 4, "undefined variable $x"),
    ("{{ $x := $x }}", 10, "undefined variable $x"),
    ("{{ $ := 1 }}", 4, "$ can't be declared"),
    ("{{ if 1 }}{{ $x := 1 }}{{ else }}{{ $x }}{{ end }}", 37, "undefined variable $x"),
    ("{{ if $x := 1 }}{{ end }}{{ $x }}", 29, "undefined variable $x"),
    ("{{ print ($x := 1) }}", 11, "undefined variable $x"),
    ("{{ len }}", 4, "a wrong number of arguments for len: 0"),
    ("{{ len 1 2 }}", 4, "a wrong number of arguments for len: 2"),
    ("{{ eq .Value }}", 4, "a wrong number of arguments for eq: 1"),
    ("{{ and }}", 4, "a wrong number of arguments for and: 0"),
    ("{{ print(.Value) }}", 9, "unexpected (, a blank is missing"),
    ("{{ printf }}", 4, "the format of printf"),
    ("{{ printf .Value }}", 4, "the format of printf"),
    ("{{ printf 1 }}", 4, "the format of printf"),
    ('{{ "%s" | printf }}', 4 + 7, "the format of printf"),
    ('{{ printf "%s" }}', 4, "a wrong number of arguments for printf: 0"),
    ('{{ printf "%s" 1 2 }}', 4, "a wrong number of arguments for printf: 2"),
    ('{{ printf "%f" 1 }}', 4, "'%f' is not understood"),
    ("{{ 1.5 }}", 4, "only whole numbers"),
    ('{{ "\\q" }}', 4, "a bad escape"),
    ("{{ = }}", 4, "unexpected ="),
    ("{{ ( " + "( " * 20, 1, "{{ without }}"),
    ("{{ " + "(" * 21 + "1" + ")" * 21 + " }}", 24, "nested deeper than 20"),
    ("{{ 1" + " | len" * 10 + " }}", 4 + 1 + 6 * 9 + 1, "more than 10 commands"),
]

FAILING = [
    ("{{ slice .Value 0 9 }}", "short"),
    ("{{ index .Value 0 }}", ""),
    ("{{ eq .Value 1 }}", "1"),
    ('{{ printf "%d" .Value }}', "1"),
    ("{{ .Value }}{{ .Value }}", "x" * 40_000),
]


@pytest.mark.parametrize(("text", "value", "rendered"), RENDERED)
def test_render(text: str, value: str, rendered: str) -> None:
    assert parse(text).render(value) == rendered


@pytest.mark.parametrize(("text", "column", "problem"), REFUSED)
def test_dec_d3_what_is_not_understood_is_named_with_its_place(
    text: str, column: int, problem: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(f"x\n{text}")
    assert str(caught.value).startswith(f"line 2, column {column}: {problem}")


@pytest.mark.parametrize(("text", "value"), FAILING)
def test_a_template_that_fails_on_a_value(text: str, value: str) -> None:
    with pytest.raises(RenderError):
        parse(text).render(value)


@pytest.mark.parametrize("text", ["{{ .Other }}", "a{{ .Other }}b{{ .Value }}{{.Third}}"])
def test_a_lone_field_that_is_not_there_makes_a_template_that_is_always_empty(text: str) -> None:
    template = parse(text)
    assert template.render("V") == ""
    assert "there is no field .Other, only .Value" in template.flaw


@pytest.mark.parametrize(
    "value", ["{{.Value}}", "{0.__class__}", "%(x)s", "${x}", "a/b", "a" * 10240]
)
def test_fr45_a_value_is_never_evaluated(value: str) -> None:
    assert parse("<{{ .Value }}>").render(value) == f"<{value}>"


def test_long_chains_of_else_if_are_not_deep() -> None:
    middle = '{{ else if eq .Value "x" }}1' * 500
    assert parse(f"{{{{ if false }}}}0{middle}{{{{ else }}}}2{{{{ end }}}}").render("V") == "2"


def test_the_deepest_template_renders() -> None:
    stages = " | print" * 9
    inner = "(" * 18 + ".Value" + f"{stages})" * 18 + stages
    deep = "{{ if true }}{{ if true }}{{ " + inner + " }}{{ end }}{{ end }}"
    assert parse(deep).render("V") == "V"


@given(st.text())
def test_text_without_braces_stays_as_it_is(text: str) -> None:
    plain = text.replace("{{", "")
    assert parse(plain).render("V") == literal(plain).render("V")


WORDS = [
    *("{{", "}}", "{{- ", " -}}", " ", "\n", ".", ".Value", "$", "$x", ":=", "=", "|", "(", ")"),
    *('"%s"', '"a', "`b`", "'c'", "0x1", "1.5", "-", "if", "else", "end", "with", "range", "/*"),
    *(
        "*/",
        "printf",
        "print",
        "len",
        "and",
        "or",
        "eq",
        "slice",
        "index",
        "true",
        "nil",
        "\\",
        ",",
    ),
]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=30), st.text(max_size=5))
def test_any_text_is_a_template_or_is_refused(words: list[str], value: str) -> None:
    try:
        template = parse("".join(words))
    except TemplateError:
        return
    try:
        template.render(value)
    except RenderError:
        return


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.text(max_size=5))
def test_any_action_is_one_or_is_refused(words: list[str], value: str) -> None:
    try:
        parse("{{ " + " ".join(words) + " }}").render(value)
    except (TemplateError, RenderError):
        return
