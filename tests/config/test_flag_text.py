import pytest

from pyrbacproxy.config import flag_parsing as flag_text
from pyrbacproxy.config.flag_parsing import (
    Options,
    help_text,
    parse,
    readme_list,
    shown_values,
    value_lines,
)
from pyrbacproxy.config.flags import FLAGS, GROUPS, Flag, Group, Kind


def test_help_shows_every_flag_that_is_not_hidden() -> None:
    words = help_text().split()
    for flag in FLAGS.values():
        assert (f"--{flag.name}" in words) is not flag.is_hidden


def test_help_fits_a_terminal() -> None:
    assert max(len(line) for line in help_text().splitlines()) <= 100


def test_help_says_type_default_and_meaning() -> None:
    text = help_text()
    assert "--tls-reload-interval duration\n" in text
    assert "(default 1m0s)" in text
    assert '(default "x-remote-user")' in text
    assert "  -v, --v level\n" in text
    assert "--http2-disable\n" in text
    assert "One of text, json." in text


def test_the_readme_lists_every_flag_in_a_table() -> None:
    lines = readme_list().splitlines()
    assert "| `--kubeconfig` | string |  | " in "\n".join(lines)
    assert len([line for line in lines if line.startswith("| `--")]) == len(FLAGS)
    assert all(line.count(" | ") == 3 for line in lines if line.startswith("| `--"))


def test_values_are_shown_in_their_own_grammar() -> None:
    lines = set(
        value_lines(
            parse(
                [
                    "--allow-paths=/a,/b",
                    "--kube-api-qps=2.5",
                    "--idle-timeout=90s",
                    "--vmodule=x=3",
                    "--feature-gates=ComponentFlagz=false",
                    "--upstream=http://me:secret@h/",
                    "--http2-disable",
                ]
            ).options
        )
    )
    assert lines >= {
        'FLAG: --allow-paths="[/a,/b]"',
        'FLAG: --ignore-paths="[]"',
        'FLAG: --kube-api-qps="2.5"',
        'FLAG: --idle-timeout="1m30s"',
        'FLAG: --vmodule="x=3"',
        'FLAG: --feature-gates="ComponentFlagz=false"',
        'FLAG: --upstream="http://<masked>@h/"',
        'FLAG: --http2-disable="true"',
        'FLAG: --v="0"',
    }


def test_z_d4_a_classified_value_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    flag = Flag("secret", Kind.TEXT, "s3cret", "Made up.", is_classified=True)
    monkeypatch.setattr(flag_text, "FLAGS", {flag.name: flag})
    monkeypatch.setattr(flag_text, "GROUPS", (*GROUPS, Group("Secrets", (flag,))))
    options = Options({"secret": "s3cret"})
    assert list(value_lines(options)) == ['FLAG: --secret="CLASSIFIED"']
    assert list(shown_values(options, [flag])) == [("secret", "CLASSIFIED")]
    assert "--secret" in help_text()
    assert "s3cret" not in help_text() + readme_list()
