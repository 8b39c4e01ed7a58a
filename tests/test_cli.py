"""Commands, exit codes, and what goes to which stream."""

import gc
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from pkgutil import iter_modules

import pytest

from pyrbacproxy import cli, commands
from pyrbacproxy.config.settings import Settings
from pyrbacproxy.observe import logs
from pyrbacproxy.signals import Signals

VERSION = f"v{metadata.version('pyrbacproxy')}"
KUBECONFIG = """
current-context: here
contexts: [{name: here, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
"""
Output = pytest.CaptureFixture[str]


@pytest.fixture(name="undisturbed", autouse=True)
def fixture_undisturbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No cluster around, and logging left as it was."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    loggers = [logging.getLogger(name) for name in ("", logs.PACKAGE)]
    before = [(logger.handlers[:], logger.level) for logger in loggers]
    raises = logging.raiseExceptions
    yield
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.level = handlers, level
    logging.raiseExceptions = raises


@pytest.fixture(name="serving")
def fixture_serving(tmp_path: Path) -> list[str]:
    """Flags that are good."""
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return [
        "--secure-listen-address=127.0.0.1:1",
        "--upstream=http://127.0.0.1:1",
        f"--kubeconfig={path}",
    ]


def serve_by(monkeypatch: pytest.MonkeyPatch, serve: Callable[[Settings, Signals], int]) -> None:
    monkeypatch.setattr("pyrbacproxy.serve.serve", serve)


def test_help_names_every_command(capsys: Output) -> None:
    modules = {name.name for name in iter_modules(commands.__path__)}
    names = {
        name.replace("_", "-")
        for name in modules
        if hasattr(import_module(f"{commands.__name__}.{name}"), "run")
    }
    assert "kubelet-config" in names
    assert cli.main(["--help"]) == 0
    told = re.findall(r"^  pyrbacproxy ([a-z-]+) \[flags\] ", capsys.readouterr().out, re.MULTILINE)
    assert sorted(told) == sorted(names)


def test_flags_alone_serve(monkeypatch: pytest.MonkeyPatch, serving: list[str]) -> None:
    served: list[Settings] = []

    def serve(settings: Settings, _signals: Signals) -> int:
        served.append(settings)
        return 7

    serve_by(monkeypatch, serve)
    assert cli.main(serving) == 7
    assert served[0].secure is not None
    assert served[0].secure.text == "127.0.0.1:1"


def test_warnings_are_logged_before_serving(
    monkeypatch: pytest.MonkeyPatch, serving: list[str], capsys: Output
) -> None:
    serve_by(monkeypatch, lambda *_: 0)
    assert cli.main([*serving, "--logtostderr=true", ""]) == 0
    warning = "] --logtostderr is accepted and has no effect\n"
    assert capsys.readouterr().err.count(warning) == 1


def test_level_1_tells_version_and_flags(
    monkeypatch: pytest.MonkeyPatch, serving: list[str], capsys: Output
) -> None:
    serve_by(monkeypatch, lambda *_: 0)
    assert cli.main([*serving, "-v1", f"--version={VERSION}-node"]) == 0
    told = capsys.readouterr().err
    assert f"] pyrbacproxy {VERSION}-node\n" in told
    assert '] FLAG: --upstream="http://127.0.0.1:1"\n' in told
    cli.main(serving)
    assert "FLAG" not in capsys.readouterr().err


def test_every_problem_is_told_and_the_status_is_1(capsys: Output) -> None:
    words = ["--nosuch", "--tls-reload-interval=90", "surplus", "--kubeconfig=/none", "-v=x"]
    assert cli.main(words) == 1
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert lines[0] == "Error: unknown flag: --nosuch"
    assert lines[1].startswith('Error: invalid argument "90" for "--tls-reload-interval" flag')
    assert lines[3] == 'Error: "pyrbacproxy" does not take any arguments, got ["surplus"]'
    assert sum('] "command failed" err="' in line for line in lines) == 1
    assert any("/none" in line for line in lines)


def test_wrong_words_end_the_start_even_when_all_else_is_good(
    monkeypatch: pytest.MonkeyPatch, serving: list[str], capsys: Output
) -> None:
    serve_by(monkeypatch, lambda *_: 0)
    assert cli.main([*serving, "--logtostderr", "true"]) == 1
    assert 'does not take any arguments, got ["true"]' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(
            ["audti", "--output=json"],
            'Error: unknown command "audti", did you mean "audit"?\n',
            id="typo",
        ),
        pytest.param(
            ["Demo"], 'Error: unknown command "Demo", did you mean "demo"?\n', id="capital"
        ),
        pytest.param(
            ["--v=2", "audit", "--output=json"],
            'got ["audit"]; a command comes first: pyrbacproxy audit [flags]\n',
            id="behind a flag",
        ),
        pytest.param(["surplus"], 'got ["surplus"]\n', id="no command is near"),
    ],
)
def test_fr98_a_word_that_may_be_a_command_is_one_line(
    words: list[str], told: str, capsys: Output
) -> None:
    assert cli.main(words) == 1
    (line,) = capsys.readouterr().err.splitlines(keepends=True)
    assert line.endswith(told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--no-such-flag"], "Error: unknown flag: --no-such-flag"),
        (["-x"], "Error: unknown shorthand flag: 'x' in -x"),
        (["---x"], "Error: bad flag syntax: ---x"),
        (["surplus"], 'Error: "pyrbacproxy" does not take any arguments, got ["surplus"]'),
        (["--", "--upstream=http://a"], "Error: "),
    ],
)
def test_fr98_what_a_wrong_word_may_have_meant_is_not_missing(
    words: list[str], told: str, capsys: Output
) -> None:
    assert cli.main(words) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(told)


@pytest.mark.parametrize("missing", ["secure-listen-address", "upstream", "kubeconfig"])
@pytest.mark.parametrize("spelling", ["--{0}x={1}", "--x-{0}={1}", "-{0}={1}", "--{0}"])
def test_fr98_a_misspelt_flag_is_one_error(
    missing: str, spelling: str, serving: list[str], capsys: Output
) -> None:
    (wrong,) = (word for word in serving if word.startswith(f"--{missing}="))
    words = [word for word in serving if word != wrong]
    assert cli.main([*words, spelling.format(missing, wrong.partition("=")[2])]) == 1
    lines = capsys.readouterr().err.splitlines()
    (error,) = (line for line in lines if line.startswith("Error: ") or "err=" in line)
    assert f"--{missing}" in error


def test_fr98_other_mistakes_are_told_with_it(capsys: Output) -> None:
    words = ["--upstrem=http://a", "--secure-listen-address=:x", "--kubeconfig=/none"]
    assert cli.main(words) == 1
    told = capsys.readouterr().err
    assert "did you mean --upstream?" in told
    assert "--secure-listen-address=:x: unknown port" in told
    assert "/none" in told


def test_an_error_never_shows_a_password(capsys: Output) -> None:
    assert cli.main(["http://me:hunter2@h"]) == 1
    assert "hunter2" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["-h", "surplus"], ["-hv3"]])
def test_help_goes_to_standard_output(words: list[str], capsys: Output) -> None:
    assert cli.main(words) == 0
    told = capsys.readouterr()
    assert "--secure-listen-address" in told.out
    assert told.err == ""


def test_help_beside_an_unknown_flag_is_an_error(capsys: Output) -> None:
    assert cli.main(["--help", "--nosuch"]) == 1
    assert capsys.readouterr().out == ""


def test_version_goes_to_standard_output(capsys: Output) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr() == (f"pyrbacproxy {VERSION}\n", "")
    assert cli.main(["--version=raw"]) == 0
    assert capsys.readouterr().out.startswith(f"pyrbacproxy {VERSION} (CPython 3.")


@pytest.mark.parametrize("value", ["v99.0.0", "latest"])
def test_a_version_that_cannot_be(value: str, capsys: Output) -> None:
    assert cli.main([f"--version={value}"]) == 1
    assert f'Error: invalid argument "{value}" for "--version" flag' in capsys.readouterr().err


@pytest.mark.parametrize("command", ["audit", "demo", "kubelet-config"])
def test_a_command_is_one_only_as_the_first_word(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    module = command.replace("-", "_")
    monkeypatch.setattr(f"pyrbacproxy.commands.{module}.run", len)
    assert cli.main([command, "--port=1", "x"]) == 2
    assert cli.main(["--http2-disable", command]) == 1
    assert f'got ["{command}"]' in capsys.readouterr().err


def test_fr67_a_fault_of_ours_exits_2_with_a_traceback_without_secrets(
    monkeypatch: pytest.MonkeyPatch, serving: list[str], capsys: Output
) -> None:
    def fail(_settings: Settings, _signals: Signals) -> int:
        raise RuntimeError("Authorization: Bearer hunter2")

    serve_by(monkeypatch, fail)
    assert cli.main(serving) == 2
    told = capsys.readouterr().err
    assert '] "internal error"\nTraceback' in told
    assert "RuntimeError: Authorization: Bearer <masked>" in told


def test_serving_does_not_import_the_commands() -> None:
    """Each command's parts would cost memory in every proxy."""
    code = (
        "import sys; from pyrbacproxy import serve, cli; from pyrbacproxy.config import complete; "
        "print([name for name in sys.modules if '.commands' in name or '.demo' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pyrbacproxy.commands" not in done.stdout
    assert "pyrbacproxy.demo" not in done.stdout


@pytest.mark.parametrize("command", ["audit", "demo", "kubelet-config"])
def test_a_command_runs_with_the_garbage_collector(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program starts without it (`__main__`)."""
    monkeypatch.setitem(cli._COMMANDS, command, lambda _: int(gc.isenabled()))
    gc.disable()
    try:
        assert cli.main([command]) == 1
    finally:
        gc.enable()


@pytest.mark.parametrize("command", ["audit", "demo", "kubelet-config"])
def test_a_command_describes_itself_without_docstrings(command: str) -> None:
    told = [
        subprocess.run(
            [sys.executable, *options, "-m", "pyrbacproxy", command, "--help"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for options in ([], ["-OO"])
    ]
    assert told[0] == told[1]
    assert f"\n\n`pyrbacproxy {command}`: the " in told[0].replace("whether a node's", "the")


def test_python_dash_m_runs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyrbacproxy", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"pyrbacproxy {VERSION}\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_nobody_s_sockets(closed: str) -> None:
    """Their numbers belong to /dev/null, as in Go's programs; nothing breaks for want of them."""
    told = "import os, sys; from pyrbacproxy import cli; status = cli.main(['--version'])\n"
    told += "os._exit(status or not all(map(os.path.exists, map('/dev/fd/{}'.format, range(3)))))"
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", told]
    ended = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")
