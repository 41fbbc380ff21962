"""A real single-node Apache Kafka (KRaft) on a local JVM, from jars that Maven copies and that are compared
with `jars.sha256` before every start.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.broker import handle
from sluice.broker.handle import BrokerError, JarsError, wait_until_ready
from sluice.broker.process_identity import ProcessIdentity
from sluice.secrets.secret_files import replace_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.broker.secured import BrokerSecurity
    from sluice.client.kafka_connection import KafkaCluster


HERE = Path(__file__).resolve().parent
POM = HERE / "pom.xml"
MANIFEST = HERE / "jars.sha256"
FETCH_S = 300.0


def read_manifest(path: Path = MANIFEST) -> dict[str, str]:
    """File name → SHA-256 in hex, from the lines `sha256sum` writes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line)
    return {name: digest for digest, name in pairs}


def verify(folder: Path, expected: dict[str, str]) -> None:
    """Raises JarsError naming each jar that is missing, extra or altered; `folder` may hold nothing else."""
    files = {path.name: path for path in folder.iterdir()}
    faults = [f"missing: {name}" for name in sorted(expected.keys() - files.keys())]
    faults += [f"not in the manifest: {name}" for name in sorted(files.keys() - expected.keys())]
    both = sorted(expected.keys() & files.keys())
    faults += [f"altered: {name}" for name in both if _compute_digest(files[name]) != expected[name]]
    if faults:
        raise JarsError(
            f"The jars in {folder} are not those of {MANIFEST.name}:\n  "
            + "\n  ".join(faults)
            + "\nRemove that folder to have them resolved again; if it persists, do not run them."
        )


def resolve(folder: Path) -> Path:
    """`folder`, holding exactly the jars of the manifest; fetched with Maven if it is not there yet.

    Raises JarsError when they differ from the manifest, BrokerError when Maven is missing or fails.
    """
    expected = read_manifest()
    if not folder.is_dir():
        _fetch_into(folder, expected)
    verify(folder, expected)
    return folder


def _fetch_into(folder: Path, expected: dict[str, str]) -> None:
    # Beside the target and renamed at the end: an interrupted or concurrent fetch never leaves half a folder.
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="jars-", dir=folder.parent))
    try:
        _copy_dependencies(fresh)
        verify(fresh, expected)
        _move_into_place(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _move_into_place(fresh: Path, folder: Path) -> None:
    try:
        os.rename(fresh, folder)  # noqa: PTH104 - Path.rename would say the same; the error below is os.rename's
    except OSError:
        if not folder.is_dir():
            raise  # otherwise another process was first; its copy is verified like ours


def _copy_dependencies(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerError("Maven (mvn) is not on the PATH")
    goal = [maven, "-B", "-q", "-C", "-f", str(POM), "dependency:copy-dependencies"]
    goal.append(f"-DoutputDirectory={target}")
    try:
        done = subprocess.run(goal, capture_output=True, text=True, check=False, timeout=FETCH_S)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise BrokerError(f"Maven did not resolve the broker's jars within {FETCH_S:.0f} s") from None
    if done.returncode != 0:
        raise BrokerError(
            f"Maven could not resolve the broker's jars:\n{(done.stdout + done.stderr)[-2000:]}"
        )


def _compute_digest(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


READY_S = 60.0
FORMAT_S = 60.0
STOP_S = 30.0
HEAP = "-Xmx512m"
LOG_TAIL = 2000
LOG_CONFIG = Path(__file__).resolve().parent / "log4j2.xml"


@dataclass(frozen=True)
class Layout:
    """Where a local broker keeps its things: `work` for configuration and log, `data`, and shared `jars`."""

    work: Path
    data: Path
    jars: Path

    @property
    def log(self) -> Path:
        return self.work / "broker.log"

    @property
    def properties(self) -> Path:
        return self.work / "server.properties"


@dataclass
class LocalBroker:
    """A broker on this machine's JVM. It outlives this object; `stop`, `kill` or `close` end it.

    Built by `launch`, or by `sluice.broker.locate` from what an earlier process wrote down. `more` are broker
    properties beyond those of `handle.SINGLE_NODE`; `security`: clients log in; without it they need not.
    `cluster_id`: the nodes of a cluster have the same; None: the storage gets a new one. `heap`: the JVM's
    option.
    """

    layout: Layout
    port: int
    controller_port: int
    identity: ProcessIdentity | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    security: BrokerSecurity | None = None
    cluster_id: str | None = None
    heap: str = HEAP
    kind: str = field(default="jvm", init=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def bootstrap_servers(self) -> str:
        return f"{handle.LOOPBACK}:{self.port}"

    @property
    def cluster(self) -> KafkaCluster:
        """How its administrator connects."""
        return self.bootstrap_servers if self.security is None else self.security.connect(self.port)

    def is_alive(self) -> bool:
        """Whether the JVM runs (it may not answer yet)."""
        return self.identity is not None and self.identity.is_alive()

    def start(self) -> None:
        """Format the storage unless it is, start the JVM, wait until it answers. Raises BrokerError."""
        if not self.is_alive():
            self.begin()
            self.wait()

    def begin(self) -> None:
        """Format the storage unless it is, and start the JVM: a node of a cluster answers only when most of
        its nodes run. Raises BrokerError."""
        java = _find_java()
        self._check_ports()
        self._prepare(java)
        self._launch(java)

    def wait(self) -> None:
        """Return when it answers. Raises BrokerError, and ends the JVM, when it does not in time."""
        if not wait_until_ready(self.cluster, READY_S, self.is_alive):
            ended = not self.is_alive()
            self.kill()
            what = "ended at once" if ended else f"did not answer within {READY_S:.0f} s"
            raise BrokerError(f"The broker {what}. The end of {self.layout.log}:\n{self._read_log_tail()}")

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it has not gone after `STOP_S` seconds."""
        self._end(signal.SIGTERM)
        if self.is_alive():
            self._end(signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop it. The data stay; the caller that named the folder removes them."""
        self.stop()

    def _end(self, number: signal.Signals) -> None:
        if self.identity is None:
            return
        self.identity.send_signal(number)
        gone = self.identity.wait_until_gone(STOP_S)
        if gone and self._child is not None:
            self._child.wait(STOP_S)
            self._child = None

    def _check_ports(self) -> None:
        more = [] if self.security is None else [self.security.tls_port]
        for port in (self.port, self.controller_port, *more):
            if not handle.is_free(port):
                raise BrokerError(
                    f"Port {port} on {handle.LOOPBACK} is taken by another program; name another port."
                )

    def _prepare(self, java: str) -> None:
        self.layout.work.mkdir(parents=True, exist_ok=True)
        resolve(self.layout.jars)
        where = handle.write_listeners(self.port, self.controller_port, handle.LOOPBACK)
        if self.security is not None:
            self.security.write_files()
            where |= self.security.write_properties(self.port, self.controller_port)
        settings = {**handle.SINGLE_NODE, **where, "log.dirs": str(self.layout.data), **self.more}
        replace_secret(self.layout.properties, handle.write_properties(settings).encode())
        if not (self.layout.data / "meta.properties").exists():
            self._format(java)

    def _format(self, java: str) -> None:
        self.layout.data.mkdir(parents=True, exist_ok=True)
        config = str(self.layout.properties)
        classes = self._locate_classes(java)
        fresh = classes.with_name(f"{uuid.uuid4().hex}.new")
        keeping = [] if classes.exists() else [f"-XX:ArchiveClassesAtExit={fresh}"]
        tool = ["kafka.tools.StorageTool", "format", "-t", self.cluster_id or make_cluster_id(), "-c", config]
        users = None if self.security is None else self.security.write_users()
        tool += [] if users is None else [f"@{users}"]
        command = [*self._build_command(java), *keeping, *tool]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FORMAT_S)  # noqa: S603
        except subprocess.TimeoutExpired:
            raise BrokerError(f"Formatting {self.layout.data} took over {FORMAT_S:.0f} s") from None
        finally:
            if users is not None:
                users.unlink(missing_ok=True)
        if done.returncode != 0:
            raise BrokerError(
                f"Could not format {self.layout.data}:\n{(done.stdout + done.stderr)[-LOG_TAIL:]}"
            )
        if keeping:
            with suppress(OSError):  # a JVM that cannot keep them goes on without
                fresh.rename(classes)

    def _launch(self, java: str) -> None:
        command = [*self._build_command(java), "kafka.Kafka", str(self.layout.properties)]
        with self.layout.log.open("ab") as log:
            # A session of its own: a Ctrl-C at the terminal that started it does not reach it.
            self._child = subprocess.Popen(  # noqa: S603 - our own command line
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.identity = ProcessIdentity.find(self._child.pid)

    def _build_command(self, java: str) -> list[str]:
        classpath = str(self.layout.jars / "*")
        classes = self._locate_classes(java)
        sharing = [f"-XX:SharedArchiveFile={classes}"] if classes.exists() else []
        flags = [self.heap, "-XX:+IgnoreUnrecognizedVMOptions", *sharing]
        return [java, *flags, f"-Dlog4j2.configurationFile={LOG_CONFIG}", "-cp", classpath]

    def _locate_classes(self, java: str) -> Path:
        """Where this JVM keeps the classes that it read and checked, beside the jars: a start that finds them
        takes three quarters of the processor time. The JVM sees for itself whether the jars are the same."""
        built = Path(java).resolve()
        name = hashlib.sha256(f"{built} {built.stat().st_mtime_ns}".encode()).hexdigest()[:16]
        return self.layout.jars.with_name(f"classes-{name}.jsa")

    def _read_log_tail(self) -> str:
        return self.layout.log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:]


def launch(
    layout: Layout,
    port: int | None = None,
    more: Mapping[str, str] | None = None,
    security: BrokerSecurity | None = None,
) -> LocalBroker:
    """Start a broker on `port` (and the next free one for its controller), or on free ports.

    `more`: broker properties in addition to those of every broker of ours; `security`: who may do what.

    Raises BrokerError: no JDK, no Maven, jars other than the manifest's, port taken, not ready in time.
    """
    chosen, controller = handle.find_free_ports(2)
    broker = LocalBroker(layout, port or chosen, controller, more=more or {}, security=security)
    try:
        broker.start()
    except BaseException:  # an interrupt too: nobody else would stop the JVM
        broker.close()
        raise
    return broker


def _find_java() -> str:
    java = shutil.which("java")
    if java is None:
        raise BrokerError("Java (java) is not on the PATH")
    return os.fspath(java)


def make_cluster_id() -> str:
    """16 random bytes, URL-safe base64, as the storage tool draws it. A leading dash would be an option."""
    drawn = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return drawn if not drawn.startswith("-") else f"A{drawn[1:]}"
