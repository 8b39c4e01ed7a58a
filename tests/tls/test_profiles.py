import pytest

from pyrbacproxy.tls.names import Profile, Rendered, cipher_list, minimum_version, rendered
from tests.tls.test_names import INTERMEDIATE, OLD, TLS13

OLD_DROPPED = ("ECDHE-ECDSA-AES256-SHA384", "ECDHE-RSA-AES256-SHA384", "AES256-SHA256")
DEFAULT = Rendered("VersionTLS12", INTERMEDIATE, ())


@pytest.mark.parametrize(
    ("name", "custom", "expected"),
    [
        ("Old", None, Rendered("VersionTLS10", OLD, OLD_DROPPED)),
        ("Intermediate", None, DEFAULT),
        ("Modern", None, Rendered("VersionTLS13", TLS13, ())),
        ("", None, DEFAULT),
        ("Custom", None, DEFAULT),
        ("Modern", Profile("VersionTLS10", ()), Rendered("VersionTLS13", TLS13, ())),
        ("Custom", Profile("VersionTLS11", ()), Rendered("VersionTLS11", (), ())),
        (
            "Custom",
            Profile("VersionTLS12", ("ECDHE-RSA-DES-CBC3-SHA", "DHE-RSA-AES128-GCM-SHA256")),
            Rendered(
                "VersionTLS12",
                ("TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",),
                ("DHE-RSA-AES128-GCM-SHA256",),
            ),
        ),
    ],
)
def test_a_profile_is_rendered_as_operators_do(
    name: str, custom: Profile | None, expected: Rendered
) -> None:
    assert rendered(name, custom) == expected


@pytest.mark.parametrize("name", ["Old", "Intermediate", "Modern"])
def test_the_flags_take_what_is_rendered(name: str) -> None:
    profile = rendered(name)
    minimum_version(profile.minimum)
    cipher_list(profile.suites)
