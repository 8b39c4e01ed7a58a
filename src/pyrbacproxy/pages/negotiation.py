"""Content negotiation for the pages: text, JSON or YAML as Kubernetes writes them, or 406."""

import json
import re
from enum import Enum
from typing import TypeAlias

from pyrbacproxy.handler import Request
from pyrbacproxy.http1.head import Headers, Response
from pyrbacproxy.http1.target import parse_query
from pyrbacproxy.values import Frozen, field

# --- structured -----------------------------------------------------------------------
#
# An object as JSON, to the byte as Kubernetes writes it, or as YAML that reads the same.
#
# JSON keeps the order of the keys, YAML sorts them; strings that a YAML reader could take for
# something else are quoted. YAML is written here, for loading a library would cost the proxy
# memory.

Value: TypeAlias = str | int | tuple[str, ...] | dict[str, str]
Object: TypeAlias = dict[str, Value]


class Media(Enum):
    """A structured media type; the value is its name on the wire."""

    JSON = "application/json"
    YAML = "application/yaml"


# Go's encoding/json keeps these out of strings, for pages that embed JSON.
_GO_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
# What YAML 1.1 reads as a boolean or null.
_RESERVED = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_UNPRINTABLE = re.compile("[\x7f-\x9f\ufeff\ufffe\uffff]")


def json_text(value: Object, *, is_pretty: bool) -> str:
    """Compact with a final line end, or indented by two without one."""
    indent, separators = (2, (",", ": ")) if is_pretty else (None, (",", ":"))
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return text.translate(_GO_ESCAPES) + ("" if is_pretty else "\n")


def yaml_text(value: Object) -> str:
    """Block YAML with sorted keys."""
    return "".join(_yaml_entry(key, value[key]) for key in sorted(value))


def _yaml_entry(key: str, item: Value) -> str:
    if isinstance(item, int):
        return f"{key}: {item}\n"
    if isinstance(item, str):
        return f"{key}: {_yaml_string(item)}\n"
    if not item:
        return f"{key}: {'[]' if isinstance(item, tuple) else '{}'}\n"
    if isinstance(item, tuple):
        return f"{key}:\n" + "".join(f"- {_yaml_string(each)}\n" for each in item)
    entries = (f"  {_yaml_string(name)}: {_yaml_string(item[name])}\n" for name in sorted(item))
    return f"{key}:\n" + "".join(entries)


def _yaml_string(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    # A JSON string is a YAML string in double quotes, but for characters that YAML wants escaped.
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


# --- negotiation ----------------------------------------------------------------------
#
# The Accept header → text, a structured form, or the 406 that says what there is.
#
# To the letter what Kubernetes' z-pages do, quirks included: only the first Accept line counts, a
# concrete type beats a wildcard whatever their weights, `q=0` excludes nothing, media types compare
# by exact case, quotes are part of a value. Structured forms need the exact group, version and
# kind.

GROUP = "config.k8s.io"
VERSION = "v1beta1"
DEPRECATED_VERSION = "v1alpha1"

_TEXT = "text/plain"
_OFFERED = (Media.JSON.value, Media.YAML.value, _TEXT)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TARGET_NAMES = ("as", "g", "v")
_REFUSING_NAMES = ("stream", "sv")
# strconv.ParseBool.
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_PRETTY_AGENTS = (b"curl", b"Wget", b"Mozilla/5.0")
# No client names more; ordering them takes quadratic time.
_MOST_CLAUSES = 64


class Text(Frozen):
    """Answer in plain text."""


class Structured(Frozen):
    """Answer with an object of this API version."""

    media: Media
    version: str
    is_pretty: bool


Form: TypeAlias = Text | Structured


class _Clause(Frozen):
    """One entry of an Accept header."""

    kind: str
    subkind: str
    weight: float = 1.0
    parameters: dict[str, str] = field(default_factory=dict)

    def matches(self, media: str) -> bool:
        kind, _, subkind = media.partition("/")
        if self.subkind == "*":
            return self.kind in (kind, "*")
        return (self.kind, self.subkind) == (kind, subkind)

    def goes_before(self, other: "_Clause") -> bool:
        # Not transitive, so that the way of sorting shows.
        return (
            self.weight > other.weight
            or (self.kind != "*" and other.kind == "*")
            or (self.subkind != "*" and other.subkind == "*")
        )


def negotiated(request: Request, kind: str) -> Form | Response:
    """The form for this request, or a 406. `kind` is the page's: Statusz or Flagz."""
    accept = (request.head.headers.get(b"accept") or b"").decode("latin-1")
    if not accept.strip(" \t"):
        return Text()
    clauses = _ordered(_parsed(accept))
    for clause in clauses:
        for media in _OFFERED:
            if clause.matches(media) and (form := _form(request, clause, media, kind)):
                return form
    return _not_acceptable(request, clauses, kind)


def structured(form: Structured, kind: str, value: Object) -> Response:
    """The page's object in its form, with the warning that a deprecated version carries."""
    media = form.media.value
    lines = [(b"Content-Type", f"{media};g={GROUP};v={form.version};as={kind}".encode())]
    if form.version == DEPRECATED_VERSION:
        warning = (
            f'299 - "This version of the {kind.lower()} endpoint is deprecated. '
            'Please use a newer version."'
        )
        lines.append((b"Warning", warning.encode()))
    return Response(200, Headers(lines), _written(form.media, value, is_pretty=form.is_pretty))


def group_version(response: Response) -> tuple[str, str]:
    """The API group and version of the object that a response holds, "" for anything else."""
    media = (response.headers.get(b"content-type") or b"").decode("latin-1")
    pairs = dict(entry.partition("=")[::2] for entry in media.split(";")[1:])
    return pairs.get("g", ""), pairs.get("v", "")


def _parsed(accept: str) -> list[_Clause]:
    """The clauses as munnerz/goautoneg reads them."""
    clauses = (_clause(entry.strip(" ")) for entry in accept.split(",", _MOST_CLAUSES))
    return [clause for clause in clauses if clause is not None][:_MOST_CLAUSES]


def _clause(entry: str) -> _Clause | None:
    media, _, rest = entry.partition(";")
    kind, _, after = media.partition("/")
    kind = kind.strip(" ")
    subkind, _, surplus = after.partition("/")
    if surplus or not (after or kind == "*"):
        return None
    weight = 1.0
    parameters: dict[str, str] = {}
    for parameter in rest.split(";"):
        name, _, value = parameter.partition("=")
        value, _, surplus = value.partition("=")
        if not value or surplus:
            continue
        if name.strip(" ") == "q":
            weight = float(value) if _NUMBER.fullmatch(value) else 0.0
        else:
            parameters[name.strip(" ")] = value.strip(" ")
    return _Clause(kind, subkind.strip(" ") if after else "*", weight, parameters)


def _ordered(clauses: list[_Clause]) -> list[_Clause]:
    """Go's insertion sort, which is what `sort.Sort` does with a dozen entries or fewer."""
    for start in range(1, len(clauses)):
        at = start
        while at > 0 and clauses[at].goes_before(clauses[at - 1]):
            clauses[at - 1], clauses[at] = clauses[at], clauses[at - 1]
            at -= 1
    return clauses


def _form(request: Request, clause: _Clause, media: str, kind: str) -> Form | None:
    """What the clause gets of this type, None when its parameters ask for something else."""
    parameters = clause.parameters
    if any(parameters.get(name) for name in _REFUSING_NAMES):
        return None
    has_target = any(name in parameters for name in _TARGET_NAMES)
    if media == _TEXT:
        return None if has_target else Text()
    version = parameters.get("v", "")
    target = (parameters.get("g"), version, parameters.get("as"))
    if target not in ((GROUP, VERSION, kind), (GROUP, DEPRECATED_VERSION, kind)):
        return None
    return Structured(Media(media), version, _is_pretty(request, clause))


def _is_pretty(request: Request, clause: _Clause) -> bool:
    if clause.parameters.get("pretty") == "1":
        return True
    for name, value in parse_query(request.target.raw_query).pairs:
        if name == "pretty":
            if value:
                return value in _TRUE
            break
    agent = request.head.headers.get(b"user-agent") or b""
    return agent.startswith(_PRETTY_AGENTS)


def _accepted(kind: str) -> str:
    """The media types with the parameters that they need: Kubernetes leaves those out (FR101)."""
    structured_types = (
        f"{media.value};g={GROUP};v={version};as={kind}"
        for version in (VERSION, DEPRECATED_VERSION)
        for media in Media
    )
    return ", ".join((*structured_types, _TEXT))


def _not_acceptable(request: Request, clauses: list[_Clause], kind: str) -> Response:
    """406 in the first structured type that is accepted without a target, else indented JSON."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"only the following media types are accepted: {_accepted(kind)}",
        "reason": "NotAcceptable",
        "code": 406,
    }
    media, is_pretty = Media.JSON, True
    for clause in clauses:
        found = _bare_media(clause)
        if found is not None:
            media, is_pretty = found, _is_pretty(request, clause)
            break
    headers = Headers(((b"Content-Type", media.value.encode()),))
    return Response(406, headers, _written(media, status, is_pretty=is_pretty))


def _bare_media(clause: _Clause) -> Media | None:
    if any(name in clause.parameters for name in (*_TARGET_NAMES, *_REFUSING_NAMES)):
        return None
    return next((media for media in Media if clause.matches(media.value)), None)


def _written(media: Media, value: Object, *, is_pretty: bool) -> bytes:
    written = json_text(value, is_pretty=is_pretty) if media is Media.JSON else yaml_text(value)
    return written.encode(errors="replace")
