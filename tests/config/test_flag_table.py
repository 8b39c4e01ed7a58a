"""The table against the reference's (section 1.2), and against the code that reads it."""

import re
from pathlib import Path

import pytest
import yaml

from pyrbacproxy.config.flags import FLAGS, GROUPS, Fate, Kind

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pyrbacproxy"

# name, type, default: the flags of the original.
ORIGINAL = """
insecure-listen-address string
secure-listen-address string
upstream string
upstream-force-h2c bool false
upstream-ca-file string
upstream-client-cert-file string
upstream-client-key-file string
config-file string
allow-paths strings
ignore-paths strings
proxy-endpoints-port int 0
tls-cert-file string
tls-private-key-file string
tls-min-version string VersionTLS12
tls-cipher-suites strings
tls-reload-interval duration 1m0s
client-ca-file string
auth-header-fields-enabled bool false
auth-header-user-field-name string x-remote-user
auth-header-groups-field-name string x-remote-groups
auth-header-groups-field-separator string |
auth-token-audiences strings
oidc-issuer string
oidc-clientID string
oidc-groups-claim string groups
oidc-username-claim string email
oidc-username-prefix string
oidc-groups-prefix string
oidc-sign-alg stringArray RS256
oidc-ca-file string
kubeconfig string
kube-api-qps float32 0
kube-api-burst int 0
http2-disable bool false
http2-max-concurrent-streams uint32 100
http2-max-size uint32 262144
"""
DEAD = {
    *("logtostderr", "add-dir-header", "alsologtostderr", "one-output", "skip-headers"),
    *("skip-log-headers", "log-backtrace-at", "log-dir", "log-file", "stderrthreshold"),
    "log-file-max-size",
}


@pytest.mark.parametrize("line", ORIGINAL.strip().splitlines(), ids=lambda line: line.split()[0])
def test_the_originals_flags_have_their_types_and_defaults(line: str) -> None:
    name, kind, *default = line.split()
    flag = FLAGS[name]
    assert (flag.kind.value, flag.default) == (kind, "".join(default))


def test_the_dead_flags_are_those_of_klog() -> None:
    dead = {flag.name for flag in FLAGS.values() if flag.fate is Fate.DEAD}
    assert dead == DEAD
    assert all(FLAGS[name].is_hidden for name in dead)


def test_the_migration_page_calls_ours_what_the_original_lacks() -> None:
    originals = {line.split()[0] for line in ORIGINAL.strip().splitlines()}
    originals |= DEAD | {"v", "vmodule", "log-flush-frequency", "help", "version"}
    lines = yaml.safe_load((SOURCE.parents[1] / "packaging" / "migration.yaml").read_text())[
        "flags"
    ]
    ours = {name for name, line in lines.items() if line.partition(":")[0] == "ours"}
    assert ours == FLAGS.keys() - originals


def test_no_name_stands_twice() -> None:
    assert len(FLAGS) == sum(len(group.flags) for group in GROUPS)
    shorthands = [flag.shorthand for flag in FLAGS.values() if flag.shorthand]
    assert sorted(shorthands) == ["h", "v"]


def test_every_default_is_good_in_its_own_grammar_and_among_its_choices() -> None:
    for flag in FLAGS.values():
        assert flag.default_value is not None
        assert not flag.choices or flag.default in flag.choices


def test_every_flag_says_what_it_is_on_one_line() -> None:
    for flag in FLAGS.values():
        assert re.fullmatch(r"[A-Z][^\n|]*[.]", flag.what), flag.name
        assert re.fullmatch(r"[a-zI-]+2?[a-zD0-9-]*", flag.name), flag.name


def test_every_working_flag_is_read_by_the_code() -> None:
    """A flag that nobody looks at would be ignored in silence."""
    code = "".join(
        path.read_text() for path in SOURCE.rglob("*.py") if path.name != "flag_table.py"
    )
    unread = [
        flag.name
        for flag in FLAGS.values()
        if flag.fate is Fate.WORKS and f'"{flag.name}"' not in code
    ]
    assert unread == []


def test_lists_that_can_be_cleared_are_marked() -> None:
    assert [flag.name for flag in FLAGS.values() if flag.kind is Kind.PATHS] == ["wait-for-absent"]
