"""The table of flags and the grammar of their values (pflag's)."""

import json
import math
import re
import struct
from collections.abc import Callable
from enum import Enum

from pyrbacproxy.values import Frozen, replace

# --- values ---------------------------------------------------------------------------
#
# pflag's value grammar: the text of one flag → a typed value, or `ValueError` that tells why not.
#
# The messages are Go's, for an operator may know them (reference 1.1). No flag's name is known
# here.

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_DIGITS = {
    "": re.compile(r"[1-9](_?[0-9])*|0"),
    "0x": re.compile(r"(_?[0-9a-f])+"),
    "0o": re.compile(r"(_?[0-7])+"),
    "0b": re.compile(r"(_?[01])+"),
}
_BASES = {"": 10, "0x": 16, "0o": 8, "0b": 2}
_DIGIT_RUN, _HEX_RUN = "(?:[0-9](?:_?[0-9])*)", "(?:[0-9a-f](?:_?[0-9a-f])*)"
_DECIMAL_FLOAT = re.compile(
    rf"[+-]?({_DIGIT_RUN}(\.{_DIGIT_RUN}?)?|\.{_DIGIT_RUN})(e[+-]?{_DIGIT_RUN})?", re.IGNORECASE
)
_HEX_FLOAT = re.compile(
    rf"[+-]?0x(_?{_HEX_RUN}(\.{_HEX_RUN}?)?|\.{_HEX_RUN})p[+-]?{_DIGIT_RUN}", re.IGNORECASE
)
_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
# What stands before an @: with a `/` in it only where the colon before that begins no port.
_USER = re.compile(r"//(?:(?!\[)[^/]*:(?![0-9]*[/?#,\]])[^/]*/.*|[^/]*)@", re.DOTALL)
_USER_WITHOUT_SLASHES = re.compile(r"^[^/]+:(?!//).*@", re.DOTALL)
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")


def quoted(text: str) -> str:
    """The text as Go's %q shows it: in double quotes, control characters escaped."""
    return json.dumps(text, ensure_ascii=False)


def without_password(url: str) -> str:
    """A URL as a message may show it: user and password are masked, also where the rest is amiss.

    A password may hold an unescaped `/`, and `//` may be missing.
    """
    return _USER_WITHOUT_SLASHES.sub("<masked>@", _USER.sub("//<masked>@", url))


def parse_bool(text: str) -> bool:
    """Go's `strconv.ParseBool`: a dozen spellings and no other."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")


def parse_int(text: str) -> int:
    """A signed 64-bit integer; Go's prefixes (`0x`, `0o`, `0b`, `0`), `_` between digits."""
    sign, digits = ("-", text[1:]) if text[:1] == "-" else ("", text.removeprefix("+"))
    number = _magnitude(digits, "strconv.ParseInt", text)
    number = -number if sign else number
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
    return number


def parse_uint32(text: str) -> int:
    """An unsigned 32-bit integer with Go's prefixes; no sign is allowed."""
    return _unsigned(text, 32)


def parse_uint64(text: str) -> int:
    """An unsigned 64-bit integer with Go's prefixes; no sign is allowed."""
    return _unsigned(text, 64)


def parse_level(text: str) -> int:
    """A log level: a decimal number of 32 bits with its sign, as klog's `-v` takes it."""
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax")
    if not -(2**31) <= int(text) < 2**31:
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
    return int(text)


def parse_float32(text: str) -> float:
    """A finite float32; infinities and NaN are refused, for nothing here is meant by them."""
    try:
        if _HEX_FLOAT.fullmatch(text):
            number = float.fromhex(text.replace("_", ""))
        elif _DECIMAL_FLOAT.fullmatch(text):
            number = float(text)
        else:
            raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax")
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        rounded = math.inf
    if math.isinf(rounded):
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: value out of range")
    return rounded


def parse_duration(text: str) -> float:
    """Seconds, from Go's syntax (`90s`, `1m0s`, `1.5h`); a bare number is wrong except `0`."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0.0
    if not body:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    nanoseconds = 0
    position = 0
    while position < len(body):
        part = _DURATION_PART.match(body, position)
        if part is None or not (part[1] or part[2]):
            raise ValueError(f"time: invalid duration {quoted(text)}")
        nanoseconds += _duration_part(part[1], part[2] or "", part[3], text)
        position = part.end()
    if nanoseconds >= 2**63:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    return (-nanoseconds if text[0] == "-" else nanoseconds) / 1e9


def duration_text(seconds: float) -> str:
    """A duration as Go prints it, for milliseconds and more: `1m0s`, `250ms`, `0s`."""
    if seconds < 0:
        return "-" + duration_text(-seconds)
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:g}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def parse_csv(text: str) -> tuple[str, ...]:
    """One CSV record as Go's `encoding/csv` reads it: blanks stay, `"` quotes a whole field.

    Blank lines before the record are skipped and what follows it is not read, as in pflag. A
    carriage return at the very end is a line's end, cut short.
    "" is an empty list.
    """
    if not text:
        return ()
    rest = text.replace("\r\n", "\n").removesuffix("\r").lstrip("\n")
    if not rest:
        raise ValueError("EOF")
    fields: list[str] = []
    while True:
        field, rest = _quoted_field(rest[1:]) if rest[:1] == '"' else _bare_field(rest)
        fields.append(field)
        if rest[:1] != ",":
            return tuple(fields)
        rest = rest[1:]


def parse_paths(text: str) -> tuple[str, ...]:
    """As `parse_csv`, but a second line is refused: a path in it would not be waited for."""
    if "\n" in text.rstrip("\r\n"):
        raise ValueError("more than one line")
    return parse_csv(text)


def parse_level_patterns(text: str) -> tuple[tuple[str, int], ...]:
    """`pattern=N` pairs of `--vmodule`; as in klog one with 0 is none."""
    pairs = []
    for item in filter(None, text.split(",")):
        pattern, equals, number = item.partition("=")
        try:
            level = parse_level(number) if pattern and equals else None
        except ValueError:
            level = None
        if level is None:
            raise ValueError("syntax error: expect comma-separated list of filename=N")
        if level < 0:
            raise ValueError("negative value for vmodule level")
        if level:
            pairs.append((pattern, level))
    return tuple(pairs)


def parse_gates(text: str) -> tuple[tuple[str, bool], ...]:
    """`Name=bool` pairs of `--feature-gates`, sorted; of a repeated name the last counts."""
    gates = {}
    for item in filter(None, text.split(",")):
        name, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        gates[name] = parse_bool(value)
    return tuple(sorted(gates.items()))


def _magnitude(digits: str, function: str, text: str) -> int:
    prefix = digits[:2].lower()
    if prefix not in ("0x", "0o", "0b"):
        # "017" is octal to Go; "0_17" as well, hence the second spelling of the prefix.
        prefix = "0o" if len(digits) > 1 and digits[0] == "0" else ""
        rest = digits[1:] if prefix else digits
    else:
        rest = digits[2:]
    rest = rest.lower()
    if not _DIGITS[prefix].fullmatch(rest):
        raise ValueError(f"{function}: parsing {quoted(text)}: invalid syntax")
    return int(rest.replace("_", ""), _BASES[prefix])


def _unsigned(text: str, bits: int) -> int:
    number = _magnitude(text, "strconv.ParseUint", text)
    if number >= 2**bits:
        raise ValueError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return number


def _duration_part(whole: str, fraction: str, unit: str, text: str) -> int:
    if not unit:
        raise ValueError(f"time: missing unit in duration {quoted(text)}")
    if unit not in _NANOSECONDS:
        raise ValueError(f"time: unknown unit {quoted(unit)} in duration {quoted(text)}")
    scale = _NANOSECONDS[unit]
    parts: int = int(fraction or "0") * scale // 10 ** len(fraction)
    return int(whole or "0") * scale + parts


def _bare_field(text: str) -> tuple[str, str]:
    end = re.search(r"[,\n]|$", text)
    field = text[: end.start()] if end else text
    if '"' in field:
        raise ValueError('parse error on line 1: bare " in non-quoted field')
    return field, text[len(field) :]


def _quoted_field(text: str) -> tuple[str, str]:
    """What follows an opening quote → the field and what follows its closing quote."""
    found = re.match(r'((?:[^"]|"")*)"(?=[,\n]|$)', text)
    if found is None:
        raise ValueError('parse error on line 1: extraneous or missing " in quoted-field')
    return found[1].replace('""', '"'), text[found.end() :]


# --- flag -----------------------------------------------------------------------------
# `Flag`: what one flag is called, which values it takes and what becomes of it.

Pairs = tuple[tuple[str, int], ...] | tuple[tuple[str, bool], ...]
Value = str | bool | int | float | tuple[str, ...] | Pairs


class Kind(Enum):
    """A flag's type; the value is what `--help` calls it, pflag's word where it has one."""

    TEXT = "string"
    BOOL = "bool"
    INT = "int"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT = "float32"
    DURATION = "duration"
    CSV = "strings"
    ARRAY = "stringArray"
    PATHS = "paths"  # as CSV, but an empty value clears what came before it
    LEVEL = "level"
    LEVELS = "pattern=N,..."
    GATES = "name=bool,..."
    VERSION = "version[=true]"


class Fate(Enum):
    """What becomes of a flag that is given."""

    WORKS = "works"
    WITHOUT_EFFECT = "accepted without effect, said once"
    DEAD = "a logging flag of old manifests: type-checked, warned about, without effect"


class Flag(Frozen):
    """One flag. `default` is text in its own grammar; `choices` are its only values, if any."""

    name: str
    kind: Kind
    default: str
    what: str
    fate: Fate = Fate.WORKS
    shorthand: str = ""
    choices: tuple[str, ...] = ()
    is_hidden: bool = False
    is_classified: bool = False  # no value of it is shown anywhere

    @property
    def default_value(self) -> Value:
        """The default, typed."""
        return self.parse(self.default)

    @property
    def is_list(self) -> bool:
        """Whether a second occurrence adds to the first."""
        return self.kind in (Kind.CSV, Kind.ARRAY, Kind.PATHS)

    @property
    def bare_value(self) -> str | None:
        """What the flag means without `=value`; None when a value must follow."""
        return "true" if self.kind in (Kind.BOOL, Kind.VERSION) else None

    def parse(self, text: str) -> Value:
        """The text as a value of this flag's kind; ValueError says what is wrong with it."""
        return _PARSERS[self.kind](text)


class Group(Frozen):
    """Flags under one heading of the help."""

    title: str
    flags: tuple[Flag, ...]


def _one(text: str) -> tuple[str, ...]:
    return (text,)


_PARSERS: dict[Kind, Callable[[str], Value]] = {
    Kind.TEXT: str,
    Kind.BOOL: parse_bool,
    Kind.INT: parse_int,
    Kind.UINT32: parse_uint32,
    Kind.UINT64: parse_uint64,
    Kind.FLOAT: parse_float32,
    Kind.DURATION: parse_duration,
    Kind.CSV: parse_csv,
    Kind.ARRAY: _one,
    Kind.PATHS: parse_paths,
    Kind.LEVEL: parse_level,
    Kind.LEVELS: parse_level_patterns,
    Kind.GATES: parse_gates,
    Kind.VERSION: str,  # judged by the command line, which knows the program's version
}


# --- flag table -----------------------------------------------------------------------
# The one table of flags; parsing, `--help`, the README's list and all refusals come from it.


def _text(name: str, what: str, default: str = "", *, choices: tuple[str, ...] = ()) -> Flag:
    return Flag(name, Kind.TEXT, default, what, choices=choices)


def _switch(name: str, what: str, default: str = "false") -> Flag:
    return Flag(name, Kind.BOOL, default, what)


def _list(name: str, what: str) -> Flag:
    return Flag(name, Kind.CSV, "", what)


def _number(name: str, kind: Kind, default: str, what: str) -> Flag:
    return Flag(name, kind, default, what)


def _time(name: str, default: str, what: str) -> Flag:
    return Flag(name, Kind.DURATION, default, what)


def _without_effect(flag: Flag) -> Flag:
    return replace(flag, fate=Fate.WITHOUT_EFFECT)


def _dead(name: str, kind: Kind, default: str) -> Flag:
    return Flag(name, kind, default, "No effect.", Fate.DEAD, is_hidden=True)


_LISTENERS = Group(
    "Listeners",
    (
        _text("secure-listen-address", "The host:port on which HTTPS is served."),
        _text(
            "insecure-listen-address",
            "Deprecated. The host:port on which the same is served without TLS.",
        ),
        _number(
            "proxy-endpoints-port",
            Kind.INT,
            "0",
            "The HTTPS port of the health pages, /metrics, /statusz, /flagz, /version; 0 for none.",
        ),
        _text(
            "proxy-endpoints-address",
            "The host of the endpoints port; when empty, that of --secure-listen-address.",
        ),
        _switch("http2-disable", "Offer no HTTP/2 on any listener."),
        _number(
            "http2-max-concurrent-streams",
            Kind.UINT32,
            "100",
            "How many streams a client may open on one HTTP/2 connection.",
        ),
        _number(
            "http2-max-size",
            Kind.UINT32,
            "262144",
            "The largest HTTP/2 frame and the window of one stream, in bytes.",
        ),
        _switch("http2-prefer", "Choose HTTP/2 when a client offers both versions."),
    ),
)

_TLS = Group(
    "TLS",
    (
        _text(
            "tls-cert-file",
            "The serving certificate and its chain, PEM; may hold the key as well. "
            "Without it and the key, a self-signed pair is made in memory.",
        ),
        _text("tls-private-key-file", "The key of --tls-cert-file, PEM."),
        _text(
            "tls-min-version",
            "The oldest TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13.",
            "VersionTLS12",
        ),
        _list(
            "tls-cipher-suites",
            "The suites for TLS 1.2 and older, by their Go (IANA) names; empty for a safe choice. "
            "Those of TLS 1.3 are always on.",
        ),
        _time(
            "tls-reload-interval",
            "1m0s",
            "How often the serving pair and the client CA are compared with their files.",
        ),
        _text("client-ca-file", "The authorities of accepted client certificates, PEM."),
    ),
)

_UPSTREAM = Group(
    "Upstream",
    (
        _text(
            "upstream",
            "The URL to which allowed requests are forwarded; unix:///run/x.sock for a socket.",
        ),
        _text(
            "upstream-ca-file",
            "The authorities that vouch for an https upstream, PEM; else the system's.",
        ),
        _text("upstream-client-cert-file", "The client certificate for the upstream, PEM."),
        _text("upstream-client-key-file", "The key of --upstream-client-cert-file, PEM."),
        _switch("upstream-force-h2c", "Speak HTTP/2 without TLS to the upstream, https or not."),
    ),
)

_AUTHENTICATION = Group(
    "Authentication",
    (
        _list("auth-token-audiences", "A bearer token must be meant for one of these audiences."),
        _time("token-cache-ttl", "2m0s", "How long the user of a good token is remembered."),
        _switch("auth-header-fields-enabled", "Tell the upstream the user and the groups."),
        _text("auth-header-user-field-name", "The header of the user's name.", "x-remote-user"),
        _text("auth-header-groups-field-name", "The header of the groups.", "x-remote-groups"),
        _text("auth-header-groups-field-separator", "What stands between two groups.", "|"),
        _text("oidc-issuer", "The issuer's https URL; OIDC is then the only way in."),
        _text("oidc-clientID", "The client that an ID token must be meant for."),
        _text("oidc-groups-claim", "The claim that holds the groups.", "groups"),
        _text("oidc-username-claim", "The claim that holds the user's name.", "email"),
        _text("oidc-username-prefix", "Put before each user's name."),
        _text("oidc-groups-prefix", "Put before each group."),
        Flag(
            "oidc-sign-alg",
            Kind.ARRAY,
            "RS256",
            "An accepted signature: RS256, ES256, PS256, or with 384 or 512; may be repeated.",
        ),
        _text("oidc-ca-file", "The authorities that vouch for the issuer, PEM; else the system's."),
    ),
)

_AUTHORIZATION = Group(
    "Authorization",
    (
        _text("config-file", "The authorization file, YAML."),
        _switch("strict-config", "Any unknown key in the authorization file fails at start-up."),
        _list(
            "allow-paths",
            "Patterns; a path that matches none is answered 404. Excludes --ignore-paths.",
        ),
        _list(
            "ignore-paths",
            "Patterns; a path that matches is forwarded unchecked. Excludes --allow-paths.",
        ),
        _switch("ignore-paths-keep-bearer", "Forward bearer tokens on ignored paths."),
        _switch(
            "reject-form-bodies",
            "With a query rewrite, answer 415 to form bodies: they can carry the same parameter.",
        ),
        _time("authorized-ttl", "5m0s", "How long an allowing access review is remembered."),
        _time("unauthorized-ttl", "30s", "How long a refusing access review is remembered."),
    ),
)

_API_SERVER = Group(
    "API server",
    (
        _text("kubeconfig", "How to reach the API server; when empty, as the pod's account."),
        _number(
            "kube-api-qps",
            Kind.FLOAT,
            "0",
            "Reviews per second, of both kinds together; 0 for 50 of each kind of review.",
        ),
        _number(
            "kube-api-burst",
            Kind.INT,
            "0",
            "Reviews at once; goes with --kube-api-qps. 0 for 100 of each kind of review.",
        ),
        _time(
            "stale-review-period",
            "0s",
            "While the API server is away, use positive reviews so long past their time; at most "
            "1h. So much longer a token or right counts that was revoked.",
        ),
    ),
)

_LIMITS = Group(
    "Limits",
    (
        _time("tls-handshake-timeout", "10s", "Accepted connection to finished handshake."),
        _time("read-header-timeout", "32s", "First byte of a request head to its end."),
        _time("idle-timeout", "1m30s", "A kept connection without a request."),
        _time("write-stall-timeout", "1m0s", "A writer without progress is cut off."),
        _number("max-header-bytes", Kind.INT, "1048576", "Request line and header lines together."),
        _number(
            "max-connections",
            Kind.INT,
            "10000",
            "Connections at once; then an unused one is closed for each new one, first those that "
            "have asked for nothing, then idle ones of the address that holds most; accepting "
            "pauses while all are in use.",
        ),
        _time("shutdown-delay-duration", "0s", "The signal until the listeners close."),
        _time("shutdown-grace-period", "30s", "Their closing until the last exchange is cut off."),
    ),
)

_STARTING = Group(
    "Starting on a node",
    (
        Flag(
            "wait-for-absent",
            Kind.PATHS,
            "",
            "Serve once none of these paths exists; an empty value clears those before it.",
        ),
        _switch("wait-for-port", "Wait for the secure port instead of failing."),
        _switch("wait-for-serving-cert", "Wait until the serving pair is there and whole."),
        _time(
            "startup-timeout", "0s", "Give up waiting, with status 1, after so long; 0s for never."
        ),
        _switch("ready-while-waiting", "What /readyz says while waiting.", "true"),
    ),
)

_OBSERVING = Group(
    "Observing",
    (
        Flag("v", Kind.LEVEL, "0", "The log level: 2 tells refusals, 8 reviews.", shorthand="v"),
        Flag(
            "vmodule",
            Kind.LEVELS,
            "",
            "Higher log levels for single modules: a pattern means the last part of a module's "
            "name in ARCHITECTURE.md (link=8 for reviews), one with slashes all of it (*/kube/*=8)."
            " A pattern that fits none does nothing.",
        ),
        _text(
            "logging-format",
            "How log lines look: klog's text, or one JSON object a line as Kubernetes' components "
            "write it.",
            "text",
            choices=("text", "json"),
        ),
        _text(
            "access-log",
            "Where each request leaves a line of JSON when it is over: a path, or - for stdout.",
        ),
        _text(
            "zpages-authorization",
            "What guards the pages of the endpoints port: their paths, as in the control plane, or "
            "subresources of the node, as in the kubelet.",
            "component",
            choices=("component", "node"),
        ),
        _text("node-name", "For --zpages-authorization=node; when empty, $NODE_NAME."),
        Flag(
            "feature-gates",
            Kind.GATES,
            "",
            "ComponentStatusz=false removes /statusz, ComponentFlagz=false /flagz.",
        ),
        replace(
            _without_effect(
                _time("log-flush-frequency", "5s", "No effect: a line is written at once.")
            ),
            is_hidden=True,
        ),
    ),
)

_GLOBAL = Group(
    "Global",
    (
        replace(_switch("help", "Print this and exit."), shorthand="h"),
        Flag(
            "version",
            Kind.VERSION,
            "false",
            "Print the version and exit; =raw prints more, =vX.Y.Z-suffix runs under that name.",
        ),
    ),
)

_DEAD = Group(
    "Without effect",
    (
        _dead("add-dir-header", Kind.BOOL, "false"),
        _dead("alsologtostderr", Kind.BOOL, "false"),
        _dead("log-backtrace-at", Kind.TEXT, ""),
        _dead("log-dir", Kind.TEXT, ""),
        _dead("log-file", Kind.TEXT, ""),
        _dead("log-file-max-size", Kind.UINT64, "0"),
        _dead("logtostderr", Kind.BOOL, "false"),
        _dead("one-output", Kind.BOOL, "false"),
        _dead("skip-headers", Kind.BOOL, "false"),
        _dead("skip-log-headers", Kind.BOOL, "false"),
        _dead("stderrthreshold", Kind.TEXT, ""),
    ),
)

GROUPS = (
    _LISTENERS,
    _TLS,
    _UPSTREAM,
    _AUTHENTICATION,
    _AUTHORIZATION,
    _API_SERVER,
    _LIMITS,
    _STARTING,
    _OBSERVING,
    _GLOBAL,
    _DEAD,
)
FLAGS: dict[str, Flag] = {flag.name: flag for group in GROUPS for flag in group.flags}
