"""The short-lived child that reads a kubeconfig with kubernetes-asyncio and prints what it says.

    python -m pyrbacproxy.kube.resolve_kubeconfig FILE

prints one JSON object: server, CA, credential, expiry, and a digest of each file that was read, so
that the parent knows when to ask again; or `{"problem": text}`. An exec plugin is run here, too. It
is a process because the library is 36 MiB that the proxy would never get rid of. What is printed
holds secrets: it goes to the parent's pipe and nowhere else. Its stdin is a pipe as well, at whose
end it ends.
"""

import asyncio
import base64
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyrbacproxy.kube.exec_plugin import PluginCredential, PluginError, run_plugin
from pyrbacproxy.kube.kubeconfig_file import (
    DocumentError,
    digest,
    digest_of,
    impersonation_headers,
    named,
    read_document,
)
from pyrbacproxy.kube.tls_context import secret_folder
from pyrbacproxy.regular_file import read_regular

_FILE_KEYS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_CREDENTIALS = frozenset(
    ("token", "tokenFile", "username", "client-certificate", "client-certificate-data")
)


def main(arguments: list[str]) -> int:
    """Print the resolved server; 0 if it could be resolved."""
    path = Path(arguments[0])
    try:
        resolved = asyncio.run(resolve(path))
    except Exception as error:  # noqa: BLE001 -- whatever the library stumbles over is the answer
        # Only these types of error have words that are known to quote neither file nor plugin.
        is_ours = isinstance(error, PluginError | DocumentError)
        is_quotable = is_ours or type(error).__name__ == "ConfigException"
        words = str(error) if is_quotable else ""
        sys.stdout.write(json.dumps({"problem": f"{path}: {words or type(error).__name__}"}))
        return 1
    sys.stdout.write(json.dumps(resolved))
    return 0


async def resolve(path: Path) -> dict[str, Any]:
    """Server, CA, credential and expiry as JSON can carry them."""
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415 -- heavy: in the child alone
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader  # noqa: PLC0415 -- likewise

    content = read_regular(path)
    cluster, user = _current(read_document(content))
    # Digests are taken before the library reads: a change in between shows at the parent's next
    # look.
    files = {str(path): digest(content)} | {
        str(file): digest_of(file) for file in _referenced(cluster, user, path.parent)
    }
    found = _from_plugin(cluster, user, path.parent)
    with secret_folder() as folder:
        loader = KubeConfigLoader(
            config_dict=_alone(cluster, user),
            config_base_path=str(path.parent),
            temp_file_path=folder,
        )
        configuration = Configuration()
        await loader.load_and_set(configuration)
        return {
            "url": configuration.host,
            "ca": _content(configuration.ssl_ca_cert),
            "certificate": _content(configuration.cert_file),
            "key": _content(configuration.key_file),
            "authorization": _authorization(configuration.api_key.get("BearerToken", "")),
            "is_verified": configuration.verify_ssl,
            "expires_at": None if found is None else found.expires_at,
            "server_name": cluster.get("tls-server-name", ""),
            "proxy_url": cluster.get("proxy-url", ""),
            "impersonation": impersonation_headers(user),
            "is_from_plugin": found is not None,
            "files": files,
        }


def _current(document: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cluster and the user of the current context, without empty values.

    A server without TLS is told no credential, as in client-go: it would go in the clear.
    """
    context = _entry(document, "contexts", "context", document["current-context"])
    cluster = _entry(document, "clusters", "cluster", context.get("cluster"))
    cluster["server"] = urlsplit(cluster["server"]).geturl()  # its scheme in small letters
    name = context.get("user")
    user = _entry(document, "users", "user", name) if name else {}
    if not cluster["server"].startswith("https://"):
        user = {key: value for key, value in user.items() if key.partition("-")[0] == "as"}
    return cluster, user


def _entry(document: Any, section: str, kind: str, name: object) -> dict[str, Any]:
    entry = named(document, section, kind, name)
    if isinstance(entry, str):
        raise DocumentError(f"{kind} {entry}")
    return {key: value for key, value in entry.items() if value not in ("", None)}


def _alone(cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    """A kubeconfig of these two, as kubernetes-asyncio wants it and Kubernetes does not: a password
    for every user name, and no token beside a token file, which goes first in client-go.
    """
    if "tokenFile" in user:
        user = {key: value for key, value in user.items() if key != "token"}
    if "username" in user:
        user = {"password": ""} | user
    name = "it"
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
    }


def _from_plugin(
    cluster: dict[str, Any], user: dict[str, Any], folder: Path
) -> PluginCredential | None:
    """What the plugin brings, put into the user as the file would hold it. As in client-go it isn't
    run beside a credential in the file: together they could be another user.
    """
    plugin = user.pop("exec", None)
    if plugin is None or not _CREDENTIALS.isdisjoint(user):
        return None
    found = run_plugin(plugin, _told(cluster, folder), folder)
    if found.token:
        user["token"] = found.token
    if found.certificate:
        user["client-certificate-data"] = base64.b64encode(found.certificate.encode()).decode()
        user["client-key-data"] = base64.b64encode(found.key.encode()).decode()
    return found


def _told(cluster: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The cluster as a plugin is told of it: the CA inline."""
    name = cluster.get("certificate-authority")
    if name is None:
        return cluster
    content = read_regular(folder / name)
    return cluster | {"certificate-authority-data": base64.b64encode(content).decode()}


def _referenced(cluster: dict[str, Any], user: dict[str, Any], folder: Path) -> list[Path]:
    return [
        folder / fields[key] for fields in (cluster, user) for key in _FILE_KEYS if key in fields
    ]


def _authorization(text: str) -> str:
    """`Bearer TOKEN` without the line end that a token file has."""
    scheme, _, credential = text.partition(" ")
    return f"{scheme} {credential.strip()}" if credential.strip() else ""


def _content(path: str | None) -> str:
    """PEM is ASCII, its comments may be anything: Latin-1 carries every byte."""
    if not path:
        return ""
    content = read_regular(path)
    if not content.strip():
        # Emptied since it was judged. Without a CA the system's would do.
        raise DocumentError("a certificate or key that it names is empty")
    return content.decode("latin-1")


def end_with_parent(lifeline: int) -> None:
    """Kill our session, a plugin included, when the other end of this pipe is closed: whoever asked
    was killed, and nobody else would end a plugin that hangs.
    """
    os.read(lifeline, 1)
    if os.getsid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, args=(sys.stdin.fileno(),), daemon=True).start()
    sys.exit(main(sys.argv[1:]))
