"""`pyrbacproxy audit` as a user runs it; `tests/e2e/test_audit.py` plants the faults."""

import json
from pathlib import Path

import pytest

from pyrbacproxy.commands import audit
from pyrbacproxy.demo.pki import Authority

Output = pytest.CaptureFixture[str]
SECRET = "t0p.secret.token"


@pytest.fixture(name="words")
def fixture_words(tmp_path: Path) -> list[str]:
    """A place where nothing shows at all."""
    for name in ("root", "proc"):
        (tmp_path / name).mkdir()
    (tmp_path / "token").write_text(f"{SECRET}\n")
    (tmp_path / "words").write_text("more than one")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff")
    return [
        f"--host-root={tmp_path}/root",
        f"--proc={tmp_path}/proc",
        "--crictl=crictl-that-is-nowhere",
        "--port=1",
    ]


def test_where_nothing_shows_nothing_is_well(words: list[str], capsys: Output) -> None:
    assert audit.run([*words, "--output=json"]) == 1
    told = json.loads(capsys.readouterr().out)
    found = {one["check"]: one["status"] for one in told["checks"]}
    # That nobody answers on the port is all there is to see.
    assert found.pop("anonymous") == "error"
    assert set(found.values()) == {"not seen"}


def test_a_role_is_believed(words: list[str], capsys: Output) -> None:
    assert audit.run([*words, "--role=arbiter"]) == 1
    out, err = capsys.readouterr()
    assert "arbiter: named by --role" in out
    assert err == ""


def test_a_token_is_read_and_never_shown(words: list[str], tmp_path: Path, capsys: Output) -> None:
    pair = Authority(tmp_path).client("scraper", "prometheus")
    credential = [
        f"--token-file={tmp_path}/token",
        f"--client-certificate={pair.certificate_file}",
        f"--client-key={pair.key_file}",
        f"--ca-file={pair.certificate_file}",
    ]
    for output in ("--output=text", "--output=json"):
        audit.run([*words, *credential, output])
        told = capsys.readouterr()
        assert "scrape" in told.out
        assert SECRET not in told.out + told.err


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--role=boss", "argument --role: boss is none of worker, master, arbiter"),
        ("--host-root={}/gone", "argument --host-root: {}/gone is no folder"),
        ("--proc={}/token", "argument --proc: {}/token is no folder"),
        ("--port=0", "argument --port: 0 is no port"),
        ("--port=x", "argument --port: x is no port"),
        ("--upstream-port=65536", "argument --upstream-port: 65536 is no port"),
        ("--output=xml", "argument --output: invalid choice: 'xml'"),
        ("--client-key={}/token", "--client-key needs --client-certificate"),
        ("--ca-file={}/token", "--ca-file needs --token-file or --client-certificate"),
        ("--token-file={}/gone", "{}/gone: No such file or directory"),
        ("--token-file={}/empty", "{}/empty: holds no token"),
        ("--token-file={}/words", "{}/words: holds no token"),
        ("--token-file={}/binary", "{}/binary: holds no token"),
        ("--client-certificate={}/token", "{}/token: no certificate with its key"),
        ("extra", "unrecognized arguments: extra"),
    ],
)
def test_what_is_wrong_with_the_command_line(
    words: list[str], tmp_path: Path, capsys: Output, word: str, told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        audit.run([*words, word.format(tmp_path)])
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"\nError: {told.replace('{}', str(tmp_path))}" in err
    assert SECRET not in err
