"""`/version`: Kubernetes' version.Info about ourselves."""

import re

from pyrbacproxy.admin.status import Program
from pyrbacproxy.admin.structured import json_text
from pyrbacproxy.http1.head import Headers
from pyrbacproxy.http1.response import Response

_NUMBERS = re.compile(r"([0-9]+)\.([0-9]+)")
_HEADERS = Headers(((b"Content-Type", b"application/json"),))


def version_info(program: Program) -> dict[str, str]:
    """The fields of version.Info, in their order, without those that the build did not know."""
    found = _NUMBERS.match(program.version)
    major, minor = found.groups() if found else ("", "")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{program.version}",
        **program.build,
        "goVersion": program.language,
        "compiler": program.implementation,
        "platform": program.platform,
    }


def version_page(program: Program) -> Response:
    """The page; nothing on it changes while the program runs."""
    written = json_text({**version_info(program)}, is_pretty=True)
    return Response(200, _HEADERS, written.encode())
