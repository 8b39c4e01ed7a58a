"""The kubelet's folder of manifests → which pods it would run."""

from pyrbacproxy.node.documents import Document, DocumentError, read_one
from pyrbacproxy.node.facts import Manifest, NotSeen
from pyrbacproxy.node.host_files import HostFiles


def manifests(files: HostFiles, path: str) -> list[Manifest]:
    """What the kubelet would run from the path, a folder or one file. Raises OSError.

    It takes every regular file whose name does not begin with a dot, whatever its ending.
    """
    try:
        names = files.names(path)
    except NotADirectoryError:
        if not files.place(path).is_file():
            raise
        return [found] if (found := _manifest(files, path)) else []
    paths = [f"{path.rstrip('/')}/{name}" for name in names if not name.startswith(".")]
    return [found for one in paths if (found := _manifest(files, one))]


def _manifest(files: HostFiles, path: str) -> Manifest | None:
    try:
        if files.is_folder(path):
            return None
        content = files.read(path)
    except FileNotFoundError:
        # Gone meanwhile, or a link to nothing: the kubelet runs neither.
        return None
    except OSError as error:
        return Manifest(path, NotSeen(f"{path}: {error.strerror}"))
    try:
        return Manifest(path, _pod(read_one(content, path)))
    except DocumentError:
        return Manifest(path, "")


def _pod(document: Document) -> str:
    metadata = document.get("metadata")
    if document.get("kind") != "Pod" or not isinstance(metadata, dict) or not metadata.get("name"):
        return ""
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
