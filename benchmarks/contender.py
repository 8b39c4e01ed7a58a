"""A proxy to measure: how it is started, and who asks it."""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import api, world
from benchmarks.cgroup import Group
from benchmarks.loads import Client
from benchmarks.process import Program
from benchmarks.world import SIZES, World
from pyrbacproxy.demo.pki import client_context

OURS = "pyrbacproxy"


@dataclass(frozen=True, slots=True)
class Contender:
    """A proxy to measure. `token` is "" where the client certificate says who asks."""

    name: str
    command: Callable[[World, int], list[str]]
    token: str = api.TOKEN

    @contextmanager
    def running(self, around: World, group: Group | None = None) -> Iterator[tuple[Program, int]]:
        """Start it and wait for its first answer; end it afterwards."""
        with self.started(around, group) as (program, port):
            self._await_answer(around, program, port)
            yield program, port

    @contextmanager
    def started(self, around: World, group: Group | None = None) -> Iterator[tuple[Program, int]]:
        """Start it and wait for nothing; end it afterwards."""
        port = world.free_port()
        command = self.command(around, port)
        command = command if group is None else group.entered(command)
        program = Program(command, around.folder / f"proxy-{port}.log")
        try:
            yield program, port
        finally:
            program.stop()

    def context(self, around: World) -> ssl.SSLContext:
        """What its clients speak TLS with."""
        return client_context(around.authority, None if self.token else around.client)

    def _await_answer(self, around: World, program: Program, port: int) -> None:
        context = self.context(around)
        deadline = time.monotonic() + 20
        while True:
            program.assert_alive()
            try:
                client = Client(port, context, self.token)
                client.get(SIZES["160 B"])
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                client.close()
                return
