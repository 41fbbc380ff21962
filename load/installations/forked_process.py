"""Processes of our own code, each a fork of one that has imported it: imports are most of a worker's start.

A module of a tree has one server in each process that asks for it. The server imports the module, calls its
`prepare` if it has one (which imports what `main` would), and has no thread. Each fork calls `main` as the
only program of an interpreter. Between server and fork stands a keeper, which reports the exit code and lets
nobody else have the fork's process id meanwhile.

    python -m load.installations.forked_process MODULE FD
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from load import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_NUMBER = struct.Struct("<i")
_MOST = 1 << 20
_START_S = 60.0


class ForkedProcess:
    """Started at once; what one needs of `subprocess.Popen`. Nobody else gets its process id before its exit
    code is read here."""

    def __init__(
        self,
        module: str,
        words: Sequence[str],
        environment: Mapping[str, str],
        output: int,
        tree: Path = ROOT,
    ) -> None:
        """`module`: with a `main`; `words`: its arguments; `output`: descriptor of a file for its output;
        `tree`: the checkout that it is of."""
        self._words = [module, *words]
        self._line, keeper = socket.socketpair()
        with keeper:
            call = json.dumps([self._words, dict(environment)]).encode()
            server = _start_server(module, tree)
            socket.send_fds(server, [_NUMBER.pack(len(call))], [keeper.fileno(), output])
            server.sendall(call)
        self._code: int | None = None
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """Its process id. Raises RuntimeError if it could not be started."""
        if self._pid is None:
            self._line.settimeout(_START_S)
            self._pid = self._receive()
        return self._pid

    def poll(self) -> int | None:
        """None while it runs; its exit code, or minus the signal that ended it."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float) -> int:
        """The exit code. Raises subprocess.TimeoutExpired after so many seconds."""
        while self._code is None:
            if not select.select([self._line], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._words, timeout)
            if self._pid is None:
                self._pid = self._receive()
            else:
                self._code = self._receive()
                self._line.close()
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def _receive(self) -> int:
        read = self._line.recv(_NUMBER.size, socket.MSG_WAITALL)
        if len(read) < _NUMBER.size:
            raise RuntimeError(f"{' '.join(self._words)} could not be started")
        return int(_NUMBER.unpack(read)[0])


def list_paths(tree: Path) -> dict[str, str]:
    """The environment in which Python takes the packages of this tree; empty for our own."""
    return (
        {}
        if tree == ROOT
        else {"PYTHONPATH": os.pathsep.join(map(str, (tree, tree / "app", tree / "topics")))}
    )


@cache
def _start_server(module: str, tree: Path) -> socket.socket:
    """The socket of this process's server."""
    ours, its = socket.socketpair()
    own = list_paths(tree) | {
        key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))
    }
    words = [sys.executable, "-m", "load.installations.forked_process", module, str(its.fileno())]
    with its:
        server = subprocess.Popen(words, cwd=tree, env=own, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()])

    def end() -> None:
        server.kill()
        server.wait()

    atexit.register(end)
    return ours


def serve(server: socket.socket) -> None:
    """Fork for each call until the other end is closed. Returns in a fork, whose program is then to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    while True:
        length, descriptors, _, _ = socket.recv_fds(server, _NUMBER.size, 2)
        if not length:
            os._exit(0)
        words, environment = json.loads(_read(server, _NUMBER.unpack(length)[0]))
        if os.fork() == 0:
            server.close()
            line, output = descriptors
            _keep(socket.socket(fileno=line), output)
            _become(words, environment, output)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(line: socket.socket, output: int) -> None:
    """Fork, and report how the fork ends. Returns in the fork alone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        line.close()
        return
    os.close(output)
    try:
        line.sendall(_NUMBER.pack(pid))
        ended: Any = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        line.sendall(_NUMBER.pack(code))
        line.recv(1)  # closed once the code is read
    finally:
        os._exit(0)


def _become(words: list[str], environment: dict[str, str], output: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words


def _read(server: socket.socket, length: int) -> bytes:
    read = b""
    while len(read) < length:
        read += server.recv(min(_MOST, length - len(read)))
    return read


if __name__ == "__main__":
    program = import_module(sys.argv[1])
    getattr(program, "prepare", lambda: None)()
    serve(socket.socket(fileno=int(sys.argv[2])))
    program.main()
