"""The API server and our credential as the files say now: read again every minute and on a 401.

Reading happens in a thread: files may hang, and a kubeconfig takes a child process. A credential
that was good stays in use when its file cannot be read for a while, and that is said once (FR39).
"""

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pyrbacproxy.kube.kubeconfig import ApiServer, KubeSettings, is_header_text, problems
from pyrbacproxy.kube.resolve_kubeconfig import digest_of
from pyrbacproxy.regular_file import read_regular

_LOG = logging.getLogger(__name__)

REREAD_SECONDS = 60.0  # the reference's bound for the service account's token
RETRY_SECONDS = 5.0  # a file that cannot be read is not read for every review
CHILD_SECONDS = 20.0


class CredentialError(Exception):
    """There is no credential; the text is fit for a log."""


class Source(Protocol):
    """Where servers come from."""

    def read(self) -> ApiServer:
        """What the files say now (blocking); raises CredentialError."""
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

    async def current(self) -> ApiServer:
        """The API server, at most a minute old; raises CredentialError if there never was one."""
        if self._clock() >= self._due_at:
            await self._read()
        return self._known()

    async def after_refusal(self, refused: ApiServer) -> ApiServer:
        """The API server after a 401 to `refused`: read at once, unless somebody did already."""
        if self._server == refused:
            await self._read()
        return self._known()

    def close(self) -> None:
        """Let nobody wait for a reading: the process ends."""
        if self._reading is not None:
            self._reading.remove_done_callback(self._install)
        self._source.close()

    def _known(self) -> ApiServer:
        if self._server is None:
            raise CredentialError(self._problem)
        return self._server

    def begin_reading(self) -> asyncio.Future[ApiServer]:
        """Read in a thread, unless that is under way: what the files say is known to all later."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().run_in_executor(None, self._source.read)
            self._reading.add_done_callback(self._install)
        return self._reading

    async def _read(self) -> None:
        """Read, or wait for who is reading; the reading goes on when the one who waits gives up."""
        await asyncio.wait([self.begin_reading()])

    def _install(self, reading: asyncio.Future[ApiServer]) -> None:
        self._reading = None
        self._due_at = self._clock() + RETRY_SECONDS
        try:
            server = reading.result()
        except CredentialError as error:
            self._keep(str(error))
            return
        except Exception as error:  # noqa: BLE001 -- the loop that calls this has no use for it
            # Whatever it is, its words may quote a secret.
            self._keep(f"could not be read: {type(error).__name__}")
            return
        if self._server is not None and server != self._server:
            _LOG.info("API server credential has changed, connecting anew")
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


class ServiceAccount:
    """The in-cluster service account: two files."""

    def __init__(self, settings: KubeSettings) -> None:
        self._url = settings.server
        self._folder = Path(settings.service_account_folder)

    def read(self) -> ApiServer:
        """The files' content; raises CredentialError."""
        token, ca = _text(self._folder / "token").strip(), _text(self._folder / "ca.crt")
        if not is_header_text(token):
            raise CredentialError(f"{self._folder / 'token'} holds no token")
        return ApiServer(url=self._url, ca=ca, authorization=f"Bearer {token}")

    def close(self) -> None:
        """Nothing lasts."""


class Kubeconfig:
    """A kubeconfig, resolved by a child process when a file that it is made of has changed."""

    def __init__(self, path: str, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock
        self._server: ApiServer | None = None
        self._files: dict[str, str] = {}
        self._child = Child()

    def read(self) -> ApiServer:
        """The resolved server; raises CredentialError."""
        if self._server is None or self._has_changed(self._server):
            if found := problems(self._path):
                raise CredentialError("; ".join(found))
            self._server, self._files = _resolved(self._path, self._child)
        return self._server

    def close(self) -> None:
        """Without it, a signal soon after the start would wait for the child."""
        self._child.kill()

    def _has_changed(self, server: ApiServer) -> bool:
        if server.expires_at is not None and self._wall_clock() >= server.expires_at:
            return True
        return any(digest_of(Path(path)) != before for path, before in self._files.items())


def source_of(settings: KubeSettings) -> Source:
    """The source that the settings name."""
    return Kubeconfig(settings.kubeconfig) if settings.kubeconfig else ServiceAccount(settings)


def _text(path: Path) -> str:
    try:
        return read_regular(path).decode("latin-1")
    except OSError as error:
        raise CredentialError(f"{path} cannot be read: {error.strerror}") from None


class Child:
    """A program that is run for its output, and can be ended from another thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    def output(self, command: list[str]) -> bytes:
        """What it writes; "" when it was killed. Raises OSError, subprocess.TimeoutExpired."""
        with subprocess.Popen(  # noqa: S603 -- our own interpreter and module, and the operator's path
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            self._process = process
            if self._is_killed:
                process.kill()
            try:
                return process.communicate(timeout=CHILD_SECONDS)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            finally:
                self._process = None

    def kill(self) -> None:
        """End it, and any later one at once."""
        self._is_killed = True
        if (process := self._process) is not None:
            process.kill()


def _resolved(path: str, child: Child) -> tuple[ApiServer, dict[str, str]]:
    """Run the child; raises CredentialError. Its output is secret, and its stderr may be: neither
    is shown.
    """
    # -P: a file in the working directory must not pass for one of the child's modules.
    command = [sys.executable, "-P", "-m", "pyrbacproxy.kube.resolve_kubeconfig", path]
    try:
        output = json.loads(child.output(command))
        if problem := output.get("problem"):
            raise CredentialError(f"kubeconfig {problem}")
        files = output.pop("files")
        server = ApiServer(**output | {"url": output["url"].rstrip("/")})
    except subprocess.TimeoutExpired:
        raise CredentialError(f"kubeconfig {path}: not resolved in {CHILD_SECONDS:g} s") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CredentialError(f"kubeconfig {path}: could not be resolved") from None
    if server.authorization and not is_header_text(server.authorization):
        raise CredentialError(f"kubeconfig {path}: its token is no token")
    return server, files
