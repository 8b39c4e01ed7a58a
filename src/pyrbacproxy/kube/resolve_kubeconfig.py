"""The short-lived child that reads a kubeconfig with kubernetes-asyncio and prints what it says.

    python -m pyrbacproxy.kube.resolve_kubeconfig FILE

prints one JSON object: server, CA, credential, expiry, and a digest of each file that was read, so
that the parent knows when to ask again; or `{"problem": text}`. An exec plugin is run here, too. It
is a process because the library is 36 MiB that the proxy would never get rid of. What is printed
holds secrets: it goes to the parent's pipe and nowhere else.
"""

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from pyrbacproxy.kube.credential_files import digest, digest_of
from pyrbacproxy.kube.exec_plugin import PluginCredential, PluginError, run_plugin
from pyrbacproxy.kube.impersonation import impersonation_headers
from pyrbacproxy.kube.tls_context import secret_folder
from pyrbacproxy.regular_file import read_regular

_FILE_KEYS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_NOBODY = "(no user)"


def main(arguments: list[str]) -> int:
    """Print the resolved server; 0 if it could be resolved."""
    path = Path(arguments[0])
    try:
        resolved = asyncio.run(resolve(path))
    except Exception as error:  # noqa: BLE001 -- whatever the library stumbles over is the answer
        # Only these types of error have words that are known to quote neither file nor plugin.
        is_quotable = isinstance(error, PluginError) or type(error).__name__ == "ConfigException"
        words = str(error) if is_quotable else ""
        sys.stdout.write(json.dumps({"problem": f"{path}: {words or type(error).__name__}"}))
        return 1
    sys.stdout.write(json.dumps(resolved))
    return 0


async def resolve(path: Path) -> dict[str, Any]:
    """Server, CA, credential and expiry as JSON can carry them."""
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415 -- heavy: in the child alone
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader  # noqa: PLC0415 -- likewise

    content = path.read_bytes()  # noqa: ASYNC240 -- nobody else runs on this loop
    document = _tidied(yaml.safe_load(content))
    # Digests are taken before the library reads: a change in between shows at the parent's next
    # look.
    files = {str(path): digest(content)} | {
        str(file): digest_of(file) for file in _referenced(document, path.parent)
    }
    cluster, user = _current(document)
    plugin = user.pop("exec", None)
    found = None if plugin is None else run_plugin(plugin, _told(cluster, path.parent), path.parent)
    if found is not None:
        user.update(_credential_fields(found, user))
    with secret_folder() as folder:
        loader = KubeConfigLoader(
            config_dict=document, config_base_path=str(path.parent), temp_file_path=folder
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


def _tidied(document: Any) -> Any:
    """The document as kubernetes-asyncio wants it and Kubernetes does not: no empty values, every
    context with a user, every user name with a password.

    A token file comes before a token, as in client-go.
    """
    users = [entry | {"user": _filled(entry.get("user"))} for entry in document.get("users") or []]
    for entry in users:
        if "tokenFile" in entry["user"]:
            entry["user"].pop("token", None)
        if "username" in entry["user"]:
            entry["user"].setdefault("password", "")
    users.append({"name": _NOBODY, "user": {}})
    return document | {
        "users": users,
        "contexts": [
            entry | {"context": {"user": _NOBODY} | _filled(entry.get("context"))}
            for entry in document["contexts"]
        ],
        "clusters": [
            entry | {"cluster": _filled(entry.get("cluster"))} for entry in document["clusters"]
        ],
    }


def _current(document: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cluster and the user of the current context, to be changed in place."""
    contexts, clusters, users = (
        {entry["name"]: entry[kind] for entry in document[f"{kind}s"]}
        for kind in ("context", "cluster", "user")
    )
    context = contexts[document["current-context"]]
    return clusters[context["cluster"]], users[context["user"]]


def _told(cluster: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The cluster as a plugin is told of it: the CA inline."""
    name = cluster.get("certificate-authority")
    if name is None:
        return cluster
    content = read_regular(folder / name)
    return cluster | {"certificate-authority-data": base64.b64encode(content).decode()}


def _credential_fields(found: PluginCredential, user: dict[str, Any]) -> dict[str, str]:
    """The plugin's credential as the file would hold it; what the file holds itself goes first."""
    fields = {}
    if found.token and not {"token", "tokenFile", "username"} & user.keys():
        fields["token"] = found.token
    if found.certificate and not {"client-certificate", "client-certificate-data"} & user.keys():
        fields["client-certificate-data"] = base64.b64encode(found.certificate.encode()).decode()
        fields["client-key-data"] = base64.b64encode(found.key.encode()).decode()
    return fields


def _filled(fields: Any) -> dict[str, Any]:
    return {key: value for key, value in (fields or {}).items() if value not in ("", None)}


def _referenced(document: Any, folder: Path) -> list[Path]:
    sections = [entry["cluster"] for entry in document["clusters"]]
    sections += [entry["user"] for entry in document["users"]]
    return [folder / fields[key] for fields in sections for key in _FILE_KEYS if key in fields]


def _authorization(text: str) -> str:
    """`Bearer TOKEN` without the line end that a token file has."""
    scheme, _, credential = text.partition(" ")
    return f"{scheme} {credential.strip()}" if credential.strip() else ""


def _content(path: str | None) -> str:
    """PEM is ASCII, its comments may be anything: Latin-1 carries every byte."""
    return Path(path).read_bytes().decode("latin-1") if path else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
