"""What the kubelet's configuration file says about the folder of static pods."""

from dataclasses import dataclass

from pyrbacproxy.node.documents import Document, DocumentError, shown

STATIC_POD_PATH = "staticPodPath"


@dataclass(frozen=True, slots=True)
class StaticPodPath:
    """`staticPodPath` as it is written: None when unset, "" when explicitly empty.

    The kubelet has no default for it: unset or empty, it watches no folder.
    """

    written: str | None

    @property
    def is_watched(self) -> bool:
        """Whether the kubelet runs the manifests of a folder."""
        return bool(self.written)

    def __str__(self) -> str:
        if self.written is None:
            return "unset"
        return self.written or "explicitly empty"


def static_pod_path(document: Document, file: str) -> StaticPodPath:
    """What a KubeletConfiguration says; null is unset. Raises DocumentError when it is no text."""
    written = document.get(STATIC_POD_PATH)
    if written is None or isinstance(written, str):
        return StaticPodPath(written)
    raise DocumentError(f"{file}: {STATIC_POD_PATH}: must be text, not {shown(written)}")
