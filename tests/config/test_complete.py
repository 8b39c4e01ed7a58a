"""Options and files → settings, or every problem at once."""

import base64
from pathlib import Path

import pytest
import trustme
import yaml

from pyrbacproxy.access import AccessSettings
from pyrbacproxy.authn.identity_headers import IdentitySettings
from pyrbacproxy.authz.attributes import AttributeSettings
from pyrbacproxy.authz.authorizers import StaticRule
from pyrbacproxy.config.complete import Problems, complete
from pyrbacproxy.config.flag_parsing import parse
from pyrbacproxy.config.settings import Address, Settings
from pyrbacproxy.http2.limits import Http2Limits
from pyrbacproxy.kube.kubeconfig import KubeSettings
from pyrbacproxy.proxy.connector import UpstreamSettings
from pyrbacproxy.proxy.exchange import Limits
from pyrbacproxy.startup.gate import GateSettings
from pyrbacproxy.tls.server_context import TlsSettings

USUAL = ("--secure-listen-address=:8443", "--upstream=http://127.0.0.1:9537")
RULE = "authorization: {static: [{path: /metrics, user: {name: alice}}]}"
QUERY_REWRITE = (
    "authorization: {rewrites: {byQueryParameter: {name: n}}, resourceAttributes: {resource: x}}"
)


class Folder:
    """Files of a start: a serving pair, an authority, a kubeconfig, an authorization file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        authority = trustme.CA()
        authority.cert_pem.write_to_path(path / "ca.crt")
        server = authority.issue_cert("proxy.test")
        server.private_key_and_cert_chain_pem.write_to_path(path / "pair.pem")
        cluster = {
            "server": "https://127.0.0.1:6443",
            "certificate-authority-data": base64.b64encode(authority.cert_pem.bytes()).decode(),
        }
        self.write(
            "kubeconfig",
            yaml.safe_dump(
                {
                    "current-context": "here",
                    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": "x"}}],
                }
            ),
        )
        self.kubeconfig = f"--kubeconfig={path}/kubeconfig"
        self.client_ca = f"--client-ca-file={path}/ca.crt"
        self.serving = (
            f"--tls-cert-file={path}/pair.pem",
            f"--tls-private-key-file={path}/pair.pem",
        )

    def write(self, name: str, text: str) -> Path:
        (self.path / name).write_text(text)
        return self.path / name

    def config(self, text: str) -> str:
        return f"--config-file={self.write('config', text)}"


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def completed(*words: str, environ: dict[str, str] | None = None) -> Settings | Problems:
    parsed = parse(words)
    assert parsed.problems == ()
    return complete(parsed.options, environ or {})


def settings(*words: str, environ: dict[str, str] | None = None) -> Settings:
    result = completed(*words, environ=environ)
    assert isinstance(result, Settings), result
    return result


def problems(*words: str, environ: dict[str, str] | None = None) -> tuple[str, ...]:
    result = completed(*words, environ=environ)
    assert isinstance(result, Problems)
    return result.lines


def test_the_whole(folder: Folder) -> None:
    found = settings(
        *USUAL,
        *folder.serving,
        folder.kubeconfig,
        folder.client_ca,
        folder.config(RULE),
        "--auth-token-audiences=a,b",
        "--allow-paths=/metrics,/api/*",
        "--proxy-endpoints-port=8643",
    )
    assert ("proxy-endpoints-port", "8643") in found.pages.flags
    pair = str(folder.path / "pair.pem")
    assert found == Settings(
        secure=Address("", 8443, ":8443", "--secure-listen-address=:8443"),
        insecure=None,
        endpoints=Address("", 8643, ":8643", "--proxy-endpoints-port=8643"),
        tls=TlsSettings(
            pair, pair, alpn=(b"http/1.1", b"h2"), client_ca_file=str(folder.path / "ca.crt")
        ),
        upstream=UpstreamSettings("http", "127.0.0.1", 9537),
        access=AccessSettings(allow_paths=("/metrics", "/api/*")),
        attributes=AttributeSettings(),
        static_rules=(StaticRule(user_name="alice", path="/metrics"),),
        audiences=("a", "b"),
        oidc=None,
        kube=KubeSettings(kubeconfig=str(folder.path / "kubeconfig")),
        limits=Limits(),
        http2=Http2Limits(),
        gate=GateSettings(),
        pages=found.pages,  # in full: test_pages.py
        access_log="",
        warnings=(),
    )


def test_fr69_the_arguments_of_the_crio_sidecar_start(folder: Folder) -> None:
    """As the machine config operator writes them (reference 11.1), dead flag included."""
    found = settings(
        "--secure-listen-address=:9637",
        folder.config(RULE),
        folder.client_ca,
        "--logtostderr=true",
        folder.kubeconfig,
        "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,"
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "--tls-min-version=VersionTLS12",
        "--upstream=http://127.0.0.1:9537",
        *folder.serving,
    )
    assert found.warnings == ("--logtostderr is accepted and has no effect",)


@pytest.mark.parametrize(
    "words",
    [
        ("--add-dir-header",),
        ("--add_dir_header",),
        ("--logtostderr",),
        ("--log-file=/x", "--log-dir=/y"),
        ("--log-flush-frequency=1s",),
    ],
)
def test_fr69_flags_without_effect_are_said_once_each(
    folder: Folder, words: tuple[str, ...]
) -> None:
    found = settings(*USUAL, *folder.serving, folder.kubeconfig, *words)
    assert len(found.warnings) == len(words)
    for warning, word in zip(sorted(found.warnings), sorted(words), strict=True):
        assert warning.startswith(word.partition("=")[0].replace("_", "-"))


def test_fr69_problems_of_every_part_are_told_at_once(folder: Folder) -> None:
    found = problems(
        "--secure-listen-address=8443",
        "--insecure-listen-address=a:b:c",
        "--upstream=http://[",
        "--tls-min-version=TLS1.2",
        "--tls-cipher-suites=X",
        "--tls-cert-file=/none",
        "--client-ca-file=/none",
        "--allow-paths=/[,/b",
        "--ignore-paths=[]a]",
        "--kubeconfig=/none",
        "--kube-api-qps=1",
        "--idle-timeout=0",
        "--max-connections=0",
        "--max-header-bytes=-1",
        "--shutdown-grace-period=-1s",
        "--token-cache-ttl=-1s",
        "--authorized-ttl=-1s",
        "--unauthorized-ttl=-1s",
        "--proxy-endpoints-port=-1",
        "--auth-header-fields-enabled",
        "--auth-header-user-field-name=a b",
        folder.config("authorization: {static: [{verbs: get}]}"),
        environ={"HTTP_PROXY": "ftp://x"},
    )
    for flag in (
        *("--secure-listen-address", "--insecure-listen-address", "--upstream"),
        *("--tls-min-version", "--tls-cipher-suites", "--tls-cert-file", "--client-ca-file"),
        *("--allow-paths", "--ignore-paths", "--kubeconfig", "--kube-api-burst"),
        *("--idle-timeout", "--max-connections", "--max-header-bytes", "--shutdown-grace-period"),
        *("--token-cache-ttl", "--authorized-ttl", "--unauthorized-ttl"),
        *("--proxy-endpoints-port", "--auth-header-user-field-name", "--config-file", "HTTP_PROXY"),
    ):
        assert any(flag in problem for problem in found), flag


def test_warnings_are_there_even_when_the_start_ends() -> None:
    result = completed("--logtostderr")
    assert isinstance(result, Problems)
    assert result.warnings[0] == "--logtostderr is accepted and has no effect"


# --- paths, identity --------------------------------------------------------------------


def test_fr69_allowed_and_ignored_paths_exclude_each_other(folder: Folder) -> None:
    found = problems(*USUAL, folder.kubeconfig, "--allow-paths=/a", "--ignore-paths=/b")
    assert found == ("--allow-paths and --ignore-paths exclude each other",)


def test_each_bad_pattern_is_named(folder: Folder) -> None:
    found = problems(*USUAL, folder.kubeconfig, "--ignore-paths=/ok,[,a[")
    assert [problem.partition(" at ")[0] for problem in found] == [
        "--ignore-paths: bad pattern '[': a class that does not end",
        "--ignore-paths: bad pattern 'a[': a class that does not end",
    ]


def test_access_flags(folder: Folder) -> None:
    access = settings(
        *USUAL,
        folder.kubeconfig,
        folder.config(QUERY_REWRITE),
        "--ignore-paths=/a",
        "--ignore-paths-keep-bearer",
        "--reject-form-bodies",
        "--auth-header-fields-enabled",
        "--auth-header-user-field-name=X-User",
        "--auth-header-groups-field-name=X-Groups",
        "--auth-header-groups-field-separator=,",
    ).access
    assert access == AccessSettings(
        ignore_paths=("/a",),
        identity=IdentitySettings(
            is_enabled=True, user_header="X-User", groups_header="X-Groups", groups_separator=","
        ),
        keeps_bearer_on_ignored_paths=True,
        rejects_form_bodies=True,
    )


@pytest.mark.parametrize(
    "text",
    [
        "authorization: {}",
        "authorization: {rewrites: {byHttpHeader: {name: n}}, resourceAttributes: {name: x}}",
        "authorization: {rewrites: {byQueryParameter: {name: n}}}",
    ],
)
def test_dec_d7_form_bodies_are_refused_only_with_a_query_rewrite(
    folder: Folder, text: str
) -> None:
    found = settings(*USUAL, folder.kubeconfig, folder.config(text), "--reject-form-bodies")
    assert not found.access.rejects_form_bodies
    assert "--reject-form-bodies has no effect without a query rewrite" in found.warnings


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("user-field-name", ""),
        ("user-field-name", "a:"),
        ("groups-field-name", "x\u00e9"),
        ("user-field-name", "Content-Length"),
        ("user-field-name", "transfer_encoding"),
        ("user-field-name", "Connection"),
        ("groups-field-name", "HOST"),
        ("groups-field-name", "Authorization"),
        ("groups-field-separator", ""),
        ("groups-field-separator", "\r\n"),
    ],
)
def test_identity_headers_that_cannot_be_sent(folder: Folder, flag: str, value: str) -> None:
    words = (*USUAL, folder.kubeconfig, f"--auth-header-{flag}={value}")
    assert not settings(*words).access.identity.is_enabled
    (problem,) = problems(*words, "--auth-header-fields-enabled")
    assert problem.startswith(f"--auth-header-{flag}: ")


@pytest.mark.parametrize("name", ["X-Remote-Groups", "x_remote-groups"])
def test_a_user_and_a_group_need_headers_of_their_own(folder: Folder, name: str) -> None:
    words = (*USUAL, folder.kubeconfig, f"--auth-header-user-field-name={name}")
    assert not settings(*words).access.identity.is_enabled
    (problem,) = problems(*words, "--auth-header-fields-enabled")
    assert "--auth-header-user-field-name and --auth-header-groups-field-name" in problem
    assert name in problem


# --- authorization file ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "why"),
    [("/nowhere/x.yaml", "No such file or directory"), ("/", "Is a directory")],
)
def test_an_unreadable_authorization_file(folder: Folder, path: str, why: str) -> None:
    assert problems(*USUAL, folder.kubeconfig, f"--config-file={path}") == (
        f"--config-file {path}: cannot be read: {why}",
    )


def test_a_path_that_no_file_can_have(folder: Folder) -> None:
    (problem,) = problems(*USUAL, folder.kubeconfig, "--config-file=a\x00b")
    assert "cannot be read" in problem


def test_dec_d2_strict_config_is_handed_on(folder: Folder) -> None:
    words = (*USUAL, folder.kubeconfig, folder.config("authorization: {}\nextra: 1\n"))
    assert "extra" in settings(*words).warnings[-1]
    assert "extra" in problems(*words, "--strict-config")[0]


# --- API server ---------------------------------------------------------------------------


def test_without_kubeconfig_outside_a_cluster_the_start_ends() -> None:
    (problem,) = problems(*USUAL)
    assert "--kubeconfig" in problem


def test_dec_d20_certificates_and_static_rules_need_no_api_server(folder: Folder) -> None:
    found = settings(*USUAL, *folder.serving, folder.client_ca, folder.config(RULE))
    assert found.kube is None
    assert "kubeconfig" in found.warnings[0]


def test_dec_d20_unless_something_else_needs_it(folder: Folder) -> None:
    rule = folder.config(RULE)
    assert "--kubeconfig" in problems(*USUAL, rule)[0]
    assert "--kubeconfig" in problems(*USUAL, folder.client_ca)[0]
    assert "--kubeconfig" in problems(*USUAL, folder.client_ca, rule, "--auth-token-audiences=a")[0]


def test_dec_d20_an_issuer_is_no_reason_to_do_without(folder: Folder) -> None:
    words = ("--oidc-issuer=https://i.test", "--oidc-clientID=c")
    found = problems(*USUAL, *words, folder.client_ca, folder.config(RULE))
    assert len(found) == 1
    assert "no API server" in found[0]
    assert found[0].endswith("only a client CA and static rules can do without")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("authorization: [", "not YAML"),
        ("authorization: {statics: []}", "unknown key"),
        ("authorization: {static: [{path: /x, verbs: get}]}", "unknown key"),
    ],
)
def test_fr98_a_bad_file_is_not_blamed_for_the_rules_that_it_lacks(
    folder: Folder, text: str | None, said: str
) -> None:
    """With its rules the API server may not be needed (D20), and a query may be rewritten."""
    config = "--config-file=/none" if text is None else folder.config(text)
    words = (*USUAL, *folder.serving, folder.client_ca, config, "--reject-form-bodies")
    found = completed(*words)
    assert isinstance(found, Problems)
    (problem,) = found.lines
    assert said in problem
    assert found.warnings == ()


def test_fr98_without_a_client_ca_the_api_server_is_missing_whatever_the_file_says() -> None:
    found = problems(*USUAL, "--config-file=/none")
    assert [problem.partition(":")[0] for problem in found] == [
        "--config-file /none",
        "no API server",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no listen address provided"),
        (("--wait-for-port",), "no listen address provided"),
        (("--proxy-endpoints-port=1",), "no listen address provided"),
        (("--insecure-listen-address=x",), "--insecure-listen-address=x: "),
        (
            (*USUAL, "--wait-for-serving-cert", "--tls-cert-file=/x"),
            "--tls-cert-file=/x needs --tls-private-key-file",
        ),
        ((*USUAL, "--tls-cert-file=/x"), "--tls-cert-file=/x needs --tls-private-key-file"),
        (
            (*USUAL, "--upstream-client-cert-file=/x"),
            "--upstream-client-cert-file=/x: --upstream-client-key-file must be given as well",
        ),
    ],
)
def test_fr98_one_omission_is_one_message(
    folder: Folder, words: tuple[str, ...], said: str
) -> None:
    (problem,) = problems(USUAL[1], folder.kubeconfig, *words)
    assert said in problem


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (("--allow-paths=/a,/b/*",), ['--allow-paths lacks "/metrics"']),
        (("--allow-paths=/met*",), []),
        (("--ignore-paths=/m*",), ['--ignore-paths serves "/metrics" to everybody']),
        (("--ignore-paths=/other",), []),
        # For the page of this path.
        (("--allow-paths=/a", "--proxy-endpoints-port=9"), []),
        (
            ("--allow-paths=/a", "--proxy-endpoints-port=9", "--zpages-authorization=node"),
            ['--allow-paths lacks "/metrics"'],
        ),
    ],
)
def test_fr96_a_path_that_no_rule_is_asked_about(
    folder: Folder, words: tuple[str, ...], texts: list[str]
) -> None:
    rule = folder.config(RULE)
    node = ("--node-name=n",) * ("--zpages-authorization=node" in words)
    found = settings(*USUAL, *folder.serving, folder.kubeconfig, rule, *words, *node)
    place = f"--config-file {folder.path}/config: authorization.static[0]: never matches: "
    assert found.warnings == tuple(place + text for text in texts)


def test_an_issuer_puts_client_certificates_out_of_use(folder: Folder) -> None:
    words = ("--oidc-issuer=https://i.test", "--oidc-clientID=c")
    found = settings(*USUAL, *words, folder.kubeconfig, folder.client_ca, *folder.serving)
    assert found.tls.client_ca_file == ""
    assert found.warnings == ("--client-ca-file has no effect with --oidc-issuer",)
    assert found.oidc is not None
    assert found.oidc.issuer == "https://i.test"


def test_dec_d20_a_broken_credential_always_ends_the_start(folder: Folder) -> None:
    words = (*USUAL, folder.client_ca, folder.config(RULE))
    (problem,) = problems(*words, "--kubeconfig=/none")
    assert problem.startswith("--kubeconfig: ")
    assert "/none" in problem
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    found = problems(*words, environ=inside)
    assert all(problem.startswith("in-cluster configuration: ") for problem in found)


def test_in_a_cluster_the_variables_name_the_server(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pyrbacproxy.config.complete.kubeconfig.in_cluster_problems", lambda _server, _folder: []
    )
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert settings(*USUAL, environ=inside).kube == KubeSettings(server="https://10.0.0.1:443")
    kube = settings(*USUAL, folder.kubeconfig, environ=inside).kube
    assert kube is not None
    assert (kube.server, kube.kubeconfig) == ("", str(folder.path / "kubeconfig"))


@pytest.mark.parametrize(
    ("words", "rate"),
    [
        ((), (50.0, 100, False)),
        (("--kube-api-qps=5", "--kube-api-burst=7"), (5.0, 7, True)),
        (("--kube-api-qps=-1", "--kube-api-burst=-1"), (50.0, 100, False)),
        (("--kube-api-burst=7",), (50.0, 7, False)),
    ],
)
def test_dec_d14_rates(
    folder: Folder, words: tuple[str, ...], rate: tuple[float, int, bool]
) -> None:
    kube = settings(*USUAL, folder.kubeconfig, *words).kube
    assert kube is not None
    assert (kube.qps, kube.burst, kube.is_rate_shared) == rate


@pytest.mark.parametrize(("words", "seconds"), [((), 0.0), (("15m",), 900.0), (("1h",), 3600.0)])
def test_dec_d15_how_long_a_review_may_be_stale(
    folder: Folder, words: tuple[str, ...], seconds: float
) -> None:
    given = [f"--stale-review-period={word}" for word in words]
    kube = settings(*USUAL, folder.kubeconfig, *given).kube
    assert kube is not None
    assert kube.stale_seconds == seconds


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("61m", "--stale-review-period=1h1m0s: must be at most 1h"),
        ("-1s", "--stale-review-period=-1s: must not be negative"),
    ],
)
def test_dec_d15_is_bounded(folder: Folder, value: str, problem: str) -> None:
    found = problems(*USUAL, folder.kubeconfig, f"--stale-review-period={value}")
    assert found == (problem,)


@pytest.mark.parametrize(
    ("word", "choices"),
    [("--logging-format=xml", "text, json"), ("--zpages-authorization=", "component, node")],
)
def test_a_value_must_be_among_the_choices(folder: Folder, word: str, choices: str) -> None:
    found = problems(*USUAL, folder.kubeconfig, word)
    assert found == (f"{word}: must be one of {choices}",)


def test_a_rate_needs_a_burst(folder: Folder) -> None:
    found = problems(*USUAL, folder.kubeconfig, "--kube-api-qps=5")
    assert found == ("--kube-api-burst=0: must be positive when --kube-api-qps is",)


def test_cache_times_and_limits_have_their_flags(folder: Folder) -> None:
    found = settings(
        *USUAL,
        folder.kubeconfig,
        *("--token-cache-ttl=1s", "--authorized-ttl=2s", "--unauthorized-ttl=0"),
        *("--tls-handshake-timeout=4s", "--read-header-timeout=5s", "--idle-timeout=6s"),
        *("--write-stall-timeout=7s", "--shutdown-grace-period=0", "--max-header-bytes=8"),
        "--max-connections=9",
    )
    assert found.kube is not None
    assert found.kube.token_seconds == 1.0
    assert found.kube.authorized_seconds == 2.0
    assert found.kube.unauthorized_seconds == 0.0
    assert found.limits == Limits(
        handshake_seconds=4.0,
        read_header_seconds=5.0,
        idle_seconds=6.0,
        write_stall_seconds=7.0,
        shutdown_grace_seconds=0.0,
        max_header_bytes=8,
        max_connections=9,
    )


def test_dec_d34_the_environments_proxies_are_handed_on(folder: Folder) -> None:
    words = ("--secure-listen-address=:1", "--upstream=http://far.test", folder.kubeconfig)
    environ = {"HTTP_PROXY": "http://me:hunter2@proxy.test:3128"}
    found = settings(*words, environ=environ)
    assert found.upstream.proxy is not None
    assert found.kube is not None
    assert found.kube.proxies.http == found.upstream.proxy
    assert "hunter2" not in repr(found)
    assert found.upstream.proxy.authorization not in repr(found)
