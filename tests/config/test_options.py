"""The command line in pflag's grammar (reference 1.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.config.flag_parsing import Options, parse
from pyrbacproxy.config.flags import FLAGS


def options(*words: str) -> Options:
    parsed = parse(words)
    assert parsed.problems == ()
    return parsed.options


def problems(*words: str) -> tuple[str, ...]:
    return parse(words).problems


def test_without_words_every_flag_has_its_default() -> None:
    parsed = options()
    assert parsed.given == frozenset()
    assert parsed.arguments == ()
    assert {name: parsed.is_changed(name) for name in FLAGS} == dict.fromkeys(FLAGS, False)
    assert parsed.number("tls-reload-interval") == 60.0


@pytest.mark.parametrize(
    "words",
    [
        ("--tls-cert-file=x",),
        ("--tls-cert-file", "x"),
        ("--tls_cert_file=x",),
        ("--tls_cert-file", "x"),
        ("--tls-cert-file=y", "--tls-cert-file=x"),
    ],
)
def test_ways_to_give_a_value(words: tuple[str, ...]) -> None:
    parsed = options(*words)
    assert parsed.text("tls-cert-file") == "x"
    assert parsed.given == {"tls-cert-file"}
    assert parsed.is_changed("tls-cert-file")


def test_a_value_may_look_like_a_flag_or_hold_an_equals_sign() -> None:
    assert options("--upstream", "--http2-disable").text("upstream") == "--http2-disable"
    assert options("--upstream=a=b").text("upstream") == "a=b"
    assert options("--upstream=").text("upstream") == ""
    assert options("--upstream", "").text("upstream") == ""


def test_fr69_a_booleans_value_follows_an_equals_sign_or_is_an_argument() -> None:
    assert options("--logtostderr=false").is_on("logtostderr") is False
    assert options("--logtostderr").is_on("logtostderr") is True
    assert options("--logtostderr", "true").arguments == ("true",)
    assert options("--http2-disable=T").is_on("http2-disable") is True


@pytest.mark.parametrize(
    "words", [("-v", "3"), ("-v3",), ("-v=3",), ("--v=3",), ("--v", "3"), ("-v10", "-v3")]
)
def test_fr69_the_log_level_has_a_short_form(words: tuple[str, ...]) -> None:
    assert options(*words).integer("v") == 3


def test_short_flags_cluster() -> None:
    parsed = options("-hv3")
    assert (parsed.is_on("help"), parsed.integer("v")) == (True, 3)


def test_two_dashes_end_the_flags() -> None:
    assert options("--", "--upstream", "x").arguments == ("--upstream", "x")


def test_words_between_flags_are_arguments() -> None:
    parsed = options("a", "-", "", "--http2-disable", "b")
    assert parsed.arguments == ("a", "-", "", "b")
    assert parsed.is_on("http2-disable")


@pytest.mark.parametrize(
    ("words", "items"),
    [
        (("--allow-paths=/a,/b", "--allow-paths", "/c"), ("/a", "/b", "/c")),
        (("--allow-paths=",), ()),
        (("--allow-paths=/a", "--allow-paths="), ("/a",)),
        (('--allow-paths="/a,b",/c',), ("/a,b", "/c")),
    ],
)
def test_lists_append(words: tuple[str, ...], items: tuple[str, ...]) -> None:
    assert options(*words).texts("allow-paths") == items


def test_the_first_occurrence_of_a_list_replaces_its_default() -> None:
    assert options("--oidc-sign-alg=ES256,x", "--oidc-sign-alg=PS512").texts("oidc-sign-alg") == (
        "ES256,x",
        "PS512",
    )


def test_an_empty_value_clears_a_list_of_paths() -> None:
    words = ["--wait-for-absent=/a,/b", "--wait-for-absent=", "--wait-for-absent=/c"]
    assert options(*words).texts("wait-for-absent") == ("/c",)


def test_pairs() -> None:
    assert options("--vmodule=a=1,b=2").pairs("vmodule") == (("a", 1), ("b", 2))
    assert options("--feature-gates=A=true").pairs("feature-gates") == (("A", 1),)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--nosuch",), "unknown flag: --nosuch"),
        (("--nosuch=1",), "unknown flag: --nosuch"),
        (("--no_such",), "unknown flag: --no_such"),
        (("--nosuch", "value"), "unknown flag: --nosuch"),
        (("--upstrea=x",), "unknown flag: --upstrea, did you mean --upstream?"),
        (("--Upstream=x",), "unknown flag: --Upstream, did you mean --upstream?"),
        (
            ("--listen-address=:1",),
            "unknown flag: --listen-address, did you mean --secure-listen-address?",
        ),
        (("-x",), "unknown shorthand flag: 'x' in -x"),
        (("-upstream=x",), "unknown shorthand flag: 'u' in -upstream=x, did you mean --upstream?"),
        (("--config-file",), "flag needs an argument: --config-file"),
        (("-v",), "flag needs an argument: 'v' in -v"),
        (("---x",), "bad flag syntax: ---x"),
        (("--=x",), "bad flag syntax: --=x"),
        (
            ("--logtostderr=maybe",),
            (
                'invalid argument "maybe" for "--logtostderr" flag: '
                'strconv.ParseBool: parsing "maybe": invalid syntax'
            ),
        ),
        (
            ("--tls-reload-interval=90",),
            (
                'invalid argument "90" for "--tls-reload-interval" flag: '
                'time: missing unit in duration "90"'
            ),
        ),
        (
            ("-v=",),
            (
                'invalid argument "=" for "-v, --v" flag: '
                'strconv.ParseInt: parsing "=": invalid syntax'
            ),
        ),
        (
            ("--log-file-max-size=-1",),
            (
                'invalid argument "-1" for "--log-file-max-size" flag: '
                'strconv.ParseUint: parsing "-1": invalid syntax'
            ),
        ),
    ],
)
def test_what_is_wrong_is_said_as_pflag_says_it(words: tuple[str, ...], problem: str) -> None:
    assert problems(*words) == (problem,)


def test_every_problem_is_told_and_a_bad_value_leaves_the_default() -> None:
    parsed = parse(["--nosuch", "--tls-reload-interval=1", "--v=x", "--upstream=u"])
    assert len(parsed.problems) == 3
    assert parsed.options.given == {"upstream"}
    assert parsed.options.number("tls-reload-interval") == 60.0


def test_a_duration_is_told_as_it_is_given() -> None:
    assert parse(["--idle-timeout=-90s"]).options.duration_words("idle-timeout") == (
        "--idle-timeout=-1m30s"
    )


def test_an_accessor_knows_its_kind() -> None:
    parsed = options()
    for accessor, name in (
        (parsed.text, "v"),
        (parsed.is_on, "upstream"),
        (parsed.integer, "http2-disable"),
        (parsed.number, "v"),
        (parsed.texts, "upstream"),
        (parsed.pairs, "upstream"),
    ):
        with pytest.raises(TypeError, match=name):
            accessor(name)
    with pytest.raises(KeyError):
        parsed.text("nosuch")


@given(st.lists(st.text("-=v,h1x\x00 _\u00e9"), max_size=4))
def test_any_words_are_read_without_a_crash(words: list[str]) -> None:
    parsed = parse(words)
    assert set(parsed.options.values) == set(FLAGS)
