import pytest

from pyrbacproxy.node.documents import Document, DocumentError
from pyrbacproxy.node.facts import StaticPodPath, static_pod_path


@pytest.mark.parametrize(
    ("document", "written", "is_watched", "text"),
    [
        pytest.param({}, None, False, "unset", id="unset"),
        pytest.param({"staticPodPath": None}, None, False, "unset", id="null is unset"),
        pytest.param({"staticPodPath": ""}, "", False, "explicitly empty", id="explicitly empty"),
        pytest.param({"staticPodPath": "/m"}, "/m", True, "/m", id="set"),
    ],
)
def test_unset_empty_and_set_are_told_apart(
    document: Document, written: str | None, *, is_watched: bool, text: str
) -> None:
    path = static_pod_path(document, "f")
    assert path == StaticPodPath(written)
    assert path.is_watched is is_watched
    assert str(path) == text


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(DocumentError, match=r"^kubelet.conf: staticPodPath: must be text, not 7$"):
        static_pod_path({"staticPodPath": 7}, "kubelet.conf")
