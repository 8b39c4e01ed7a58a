"""The short-lived child that reads a kubeconfig with kubernetes-asyncio and prints what it says.

    python -m pyrbacproxy.kube.resolve_kubeconfig FILE

prints one JSON object: server, CA, credential, expiry, and a digest of each file that was read, so
that the parent knows when to ask again; or `{"problem": text}`. It is a process because the library
is 36 MiB that the proxy would never get rid of. What is printed holds secrets: it goes to the
parent's pipe and nowhere else.
"""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import yaml

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
        # Only the library's own type of error has words that are known not to quote the file.
        words = str(error) if type(error).__name__ == "ConfigException" else ""
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
    with secret_folder() as folder:
        loader = KubeConfigLoader(
            config_dict=document, config_base_path=str(path.parent), temp_file_path=folder
        )
        configuration = Configuration()
        await loader.load_and_set(configuration)
        expiry = getattr(loader, "exec_plugin_expiry", None)
        return {
            "url": configuration.host,
            "ca": _content(configuration.ssl_ca_cert),
            "certificate": _content(configuration.cert_file),
            "key": _content(configuration.key_file),
            "authorization": _authorization(configuration.api_key.get("BearerToken", "")),
            "is_verified": configuration.verify_ssl,
            "expires_at": expiry.timestamp() if expiry else None,
            "files": files,
        }


def digest(content: bytes) -> str:
    """What tells one content from another; not the content itself, which is secret."""
    return hashlib.sha256(content).hexdigest()


def digest_of(path: Path) -> str:
    """The digest of a file's content, "" when it can't be read."""
    try:
        return digest(read_regular(path))
    except OSError:
        return ""


def _tidied(document: Any) -> Any:
    """The document as kubernetes-asyncio wants it and Kubernetes does not: no empty values, every
    context with a user.

    A token file comes before a token, as in client-go.
    """
    users = [entry | {"user": _filled(entry.get("user"))} for entry in document.get("users") or []]
    for entry in users:
        if "tokenFile" in entry["user"]:
            entry["user"].pop("token", None)
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
