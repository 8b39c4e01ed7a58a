"""What the upstream takes for our word: nothing of the client's survives, ours is unambiguous."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrbacproxy.authn import identity_headers
from pyrbacproxy.authn.identity_headers import Identity, IdentityHeaders, IdentitySettings
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.model import UserInfo

PREFIX = b"base64url.bearer.authorization.k8s.io."
OURS = IdentityHeaders(IdentitySettings(is_enabled=True))


def strip(
    *lines: tuple[bytes, bytes],
    settings: IdentitySettings | None = None,
    keeps_bearer: bool = False,
) -> list[tuple[bytes, bytes]]:
    headers = IdentityHeaders(settings or IdentitySettings())
    return list(headers.strip(Headers(lines), keeps_bearer=keeps_bearer))


def authorization(value: bytes) -> tuple[bytes, bytes]:
    return (b"Authorization", value)


def protocols(value: bytes) -> tuple[bytes, bytes]:
    return (b"Sec-WebSocket-Protocol", value)


# --- stripping ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        b"X-Remote-User",
        b"x_remote_user",
        b"X-Remote_User",
        b"X-Remote-Uid",
        b"X-Remote-Group",
        b"X-REMOTE_GROUPS",
        b"X-Remote-Extra-Scopes",
        b"x_remote_extra_scopes",
        b"X-Remote-Extra-",
        b"X-Remote-Extra-" + b"x" * 100,
        b"X-Me",
        b"x_me",
        b"My-Groups",
    ],
)
@pytest.mark.parametrize("is_enabled", [True, False])
def test_fr18_dec_d5_every_spelling_goes(name: bytes, *, is_enabled: bool) -> None:
    settings = IdentitySettings(is_enabled, user_header="X-Me", groups_header="my_groups")
    for keeps_bearer in (True, False):
        kept = strip((name, b"root"), (b"A", b"b"), settings=settings, keeps_bearer=keeps_bearer)
        assert kept == [(b"A", b"b")]


@pytest.mark.parametrize(
    "name",
    [b"X-Remote-Extras", b"X-Remote", b"X-Remote-User2", b"Remote-User", b"X-" + b"y" * 100],
)
def test_other_names_stay(name: bytes) -> None:
    headers = Headers([(name, b"v"), (b"A", b"b")])
    assert OURS.strip(headers) == headers
    assert OURS.strip(headers) == headers  # once remembered


@pytest.mark.parametrize(
    "value",
    [
        b"Bearer x",
        b"bearer",
        b"BEARER  x",
        b"Bearer\tx",
        b" Bearer x",
        b"bearer,x",
        b"Bearerx",
        b"Bearer ",
        b"Basic eA==, Bearer x",
        b"Basic eA==,bearer x",
        b"Basic eA== Bearer x",
        b",Bearer x",
        b'"Bearer x"',
        b"\xa0Bearer x",
    ],
)
def test_fr21_every_bearer_line_goes(value: bytes) -> None:
    lines = (authorization(value), authorization(b"Basic dTpw"), (b"AUTHORIZATION", value))
    assert strip(*lines) == [authorization(b"Basic dTpw")]
    assert strip(*lines, keeps_bearer=True) == list(lines)


@pytest.mark.parametrize(
    "name", [b"AUTHORIZATION", b"Authorization_", b"authorization-", b"_Authorization"]
)
def test_every_spelling_of_authorization_counts(name: bytes) -> None:
    assert strip((name, b"Bearer x"), (name, b"Basic dTpw")) == [(name, b"Basic dTpw")]
    assert strip((name, b"Bearer x"), keeps_bearer=True) == [(name, b"Bearer x")]


@pytest.mark.parametrize("value", [b"Basic xbearer", b"Negotiate YII+bearer/Bearer", b""])
def test_other_schemes_stay(value: bytes) -> None:
    assert strip(authorization(value)) == [authorization(value)]


@pytest.mark.parametrize(
    ("lists", "remaining"),
    [
        ([PREFIX + b"eA, chat"], [b"chat"]),
        ([PREFIX.upper() + b"eA, chat"], [b"chat"]),
        ([b"chat , " + PREFIX + b"eA,v2"], [b"chat,v2"]),
        ([PREFIX + b"eA", b"chat", b"v2"], [b"chat,v2"]),
        ([PREFIX + b"eA," + PREFIX + b"eB"], []),
        ([b'"' + PREFIX + b'eA", chat'], [b"chat"]),
        ([b"chat , v2", b"v3"], [b"chat , v2", b"v3"]),
    ],
)
def test_dec_d5_every_bearer_protocol_goes(lists: list[bytes], remaining: list[bytes]) -> None:
    around = ((b"A", b"1"), (b"B", b"2"))
    lines = (around[0], *(protocols(value) for value in lists), around[1])
    assert strip(*lines) == [around[0], *(protocols(value) for value in remaining), around[1]]
    assert strip(*lines, keeps_bearer=True) == list(lines)


def test_what_is_remembered_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity_headers, "_REMEMBERED_NAMES", 2)
    headers = IdentityHeaders(IdentitySettings())
    for name in (b"A", b"B", b"A", b"C", b"X-" + b"y" * 100, b"X-Remote-User", b"Authorization"):
        kept = headers.strip(Headers([(name, b"v")]))
        assert len(kept) == (name != b"X-Remote-User")
        assert len(headers._harmless) <= 2
        assert headers._harmless <= {b"A", b"B", b"C"}


IDENTITY_NAMES = ["x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-groups", "x-me"]


@st.composite
def spellings(draw: st.DrawFn) -> bytes:
    """A header name that some upstream reads as one of the identity names."""
    extra = st.text(string.ascii_letters + "-_", max_size=60).map("x-remote-extra-".__add__)
    name = draw(st.one_of(st.sampled_from(IDENTITY_NAMES), extra))
    choices = [
        st.sampled_from([letter.lower(), letter.upper(), "_" if letter == "-" else letter])
        for letter in name
    ]
    return "".join(draw(choice) for choice in choices).encode()


def is_identity(name: bytes) -> bool:
    read = name.decode().lower().replace("_", "-")
    return read in IDENTITY_NAMES or read.startswith("x-remote-extra-")


NAMES = st.one_of(spellings(), st.text(string.ascii_letters + "-_", min_size=1).map(str.encode))
LINES = st.lists(st.tuples(NAMES, st.binary(max_size=5)), max_size=8)


@given(LINES)
def test_no_spelling_of_an_identity_name_survives_except_ours(
    lines: list[tuple[bytes, bytes]],
) -> None:
    """The invariant of this module; and what is no identity name is not touched."""
    headers = IdentityHeaders(IdentitySettings(is_enabled=True, user_header="X-Me"))
    identity = headers.identity(UserInfo("alice", groups=("dev",)))
    assert identity is not None
    sent = list(headers.strip(Headers(lines)).with_added(*identity.lines))
    assert [pair for pair in sent if is_identity(pair[0])] == list(identity.lines)
    others = [pair for pair in lines if not is_identity(pair[0])]
    assert [pair for pair in sent if not is_identity(pair[0])] == others


# --- setting ------------------------------------------------------------------------


def told(user: UserInfo, separator: str = "|") -> Identity | None:
    settings = IdentitySettings(is_enabled=True, groups_separator=separator)
    return IdentityHeaders(settings).identity(user)


def test_k_u24_user_and_groups_are_told() -> None:
    user = UserInfo("alice", "uid-1", ("dev", "ops"), (("scopes", ("read",)),))
    assert told(user) == Identity(((b"X-Remote-User", b"alice"), (b"X-Remote-Groups", b"dev|ops")))


def test_the_configured_names_and_separator_are_used() -> None:
    settings = IdentitySettings(
        is_enabled=True, user_header="x-me", groups_header="X_Groups", groups_separator=", "
    )
    identity = IdentityHeaders(settings).identity(UserInfo("zo\u00eb", groups=("a", "b")))
    assert identity == Identity(((b"X-Me", b"zo\xc3\xab"), (b"X_groups", b"a, b")))


def test_k_u23_nothing_is_told_while_disabled() -> None:
    headers = IdentityHeaders(IdentitySettings())
    assert headers.identity(UserInfo("mallory\r\nX-Injected: yes", groups=("",))) == Identity()


def test_a_user_without_groups_has_an_empty_groups_header() -> None:
    assert told(UserInfo("bob")) == Identity(
        ((b"X-Remote-User", b"bob"), (b"X-Remote-Groups", b""))
    )


@pytest.mark.parametrize(
    ("groups", "separator", "value", "left_out"),
    [
        (("dev|admin", "ops"), "|", b"ops", ("dev|admin",)),
        (("|", "ops|"), "|", b"", ("|", "ops|")),
        (("a|", "b"), "||", b"b", ("a|",)),
        (("a||b", "c"), "||", b"c", ("a||b",)),
        (("|a", "b"), "||", b"|a||b", ()),
        (("a", "b"), "", b"", ("a", "b")),
    ],
)
def test_dec_d6_a_group_that_could_be_read_as_several_is_left_out(
    groups: tuple[str, ...], separator: str, value: bytes, left_out: tuple[str, ...]
) -> None:
    identity = told(UserInfo("alice", groups=groups), separator)
    assert identity is not None
    assert (identity.lines[1][1], identity.left_out) == (value, left_out)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " alice",
        "alice ",
        "alice\u00a0",
        "\u2003alice",
        "a\tb",
        "a\r\nX-Injected: yes",
        "a\x00b",
        "a\x7fb",
        "a\x85b",
        "a\udcffb",
    ],
)
def test_dec_d6_an_unfit_name_is_refused(name: str) -> None:
    assert told(UserInfo(name)) is None
    assert told(UserInfo("alice", groups=("dev", name))) is None


@pytest.mark.parametrize(
    "name", ["a b", "caf\u00e9", "system:serviceaccount:ns:name", "voil\u00e0"]
)
def test_a_fit_name_is_told_unchanged(name: str) -> None:
    identity = told(UserInfo(name))
    assert identity is not None
    assert identity.lines[0] == (b"X-Remote-User", name.encode())


@given(st.text(), st.lists(st.text(max_size=6), max_size=5), st.text(min_size=1, max_size=2))
def test_what_is_told_reads_back_as_the_groups(
    name: str, groups: list[str], separator: str
) -> None:
    identity = told(UserInfo(name, groups=tuple(groups)), separator)
    if identity is not None:
        value = identity.lines[1][1].decode()
        kept = [group for group in groups if group not in identity.left_out]
        assert (value.split(separator) if value else []) == kept
