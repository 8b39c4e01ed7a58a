"""Checks the user entry of a kubeconfig."""

from collections.abc import Iterator
from pathlib import Path

from pyrbacproxy.kube import tls_context
from pyrbacproxy.kube.exec_plugin import plugin_problems
from pyrbacproxy.kube.kubeconfig_file import (
    NO_TOKEN,
    Fields,
    file_or_data,
    impersonation_problems,
    is_token,
    token_file_problems,
)


def user_problems(user: Fields, folder: Path) -> Iterator[str]:
    """Everything that is wrong; `folder` is the kubeconfig's, where relative paths begin."""
    yield from _token_problems(user, folder)
    yield from _password_problems(user)
    yield from _certificate_problems(user, folder)
    if user.get("exec") is not None:
        yield from plugin_problems(user["exec"], folder)
    if user.get("auth-provider"):
        yield "auth-provider: not supported, Kubernetes has done away with it; use exec"
    yield from impersonation_problems(user)


def _token_problems(user: Fields, folder: Path) -> Iterator[str]:
    token, token_file = user.get("token"), user.get("tokenFile")
    if not isinstance(token, str | None):
        yield "token: is no string"
    elif token and not is_token(token):
        yield f"token: {NO_TOKEN}"
    if not isinstance(token_file, str | None):
        yield f"tokenFile: {token_file!r} is no string"
    elif token_file:
        yield from token_file_problems(folder / token_file, "tokenFile")


def _password_problems(user: Fields) -> Iterator[str]:
    name, password = user.get("username"), user.get("password")
    if not isinstance(name, str | None) or ":" in (name or ""):
        yield "username: is no string without a colon"  # RFC 7617 §2
    if not isinstance(password, str | None):
        yield "password: is no string"
    if password and not name:
        yield "password: is given without username"
    if name and (user.get("token") or user.get("tokenFile")):
        yield "username: is given together with a token"


def _certificate_problems(user: Fields, folder: Path) -> Iterator[str]:
    certificate, found = file_or_data(user, "client-certificate", folder)
    yield from found
    key, found_too = file_or_data(user, "client-key", folder)
    yield from found_too
    if found or found_too:
        # The one that can be had is judged alone, so that nothing hides its faults.
        if certificate and (problem := tls_context.ca_problem(certificate)):
            yield f"client-certificate: {problem}"
        if key and (problem := tls_context.key_problem(key)):
            yield f"client-key: {problem}"
        return
    if bool(certificate) != bool(key):
        there, missing = ("client-certificate", "client-key")[:: 1 if certificate else -1]
        yield f"{there}: is given without {missing}"
    elif certificate and (problem := tls_context.pair_problem(certificate, key)):
        yield f"client-certificate: {problem}"
