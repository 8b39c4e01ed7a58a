"""An exec plugin of a kubeconfig: what is wrong with its entry, and one run of it → a credential.

It is the protocol of client.authentication.k8s.io v1 and v1beta1, as client-go speaks it to
programs that nobody sits in front of. The plugin runs in the child that resolves the kubeconfig
(`kube.resolve_kubeconfig`), whose parent ends both when it takes too long. What the plugin writes,
on its stderr too, may be secret: no text of ours quotes it.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pyrbacproxy.kube.kubeconfig_file import DocumentError, Fields, read_document
from pyrbacproxy.kube.tls_context import pair_problem
from pyrbacproxy.values import Frozen, field

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")
_CLUSTER_KEYS = (
    *("server", "tls-server-name", "insecure-skip-tls-verify"),
    *("certificate-authority-data", "proxy-url", "disable-compression"),
)
_MAX_OUTPUT_BYTES = 1 << 20


class PluginError(Exception):
    """The plugin brought no credential; the text is fit for a log."""


class PluginCredential(Frozen):
    """A token, a client certificate with its key (PEM), or both; "" for what there is not.

    `expires_at` is in seconds since the epoch, None when the plugin does not say.
    """

    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = field(default="", repr=False)
    expires_at: float | None = None


def plugin_problems(plugin: object, folder: Path) -> Iterator[str]:
    """What is wrong with the entry; each text names its key. `folder` is the kubeconfig's."""
    if not isinstance(plugin, dict):
        yield "exec: is no mapping"
        return
    command, version = plugin.get("command"), plugin.get("apiVersion")
    if not isinstance(command, str) or not command:
        yield "exec.command: is not given"
    elif not _is_program(command, folder):
        hint = plugin.get("installHint")
        advice = f" ({' '.join(hint.split())})" if isinstance(hint, str) and hint else ""
        yield f"exec.command: {command!r} is no program that can be run{advice}"
    if version not in _VERSIONS:
        yield f"exec.apiVersion: {version!r} is neither {' nor '.join(_VERSIONS)}"
    yield from _mode_problems(plugin.get("interactiveMode"), version)
    if not isinstance(plugin.get("provideClusterInfo"), bool | None):
        yield "exec.provideClusterInfo: is neither true nor false"
    arguments = plugin.get("args") or []
    if not isinstance(arguments, list) or not all(map(_is_word, arguments)):
        yield "exec.args: is no list of strings"
    variables = plugin.get("env") or []
    if not isinstance(variables, list) or not all(map(_is_variable, variables)):
        yield "exec.env: is no list of entries with a name and a value"


def run_plugin(plugin: Fields, cluster: Fields, folder: Path) -> PluginCredential:
    """Run it once; blocks until it has ended. `cluster` is the kubeconfig's entry, its CA inline.

    Raises PluginError.
    """
    command = plugin["command"]
    with _started(plugin, _environment(plugin, cluster), folder) as process:
        assert process.stdout is not None  # noqa: S101 -- it is a pipe
        output = process.stdout.read(_MAX_OUTPUT_BYTES + 1)
        if len(output) > _MAX_OUTPUT_BYTES:
            process.kill()
            raise PluginError(f"exec: {command!r} writes more than a credential")
    if process.returncode:
        how = f"ended with status {process.returncode}"
        if process.returncode < 0:
            how = f"was ended by signal {-process.returncode}"
        raise PluginError(f"exec: {command!r} {how}")
    try:
        return _credential(_read(output), plugin["apiVersion"])
    except _ShapeError as error:
        raise PluginError(f"exec: {command!r} wrote no credential: {error}") from None


class _ShapeError(Exception):
    """The output is JSON, but no ExecCredential."""


def _started(plugin: Fields, environ: dict[str, str], folder: Path) -> "subprocess.Popen[bytes]":
    """The plugin at work. Its stdin is empty: no one sits there to answer a question."""
    try:
        return subprocess.Popen(  # noqa: S603 -- the operator's kubeconfig says what to run
            [_located(plugin["command"], folder), *(plugin.get("args") or ())],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", "") or "its words cannot be passed on"
        raise PluginError(f"exec: {plugin['command']!r} cannot be run: {why}") from None


def _environment(plugin: Fields, cluster: Fields) -> dict[str, str]:
    spec: dict[str, object] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        told = {key: cluster[key] for key in _CLUSTER_KEYS if cluster.get(key)}
        listed = cluster.get("extensions") or ()
        named = {entry.get("name"): entry.get("extension") for entry in listed}
        config = named.get(f"{_GROUP}/exec")
        spec["cluster"] = told | ({"config": config} if config is not None else {})
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}
    asked = {entry["name"]: entry.get("value") or "" for entry in plugin.get("env") or ()}
    return os.environ | asked | {"KUBERNETES_EXEC_INFO": json.dumps(info)}


def _read(output: bytes) -> object:
    """JSON, or YAML: client-go takes both."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(output)
    try:
        return read_document(output)
    except DocumentError:
        raise _ShapeError("it is neither JSON nor YAML") from None


def _credential(found: object, version: str) -> PluginCredential:
    if not isinstance(found, dict) or found.get("kind") != "ExecCredential":
        raise _ShapeError("its kind is not ExecCredential")
    if found.get("apiVersion") != version:
        raise _ShapeError(f"its apiVersion is not {version}")
    status = found.get("status")
    if not isinstance(status, dict):
        raise _ShapeError("it has no status")
    token, certificate, key = (
        _text(status, name) for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(certificate) != bool(key):
        raise _ShapeError("a certificate and its key go together")
    if not token and not certificate:
        raise _ShapeError("there is neither a token nor a certificate in it")
    # Judged here: one that no connection can use would stay until it is refused, and it never is.
    if certificate and (problem := _pair_problem(certificate, key)):
        raise _ShapeError(f"its certificate {problem}")
    return PluginCredential(token, certificate, key, _expiry(status))


def _pair_problem(certificate: str, key: str) -> str:
    # Latin-1 carries every byte.
    return pair_problem(*(text.encode().decode("latin-1") for text in (certificate, key)))


def _text(status: Fields, name: str) -> str:
    value = status.get(name) or ""
    # JSON can spell half a surrogate pair, which is no text.
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise _ShapeError(f"its {name} is no string")
    return value


def _expiry(status: Fields) -> float | None:
    text = _text(status, "expirationTimestamp")
    if not text:
        return None
    try:
        expiry = datetime.fromisoformat(text)
    except ValueError:
        expiry = datetime.min  # noqa: DTZ901 -- without a zone, which is refused below
    if expiry.tzinfo is None:
        raise _ShapeError("its expirationTimestamp is no time of RFC 3339")
    return expiry.timestamp()


def _mode_problems(mode: object, version: object) -> Iterator[str]:
    if mode == "Always":
        yield "exec.interactiveMode: Always asks for a terminal, and there is none"
    elif mode is None and version == _VERSIONS[0]:
        yield f"exec.interactiveMode: is not given, which {version} asks for"
    elif mode is not None and mode not in _MODES:
        yield f"exec.interactiveMode: {mode!r} is none of {', '.join(_MODES)}"


def _located(command: str, folder: Path) -> str:
    """A relative path begins at the kubeconfig; a bare name is looked for in PATH."""
    return str(folder.absolute() / command) if os.sep in command else command


def _is_program(command: str, folder: Path) -> bool:
    # Late, for most kubeconfigs have no use for it.
    from shutil import which  # noqa: PLC0415

    try:
        return which(_located(command, folder)) is not None
    except ValueError:  # a NUL in it
        return False


def _is_word(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_variable(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    name, value = entry.get("name"), entry.get("value") or ""
    return isinstance(name, str) and _is_name(name) and _is_word(value)


def _is_name(name: str) -> bool:
    return bool(name) and not {"=", "\0"} & set(name)
