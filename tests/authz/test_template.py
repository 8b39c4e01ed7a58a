"""Rewrite templates: the value's place, blanks, trim markers; the rest is a named error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.authz.template import Template, TemplateError, literal, parse

RENDERED = [
    ("", ""),
    ("plain", "plain"),
    ("{{ .Value }}", "V"),
    ("{{.Value}}", "V"),
    ("{{\t.Value\n}}", "V"),
    ("ns-{{ .Value }}", "ns-V"),
    ("{{ .Value }}/{{ .Value }}", "V/V"),
    ("a {{- .Value -}} s", "aVs"),
    ("a \t\r\n{{- .Value }} s", "aV s"),
    ("a {{ .Value -}}\n s", "a Vs"),
    ("{{ .Value -}}  {{- .Value }}", "VV"),
    ("{{ .Value -}} x {{ .Value }}", "Vx V"),
    ("}} { {", "}} { {"),
]

REFUSED = [
    ("{{ .Missing }}", 0, "{{ .Missing }}"),
    ("ns-{{ printf .Value }}", 3, "{{ printf .Value }}"),
    ("{{ .Value }}{{ .Value", 12, "{{ .Value"),
    ("{{ value }}", 0, "{{ value }}"),
    ("{{}}", 0, "{{}}"),
    ("{{-.Value}}", 0, "{{-.Value}}"),
    ("{{.Value-}}", 0, "{{.Value-}}"),
    ("{{ .Value.x }}", 0, "{{ .Value.x }}"),
    ("{{/* comment */}}", 0, "{{/* comment */}}"),
    ("{{{ .Value }}}", 0, "{{{ .Value }}"),
    ('{{ if eq .Value "a" }}b{{ end }}', 0, '{{ if eq .Value "a" }}'),
]


@pytest.mark.parametrize(("text", "rendered"), RENDERED)
def test_render(text: str, rendered: str) -> None:
    assert parse(text).render("V") == rendered


@pytest.mark.parametrize(("text", "position", "action"), REFUSED)
def test_dec_d3_what_is_not_understood_is_named_with_its_place(
    text: str, position: int, action: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(text)
    assert (caught.value.position, caught.value.text) == (position, action)
    assert repr(action) in str(caught.value)
    assert f"character {position + 1}" in str(caught.value)


@pytest.mark.parametrize("text", ["{{ .Value }}", "{{ nonsense"])
def test_literal_text_means_nothing(text: str) -> None:
    assert literal(text).render("V") == text


@pytest.mark.parametrize(
    "value", ["{{.Value}}", "{0.__class__}", "%(x)s", "${x}", "a/b", "a" * 10240]
)
def test_fr45_a_value_is_never_evaluated(value: str) -> None:
    assert parse("<{{ .Value }}>").render(value) == f"<{value}>"


@given(st.text())
def test_text_without_braces_stays_as_it_is(text: str) -> None:
    assert parse(text.replace("{{", "")) == Template((text.replace("{{", ""),))
