"""argv → one of the commands; exit codes; prints all problems of the configuration.

Without a command the flags start the proxy. Exit 0 after a signal, `--help` and `--version`, 1 for
what the operator can mend, 2 for a fault of ours, whose traceback is written without secrets.
"""

import gc
import logging
import os
import sys
from pathlib import Path

from pyrbacproxy.config.flag_parsing import (
    VERSION,
    Options,
    VersionAnswer,
    answer,
    help_text,
    parse,
    value_lines,
)
from pyrbacproxy.config.flags import quoted
from pyrbacproxy.observe import logs
from pyrbacproxy.observe.logs import masked
from pyrbacproxy.signals import Signals

PROGRAM = "pyrbacproxy"
_LOG = logging.getLogger(__name__)
_FAILED = 1
_BROKEN = 2


def main(argv: list[str] | None = None, signals: Signals | None = None) -> int:
    """Runs the command that the words name; returns the exit status.

    `signals` are those that the process catches already; without them serving alone catches any.
    """
    words = sys.argv[1:] if argv is None else argv
    _open_closed_streams()
    logs.set_up()
    try:
        command = _COMMANDS.get(words[0]) if words else None
        if command is None:
            return _serve(words, signals or Signals())
        gc.enable()
        return command(words[1:])
    except Exception:  # noqa: BLE001  the outermost edge: whatever comes here is our fault
        _LOG.exception(logs.structured("internal error"))
        return _BROKEN


def _open_closed_streams() -> None:
    """As Go's programs do: whatever is opened first would have their numbers, would be written to
    in their stead, and libuv aborts the process that closes such a one.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - the process's own


def _demo(words: list[str]) -> int:
    # Each command is imported when it is due: its parts would only cost memory in a proxy.
    from pyrbacproxy.commands import demo  # noqa: PLC0415

    return demo.run(words)


def _kubelet_config(words: list[str]) -> int:
    from pyrbacproxy.commands import kubelet_config  # noqa: PLC0415

    return kubelet_config.run(words)


def _audit(words: list[str]) -> int:
    from pyrbacproxy.commands import audit  # noqa: PLC0415

    return audit.run(words)


_COMMANDS = {"audit": _audit, "demo": _demo, "kubelet-config": _kubelet_config}


def _serve(words: list[str], signals: Signals) -> int:
    parsed = parse(words)
    options = parsed.options
    if options.is_on("help") and not parsed.problems:
        sys.stdout.write(help_text())
        return 0
    meant = _command_meant(words, options.arguments)
    if meant:
        sys.stderr.write(masked(f"Error: {meant}\n"))
        return _FAILED
    problems = [*parsed.problems, *_argument_problems(options)]
    version = _version(options, problems)
    if version.printed and not problems:
        sys.stdout.write(version.printed + "\n")
        return 0
    is_json = options.text("logging-format") == "json"
    logs.set_up(options.integer("v"), options.pairs("vmodule"), is_json=is_json)
    if _LOG.isEnabledFor(logs.level_of(1)):
        _log_values(options, version)
    for problem in problems:
        sys.stderr.write(masked(f"Error: {problem}\n"))
    return _complete_and_serve(options, signals, is_refused=bool(problems))


def _complete_and_serve(options: Options, signals: Signals, *, is_refused: bool) -> int:
    # Late, so that --help is quick.
    from pyrbacproxy.config.complete import Problems, complete  # noqa: PLC0415

    settings = complete(options, os.environ)
    for warning in settings.warnings:
        _LOG.warning("%s", warning)
    if isinstance(settings, Problems):
        for problem in settings.lines:
            _LOG.error("%s", logs.structured("command failed", err=problem))
        return _FAILED
    if is_refused:
        return _FAILED
    from pyrbacproxy.serve import serve  # noqa: PLC0415

    return serve(settings, signals)


def _argument_problems(options: Options) -> list[str]:
    """Words that are no flags are refused, empty ones excepted (reference 1.1)."""
    if not any(options.arguments):
        return []
    return [_arguments_text(options.arguments)]


def _arguments_text(arguments: tuple[str, ...]) -> str:
    shown = " ".join(quoted(argument) for argument in arguments)
    return f"{quoted(PROGRAM)} does not take any arguments, got [{shown}]"


def _command_meant(words: list[str], arguments: tuple[str, ...]) -> str:
    """What to say of a misspelt command, or of one behind flags; "" when none was meant. The flags
    are the command's then, so there is nothing else to say.
    """
    if not any(arguments):
        return ""
    # Late: few starts need it.
    import difflib  # noqa: PLC0415

    word = next(filter(None, arguments))
    near = difflib.get_close_matches(word.casefold(), _COMMANDS, 1)
    if not near:
        return ""
    if words[0] == word:
        return f'unknown command {quoted(word)}, did you mean "{near[0]}"?'
    return f"{_arguments_text(arguments)}; a command comes first: {PROGRAM} {near[0]} [flags]"


def _version(options: Options, problems: list[str]) -> VersionAnswer:
    text, built = options.text("version"), f"v{VERSION}"
    # uvloop runs on no other; `platform`, which has words for all, costs 0.1 MiB.
    details = f"(CPython {sys.version.split()[0]})"
    try:
        return answer(text, program=PROGRAM, built=built, details=details)
    except ValueError as error:
        problems.append(f'invalid argument {quoted(text)} for "--version" flag: {error}')
        return VersionAnswer("", built)


def _log_values(options: Options, version: VersionAnswer) -> None:
    _LOG.log(logs.level_of(1), "%s %s", PROGRAM, version.reported)
    for line in value_lines(options):
        _LOG.log(logs.level_of(1), "%s", line)
