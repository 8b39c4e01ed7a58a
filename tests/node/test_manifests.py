"""What the kubelet would run from a folder."""

from pathlib import Path

import pytest

from pyrbacproxy.node.facts import Manifest, NotSeen
from pyrbacproxy.node.host import HostFiles
from pyrbacproxy.node.survey import manifests

POD = "kind: Pod\nmetadata: {name: etcd, namespace: openshift-etcd}\n"


def put(root: Path, name: str, text: str) -> None:
    (root / "m").mkdir(exist_ok=True)
    (root / "m" / name).write_text(text)


@pytest.mark.parametrize(
    ("text", "pod"),
    [
        (POD, "openshift-etcd/etcd"),
        ('{"kind": "Pod", "metadata": {"name": "x"}}', "default/x"),
        ("kind: Pod", ""),
        ("kind: Pod\nmetadata: {}", ""),
        ("kind: List\nmetadata: {name: x}", ""),
        ("{", ""),
        ("", ""),
    ],
)
def test_a_file_names_its_pod(tmp_path: Path, text: str, pod: str) -> None:
    put(tmp_path, "one.yaml", text)
    assert manifests(HostFiles(tmp_path), "/m") == [Manifest("/m/one.yaml", pod)]


def test_the_kubelet_takes_any_ending_but_no_dot_files_and_folders(tmp_path: Path) -> None:
    for name in ("etcd.yaml.bak", ".hidden.yaml", "b"):
        put(tmp_path, name, POD)
    (tmp_path / "m" / "folder").mkdir()
    (tmp_path / "m" / "to-nothing").symlink_to("gone")
    found = manifests(HostFiles(tmp_path), "/m/")
    assert [one.path for one in found] == ["/m/b", "/m/etcd.yaml.bak"]


def test_a_path_may_name_one_file(tmp_path: Path) -> None:
    put(tmp_path, "one.yaml", POD)
    found = manifests(HostFiles(tmp_path), "/m/one.yaml")
    assert found == [Manifest("/m/one.yaml", "openshift-etcd/etcd")]


def test_what_is_no_file_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "null").symlink_to("null")
    (found,) = manifests(HostFiles(tmp_path), "/m")
    assert found == Manifest("/m/null", NotSeen("/m/null: Too many levels of symbolic links"))
    with pytest.raises(FileNotFoundError):
        manifests(HostFiles(tmp_path), "/gone")
