from pathlib import Path

import pytest

from pyrbacproxy.config.complete import complete
from pyrbacproxy.config.flag_parsing import parse
from pyrbacproxy.config.settings import Address, Settings
from pyrbacproxy.demo.pki import Authority


def test_the_whole_has_no_defaults_of_its_own() -> None:
    """A part that `complete` forgot must not be filled in silently."""
    optional = [name for name in Settings.__match_args__ if hasattr(Settings, name)]
    assert optional == ["warnings"]


def test_an_address_keeps_what_the_operator_wrote() -> None:
    assert Address("::1", 80, "[::1]:http").text == "[::1]:http"


@pytest.mark.parametrize(
    ("flags", "needed"),
    [
        pytest.param(("--kubeconfig={folder}/kube",), True, id="tokens only"),
        pytest.param(
            ("--kubeconfig={folder}/kube", "--client-ca-file={folder}/demo-ca.crt"),
            True,
            id="certificates without rules",
        ),
        pytest.param(
            (
                "--kubeconfig={folder}/kube",
                "--client-ca-file={folder}/demo-ca.crt",
                "--config-file={folder}/rules",
            ),
            False,
            id="certificates and rules",
        ),
        pytest.param(
            ("--kubeconfig={folder}/kube", "--oidc-issuer=https://i", "--oidc-clientID=c"),
            True,
            id="an issuer without rules",
        ),
        pytest.param(
            (
                "--kubeconfig={folder}/kube",
                "--oidc-issuer=https://i",
                "--oidc-clientID=c",
                "--config-file={folder}/rules",
            ),
            False,
            id="an issuer and rules",
        ),
        pytest.param(
            ("--client-ca-file={folder}/demo-ca.crt", "--config-file={folder}/rules"),
            False,
            id="no API server",
        ),
    ],
)
def test_reviews_are_certain_unless_certificates_and_rules_may_do(
    flags: tuple[str, ...], *, needed: bool, tmp_path: Path
) -> None:
    Authority(tmp_path)
    (tmp_path / "rules").write_text("authorization: {static: [{path: /metrics}]}\n")
    (tmp_path / "kube").write_text(
        '{"current-context": "c", "clusters": [{"name": "c", "cluster": {"server": "http://h"}}],'
        ' "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}]}'
    )
    given = [flag.format(folder=tmp_path) for flag in flags]
    parsed = parse(["--secure-listen-address=127.0.0.1:0", "--upstream=http://h", *given])
    settings = complete(parsed.options, {})
    assert isinstance(settings, Settings), settings
    assert settings.needs_reviews is needed
