"""`sluice` for a shell: each call a fork of one process that has imported everything.

`python -m tests.documents.ready_process SOCKET` serves. What `write_client` writes stands for `sluice`:
it hands over words, folder, environment and streams, and ends with the code of the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

MOST = 1 << 20
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(call).to_bytes(4, "big")], [0, 1, 2])
server.sendall(call)
pid = int.from_bytes(server.recv(4), "big")
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
code = server.recv(1)
sys.exit(code[0] if code else 137)
"""


def write_client(path: Path, address: Path) -> None:
    """A program that calls the process behind the address."""
    path.write_text(CLIENT.format(python=sys.executable, address=str(address)))
    path.chmod(0o755)


def serve(address: Path) -> NoReturn:
    """Until it is stopped by a signal."""
    from sluice.cli.main import VERBS  # noqa: PLC0415 - the client has no packages

    for verb in VERBS.values():
        import_module(verb.module)
    import_module("sluice.bootstrap.parts")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        while True:
            calling, _ = listening.accept()
            with calling:
                if os.fork() == 0:
                    listening.close()
                    _run(calling)


def _run(calling: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, _, _ = socket.recv_fds(calling, 4, 3)
    words, folder, environment = json.loads(_all(calling, int.from_bytes(length, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    calling.sendall(os.getpid().to_bytes(4, "big"))
    code = _exit_code()
    for told in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            told.flush()
    with contextlib.suppress(OSError):
        calling.sendall(bytes([code]))
    os._exit(code)


def _exit_code() -> int:
    from sluice.cli.main import main  # noqa: PLC0415 - imported by `serve`

    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - told as Python tells it, in the command's own stream
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _all(calling: socket.socket, length: int) -> bytes:
    read = b""
    while len(read) < length:
        read += calling.recv(MOST)
    return read


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
