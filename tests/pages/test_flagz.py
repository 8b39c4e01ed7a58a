"""/flagz: one line a flag, and the object."""

import json
import re

import yaml

from pyrbacproxy.http1.head import Response
from pyrbacproxy.pages.statusz_flagz import Flagz
from tests.fakes import request

FLAGS = (("allow-paths", "[]"), ("v", "2"), ("weird", "a<b & c"))


def page(accept: str = "") -> Response:
    lines = [(b"Accept", accept.encode())] if accept else []
    return Flagz(FLAGS, ": ")(request(b"/flagz", *lines))


def structured(kind: str, version: str = "v1beta1") -> Response:
    return page(f"application/{kind};v={version};g=config.k8s.io;as=Flagz")


def test_z_d1_the_text() -> None:
    response = page()
    assert response.headers.get(b"content-type") == b"text/plain; charset=utf-8"
    assert re.fullmatch(
        r"\nkube-rbac-proxy flagz\nWarning: This endpoint [^\n]+\n"
        r"(?:[a-zA-Z0-9-]+(:|: |=| ).*\n)+",
        response.body.decode(),
    )
    assert response.body.endswith(b"only.\nallow-paths: []\nv: 2\nweird: a<b & c\n")


def test_z_d3_the_object() -> None:
    response = structured("json")
    assert list(json.loads(response.body).items()) == [
        ("kind", "Flagz"),
        ("apiVersion", "config.k8s.io/v1beta1"),
        ("metadata", {"name": "kube-rbac-proxy"}),
        ("flags", dict(FLAGS)),
    ]
    assert b"warning" not in response.headers
    assert yaml.safe_load(structured("yaml").body) == json.loads(response.body)


def test_z_d7_the_deprecated_version_warns() -> None:
    warning = structured("json", "v1alpha1").headers.get(b"warning") or b""
    assert b"This version of the flagz endpoint is deprecated." in warning


def test_what_cannot_be_given_is_refused() -> None:
    assert page("text/html").status == 406
