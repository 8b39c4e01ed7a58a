"""The API server and our credential as the files say now: read again every minute and on a 401.

Reading happens in a thread: files may hang, and a kubeconfig takes a child process. A credential
that was good stays in use when its file cannot be read for a while, and that is said once (FR39).
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from pyrbacproxy.background import Activity
from pyrbacproxy.egress import proxy_at
from pyrbacproxy.kube import tls_context
from pyrbacproxy.kube.kubeconfig import ApiServer, KubeSettings, problems
from pyrbacproxy.kube.kubeconfig_file import digest_of, is_header_text
from pyrbacproxy.regular_file import read_regular
from pyrbacproxy.values import Frozen

_LOG = logging.getLogger(__name__)

REREAD_SECONDS = 60.0  # the reference's bound for the service account's token
RETRY_SECONDS = 5.0  # a file that cannot be read is not read for every review
CHILD_SECONDS = 20.0
# A kubeconfig whose credential the API server refuses is not resolved for every review.
REST_SECONDS = 10.0


class CredentialError(Exception):
    """There is no credential; the text is fit for a log."""


class Source(Protocol):
    """Where servers come from."""

    def read(self, *, is_refused: bool = False) -> ApiServer:
        """What the files say now (blocking); raises CredentialError.

        `is_refused`: the API server has refused what was read last.
        """
        ...

    def close(self) -> None:
        """End a reading under way, which then raises; called from another thread."""
        ...


class Credentials:
    """Keeps the newest `ApiServer` of a source."""

    def __init__(
        self,
        source: Source,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._clock = clock
        self._wall_clock = wall_clock
        self._server: ApiServer | None = None
        self._problem = "not read yet"
        self._due_at = 0.0
        self._reading: asyncio.Future[ApiServer] | None = None
        # Changes with whom we ask and who vouches for them; not with a renewed credential.
        self.generation = 0
        # Whatever is raised may quote a secret.
        self.activity = Activity("API server credential", withholds_text=True)

    async def current(self) -> ApiServer:
        """The API server, at most a minute old; raises CredentialError if there never was one."""
        if self._clock() >= self._due_at:
            await self._read()
        return self._known()

    async def after_refusal(self, refused: ApiServer) -> ApiServer:
        """The API server after a 401 to `refused`: read at once, unless it was read already."""
        if self._server == refused:
            await self._read(is_refused=True)
        return self._known()

    def close(self) -> None:
        """End the wait for a reading: the process ends."""
        if self._reading is not None:
            self._reading.remove_done_callback(self._install)
            self._reading.add_done_callback(_ignore)
        self._source.close()

    def _known(self) -> ApiServer:
        server = self._server
        # What could not be renewed is good until its own end; what was just read, in any case.
        is_over = (
            server is not None
            and self._problem
            and server.expires_at is not None
            and self._wall_clock() >= server.expires_at
        )
        if server is None or is_over:
            raise CredentialError(self._problem)
        return server

    def begin_reading(self, *, is_refused: bool = False) -> asyncio.Future[ApiServer]:
        """Read in a thread, unless that is under way: what the files say is known to all later."""
        if self._reading is None:
            read = partial(self._source.read, is_refused=is_refused)
            self._reading = asyncio.get_running_loop().run_in_executor(None, read)
            self._reading.add_done_callback(self._install)
        return self._reading

    async def _read(self, *, is_refused: bool = False) -> None:
        """Read, or wait for who is reading; the reading goes on when the one who waits gives up."""
        await asyncio.wait([self.begin_reading(is_refused=is_refused)])

    def _install(self, reading: asyncio.Future[ApiServer]) -> None:
        self._reading = None
        self._due_at = self._clock() + RETRY_SECONDS
        try:
            server = reading.result()
        except CredentialError as error:
            self.activity.worked()
            self._keep(str(error))
            return
        except Exception as error:  # noqa: BLE001 -- the loop that calls this has no use for it
            self._due_at = self._clock() + self.activity.failed(error)
            self._problem = f"could not be read: {type(error).__name__}"
            return
        self.activity.worked()
        if self._server is not None and server != self._server:
            _LOG.info("API server credential has changed, connecting anew")
            if _asked(server) != _asked(self._server):
                self.generation += 1
        self._server, self._problem = server, ""
        left = REREAD_SECONDS
        if server.expires_at is not None:
            left = min(left, server.expires_at - self._wall_clock())
        self._due_at = self._clock() + max(left, RETRY_SECONDS)

    def _keep(self, problem: str) -> None:
        """What was known stays in use; why is said once."""
        if problem != self._problem:
            _LOG.error("API server credential: %s", problem)
        self._problem = problem


def _asked(server: ApiServer) -> tuple[str, str, str, bool]:
    return server.url, server.server_name, server.ca, server.is_verified


def _ignore(reading: asyncio.Future[ApiServer]) -> None:
    """Fetch its exception, or asyncio complains that it was never retrieved."""
    if not reading.cancelled():
        reading.exception()


class ServiceAccount:
    """The in-cluster service account: two files."""

    def __init__(self, settings: KubeSettings) -> None:
        self._url = settings.server
        self._folder = Path(settings.service_account_folder)
        self._ca = ""  # the last good one
        self._ca_problem = ""

    def read(self, *, is_refused: bool = False) -> ApiServer:  # noqa: ARG002 -- read afresh anyway
        """The files' content; raises CredentialError."""
        token = _text(self._folder / "token").strip()
        if not is_header_text(token):
            raise CredentialError(f"{self._folder / 'token'} holds no token")
        return ApiServer(url=self._url, ca=self._trusted(), authorization=f"Bearer {token}")

    def _trusted(self) -> str:
        """The CA; the last good one while its file is bad, for the token is renewed meanwhile."""
        path, ca, problem = self._folder / "ca.crt", "", ""
        try:
            ca = _text(path)
            # An empty one would mean the system's roots, and a half one no authority.
            if found := tls_context.ca_problem(ca):
                problem = f"{path} {found}"
        except CredentialError as error:
            problem = str(error)
        if problem and not self._ca:
            raise CredentialError(problem)
        if problem and problem != self._ca_problem:
            _LOG.error("%s: the old one stays in use", problem)
        self._ca, self._ca_problem = (self._ca if problem else ca), problem
        return self._ca

    def close(self) -> None:
        """Nothing lasts."""


class Kubeconfig:
    """A kubeconfig, resolved by a child process when a file that it is made of has changed, or its
    plugin's credential has expired or been refused.
    """

    def __init__(
        self,
        path: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._clock = clock
        self._wall_clock = wall_clock
        self._resolved: _Resolved | None = None
        self._problem = ""  # why it could not be resolved anew
        self._rests_until = 0.0
        self._child = Child()

    def read(self, *, is_refused: bool = False) -> ApiServer:
        """The resolved server; raises CredentialError."""
        resolved = self._resolved
        if resolved is None or self._is_outdated(resolved, is_refused):
            if not (is_refused and self._rests()):
                resolved = self._resolve()
        else:
            self._problem = ""
        if resolved is None or self._problem:
            raise CredentialError(self._problem)
        return resolved.server

    def close(self) -> None:
        """Without it, a signal soon after the start would wait for the child."""
        self._child.kill()

    def _resolve(self) -> "_Resolved":
        try:
            self._resolved = _resolved(self._path, self._child)
        except CredentialError as error:
            self._problem = str(error)
            raise
        self._problem = ""
        if not self._resolved.is_from_plugin:
            self._rests_until = 0.0  # whatever changes next is not what was refused
        return self._resolved

    def _is_outdated(self, resolved: "_Resolved", is_refused: bool) -> bool:  # noqa: FBT001 -- as it came
        expires_at = resolved.server.expires_at
        if expires_at is not None and self._wall_clock() >= expires_at:
            return True
        if is_refused and resolved.is_from_plugin:
            return True
        return any(digest_of(Path(path)) != before for path, before in resolved.files.items())

    def _rests(self) -> bool:
        """Whether it was resolved for a refusal a moment ago, which takes a child and a plugin."""
        if self._clock() < self._rests_until:
            return True
        self._rests_until = self._clock() + REST_SECONDS
        return False


def source_of(settings: KubeSettings) -> Source:
    """The source that the settings name."""
    return Kubeconfig(settings.kubeconfig) if settings.kubeconfig else ServiceAccount(settings)


def _text(path: Path) -> str:
    try:
        return read_regular(path).decode("latin-1")
    except OSError as error:
        raise CredentialError(f"{path} cannot be read: {error.strerror}") from None


class Child:
    """A program that is run for its output, and can be ended from another thread together with what
    it started.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    def output(self, command: list[str]) -> bytes:
        """What it writes; "" when it was killed. Raises OSError, subprocess.TimeoutExpired."""
        with (
            _lifeline() as stdin,
            subprocess.Popen(  # noqa: S603 -- our own interpreter and module, and the operator's path
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # A session of its own: a plugin is ended with it, and has no terminal to ask at.
                start_new_session=True,
            ) as process,
        ):
            self._process = process
            if self._is_killed:
                _end_session(process)
            try:
                return process.communicate(timeout=CHILD_SECONDS)[0]
            except subprocess.TimeoutExpired:
                _end_session(process)
                raise
            finally:
                self._process = None

    def kill(self) -> None:
        """End it, and any later one at once."""
        self._is_killed = True
        if (process := self._process) is not None:
            _end_session(process)


@contextlib.contextmanager
def _lifeline() -> Iterator[int]:
    """What a child reads of and that ends with us, even if we are killed: it goes then, too."""
    reader, writer = os.pipe()
    try:
        yield reader
    finally:
        os.close(reader)
        os.close(writer)


def _end_session(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):  # all of it has ended
        os.killpg(process.pid, signal.SIGKILL)


class _Resolved(Frozen):
    """What a kubeconfig says, the digests of the files it is made of, and whether a plugin was run
    for it.
    """

    server: ApiServer
    files: dict[str, str]
    is_from_plugin: bool


def _resolved(path: str, child: Child) -> _Resolved:
    """Run the child; raises CredentialError. Its output is secret, and its stderr may be: neither
    is shown.
    """
    if found := problems(path):
        raise CredentialError("; ".join(found))
    # -P: a file in the working directory must not pass for one of the child's modules.
    command = [sys.executable, "-P", "-m", "pyrbacproxy.kube.resolve_kubeconfig", path]
    try:
        output = json.loads(child.output(command))
        if problem := output.get("problem"):
            raise CredentialError(f"kubeconfig {problem}")
        resolved = _taken(output)
    except subprocess.TimeoutExpired:
        raise CredentialError(f"kubeconfig {path}: not resolved in {CHILD_SECONDS:g} s") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CredentialError(f"kubeconfig {path}: could not be resolved") from None
    authorization = resolved.server.authorization
    if authorization and not is_header_text(authorization):
        raise CredentialError(f"kubeconfig {path}: its token is no token")
    return resolved


def _taken(output: dict[str, Any]) -> _Resolved:
    """What the child printed; raises what comes of it when it is something else."""
    files, is_from_plugin = output.pop("files"), output.pop("is_from_plugin")
    proxy_url, impersonation = output.pop("proxy_url"), output.pop("impersonation")
    changes = {
        "url": output["url"].rstrip("/"),
        "proxy": proxy_at(proxy_url) if proxy_url else None,
        "impersonation": tuple((name, value) for name, value in impersonation),
    }
    return _Resolved(ApiServer(**output | changes), files, is_from_plugin)
