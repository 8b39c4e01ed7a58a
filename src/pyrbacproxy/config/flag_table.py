"""The one table of flags; parsing, `--help`, the README's list and all refusals come from it."""

from dataclasses import replace

from pyrbacproxy.config.flag import Fate, Flag, Group, Kind


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
        _switch("strict-config", "Any unknown key in the authorization file ends the start."),
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
