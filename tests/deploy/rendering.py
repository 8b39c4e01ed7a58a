"""What kubectl makes of the folders in deploy/, and a host to run the result on."""

import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from pyrbacproxy.config.complete import Problems, complete
from pyrbacproxy.config.flag_parsing import parse
from pyrbacproxy.config.settings import Settings
from pyrbacproxy.demo.pki import Authority

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBECTL = Path(sys.prefix) / "bin" / "kubectl"
Object = dict[str, Any]

FOLDERS = sorted(path.parent.relative_to(DEPLOY) for path in DEPLOY.rglob("kustomization.yaml"))


@cache
def rendered_text(folder: str) -> str:
    """The YAML of all objects that the folder stands for."""
    assert KUBECTL.exists(), f"{KUBECTL} is missing: `make setup` brings it"
    done = subprocess.run(
        [KUBECTL, "kustomize", DEPLOY / folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # kustomize tells of what is deprecated or without effect.
    assert done.stderr == ""
    return done.stdout


def rendered(folder: str) -> list[Object]:
    """The same, parsed anew."""
    return list(yaml.safe_load_all(rendered_text(folder)))


def one(objects: Iterable[Object], kind: str) -> Object:
    """The only object of that kind."""
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def pod(objects: Iterable[Object], kind: str) -> Object:
    """The spec of the pods that the only object of that kind makes."""
    spec = one(objects, kind)["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def sidecar(objects: Iterable[Object], kind: str) -> Object:
    """The only container of these pods that is the proxy's, native sidecar or not."""
    spec = pod(objects, kind)
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    (container,) = [each for each in containers if each["image"] == "pyrbacproxy"]
    assert isinstance(container, dict)
    return container


def volumes_by_path(spec: Object, container: Object) -> dict[str, tuple[Object, Object]]:
    """Mount path → mount and volume."""
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    return {
        mount["mountPath"]: (mount, volumes[mount["name"]]) for mount in container["volumeMounts"]
    }


class Host:
    """A folder that holds what a container's mounts would show, each at its own path."""

    def __init__(self, folder: Path, objects: Iterable[Object], kind: str) -> None:
        self.folder = folder
        objects = list(objects)
        container = sidecar(objects, kind)
        mounts = volumes_by_path(pod(objects, kind), container)
        self._arguments: list[str] = container["args"]
        self._mounts = tuple(mounts)
        for path, (_, volume) in mounts.items():
            self.at(path).mkdir(parents=True)
            if "configMap" in volume:
                data = one(objects, "ConfigMap")
                assert data["metadata"]["name"] == volume["configMap"]["name"]
                for name, text in data["data"].items():
                    self.at(f"{path}/{name}").write_text(text)

    def at(self, path: str) -> Path:
        """Where a path of the container is."""
        return self.folder / path.lstrip("/")

    def arguments(self, **changes: str) -> list[str]:
        """The container's own, moved here; `changes` are values of flags, written with `_`."""
        words = []
        for word in self._arguments:
            flag, is_valued, value = word.partition("=")
            if value.startswith("/"):
                assert value.startswith(self._mounts), f"{word}: no mount shows it"
                value = str(self.at(value))
            value = changes.pop(flag.lstrip("-").replace("-", "_"), value)
            words.append(f"{flag}{is_valued}{value}")
        assert not changes
        return words

    def fill_node(self, authority: Authority) -> None:
        """What the kubelet and the machine-config daemon write: a pair behind a link, the CA."""
        pki = self.at("/var/lib/kubelet/pki")
        pair = authority.serving("kubelet").combined_file
        (pki / "kubelet-server-1.pem").write_bytes(pair.read_bytes())
        (pki / "kubelet-server-1.pem").chmod(0o600)
        (pki / "kubelet-server-current.pem").symlink_to("kubelet-server-1.pem")
        ca = self.at("/etc/kubernetes/kubelet-ca.crt")
        ca.write_bytes(authority.certificate_file.read_bytes())

    def fill_secret(self, authority: Authority) -> None:
        """A serving pair as a Secret shows it."""
        pair = authority.serving("app")
        folder = self.at("/etc/tls/private")
        (folder / "tls.crt").write_bytes(pair.certificate_file.read_bytes())
        (folder / "tls.key").write_bytes(pair.key_file.read_bytes())

    def settings(self, **environ: str) -> Settings | Problems:
        """What the program makes of the arguments here."""
        parsed = parse(self.arguments())
        assert parsed.problems == ()
        return complete(parsed.options, environ)


def flags(container: Object) -> dict[str, str]:
    """The container's flags and values; none is given twice."""
    pairs = [word.removeprefix("--").partition("=") for word in container["args"]]
    assert len({name for name, _, _ in pairs}) == len(pairs)
    return {name: value for name, _, value in pairs}
