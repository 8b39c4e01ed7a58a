"""`pyrbacproxy audit`: whether a node's legacy metrics proxy is gone and the sidecar serves."""

import argparse
import json
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import assert_never

from pyrbacproxy.commands.terminal import FAILED, Arguments, printable
from pyrbacproxy.node.audit import audit
from pyrbacproxy.node.facts import Finding, Outcome, Passed, Role, Unseen
from pyrbacproxy.node.scrape import Credential, CredentialError
from pyrbacproxy.node.survey import Scope, survey

# --- audit report ---------------------------------------------------------------------
# What `audit` shows: outcomes → a table for people, JSON for programs.

_WIDTH = 100
_OK, _NOT_SEEN = "ok", "not seen"


def findings(outcomes: Iterable[Outcome]) -> list[Finding]:
    """What is wrong."""
    return [one for one in outcomes if isinstance(one, Finding)]


def lacking(outcomes: Iterable[Outcome]) -> list[str]:
    """The checks that could not be made and that no audit is clean without."""
    unseen = [one for one in outcomes if isinstance(one, Unseen) and one.is_needed]
    return list(dict.fromkeys(one.check for one in unseen))


def as_json(outcomes: list[Outcome]) -> str:
    """One JSON object; a check's status is `ok`, `not seen`, `warning` or `error`."""
    told = {
        "isClean": not findings(outcomes) and not lacking(outcomes),
        "findings": len(findings(outcomes)),
        "notSeen": sum(isinstance(one, Unseen) for one in outcomes),
        "checks": [_members(one) for one in outcomes],
    }
    return json.dumps(told, indent=2) + "\n"


def as_text(outcomes: list[Outcome]) -> str:
    """A line for each outcome, under a finding why it matters and what to do, and the sum."""
    rows = [("CHECK", "STATUS", ""), *((one.check, _status(one), _what(one)) for one in outcomes)]
    check, status = (max(len(row[column]) for row in rows) for column in (0, 1))
    indent = " " * (check + status + 4)
    lines: list[str] = []
    for one, row in zip([None, *outcomes], rows, strict=True):
        start = f"{row[0]:{check}}  {row[1]:{status}}  "
        lines += _wrapped(start, row[2], indent)
        if isinstance(one, Finding):
            lines += _wrapped(f"{indent}why: ", one.why, f"{indent}     ")
            lines += _wrapped(f"{indent}do:  ", one.to_do, f"{indent}     ")
    return "\n".join([*lines, "", _sum(outcomes), ""])


def _members(one: Outcome) -> dict[str, str]:
    members = {"check": one.check, "status": _status(one), "what": _what(one)}
    return {**members, "why": one.why, "toDo": one.to_do} if isinstance(one, Finding) else members


def _status(one: Outcome) -> str:
    if isinstance(one, Passed):
        return _OK
    if isinstance(one, Unseen):
        return _NOT_SEEN
    if isinstance(one, Finding):
        return one.severity.value
    assert_never(one)


def _what(one: Outcome) -> str:
    return one.why if isinstance(one, Unseen) else one.what


def _wrapped(start: str, text: str, indent: str) -> Iterator[str]:
    lines = textwrap.wrap(
        # Names of files and subjects come from the node.
        printable(text),
        width=_WIDTH,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (line.rstrip() for line in lines or [start])


def _sum(outcomes: list[Outcome]) -> str:
    found, unseen = len(findings(outcomes)), sum(isinstance(one, Unseen) for one in outcomes)
    word = "finding" if found == 1 else "findings"
    rest = f"; {unseen} not seen, which says nothing about them" if unseen else ""
    needed = lacking(outcomes)
    unclear = f". The node is not clean before these are seen: {', '.join(needed)}"
    return f"{found or 'no'} {word}{rest}{unclear if needed else ''}"


# --- audit ----------------------------------------------------------------------------
#
# `pyrbacproxy audit`: whether a node's legacy metrics proxy is gone and the sidecar serves.
#
# Run it on the node as root, in a pod with hostPID, hostNetwork and the host's root mounted
# (--host-root), or in the proxy's own container, where it sees less. The API server is not asked.
# What can't be seen is reported as "not seen", never as ok.

# Not the docstring: -OO drops it.
_DESCRIPTION = (
    "`pyrbacproxy audit`: whether a node's legacy metrics proxy is gone and the sidecar serves."
)
_EXIT_CODES = """exit status: 0 when nothing is found, 1 for findings and when a file or a flag is
wrong, 2 when nothing is found, but a check that is needed could not be made: who
holds the port, and with --expect-no-static-pods the kubelet's setting"""
_UNCLEAR = 2
_PORTS = range(1, 65536)


def run(argv: list[str]) -> int:
    """Audit the node and show what came out; 0, 1 or 2, as the help says."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        outcomes = audit(survey(_scope(options), time.time()))
    except CredentialError as error:
        parser.error(str(error))
    sys.stdout.write(as_json(outcomes) if options.output == "json" else as_text(outcomes))
    if findings(outcomes):
        return FAILED
    return _UNCLEAR if lacking(outcomes) else 0


def _parser() -> Arguments:
    parser = Arguments("audit", _DESCRIPTION, _EXIT_CODES)
    parser.add_argument(
        "--role",
        type=_role,
        metavar="{worker,master,arbiter}",
        help="which static pods the node needs; without it, guessed from its manifests",
    )
    parser.add_argument(
        "--host-root",
        type=_folder,
        default="/",
        metavar="DIR",
        help="where the host's root is mounted (default: /)",
    )
    parser.add_argument(
        "--proc", type=_folder, default="/proc", metavar="DIR", help="procfs (default: /proc)"
    )
    parser.add_argument("--port", type=_port, default=9637, help="of the proxy (default: 9637)")
    parser.add_argument(
        "--upstream-port", type=_port, default=9537, metavar="PORT", help="of CRI-O (default: 9537)"
    )
    parser.add_argument(
        "--crictl", default="crictl", metavar="PROGRAM", help="how to ask the container runtime"
    )
    parser.add_argument(
        "--expect-no-static-pods",
        action="store_true",
        help="a staticPodPath that is set on a worker is a finding (STIG rule V-242397)",
    )
    parser.add_argument("--output", choices=("text", "json"), default="text")
    _add_credential(parser.add_argument_group("the scrape"))
    return parser


def _add_credential(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--token-file", metavar="FILE", help="a bearer token to scrape with")
    group.add_argument("--client-certificate", metavar="FILE", help="a client certificate, PEM")
    group.add_argument(
        "--client-key", metavar="FILE", help="its key; default: in the certificate's file"
    )
    group.add_argument(
        "--ca-file",
        metavar="FILE",
        help="who vouches for the proxy; without it a token goes only to a server that shows the "
        "certificate of the node's serving pair",
    )


def _scope(options: argparse.Namespace) -> Scope:
    """Raises CredentialError."""
    return Scope(
        host_root=options.host_root,
        proc=options.proc,
        port=options.port,
        upstream_port=options.upstream_port,
        crictl=options.crictl,
        role=options.role,
        expects_no_static_pods=options.expect_no_static_pods,
        credential=_credential(options),
        ca_file=options.ca_file or "",
    )


def _credential(options: argparse.Namespace) -> Credential | None:
    """The token is read here and shown nowhere. Raises CredentialError."""
    if options.client_key and not options.client_certificate:
        raise CredentialError("--client-key needs --client-certificate")
    if not options.token_file and not options.client_certificate:
        if options.ca_file:
            raise CredentialError("--ca-file needs --token-file or --client-certificate")
        return None
    token = _token(options.token_file) if options.token_file else ""
    return Credential(token, options.client_certificate or "", options.client_key or "")


def _token(file: str) -> str:
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise CredentialError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CredentialError(f"{file}: holds no token") from None
    if not token or not all("!" <= letter <= "~" for letter in token):
        raise CredentialError(f"{file}: holds no token")
    return token


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        roles = ", ".join(role.value for role in Role)
        raise argparse.ArgumentTypeError(f"{text} is none of {roles}") from None


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return path


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) not in _PORTS:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return int(text)
