"""Tree heads on a real broker: what the signer publishes, when it refuses, and what a kill leaves behind."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from sluice.adapters.kafka import kafka_head_copies
from sluice.adapters.kafka.kafka_head_copies import HeadCluster
from sluice.adapters.kafka.kafka_topics import create
from sluice.adapters.kafka.kafka_tree_heads import HeadLimits, HeadSigner, read_heads
from sluice.bootstrap.observing import observe_signer
from sluice.cli.policy.key_files import make_private_key
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.trust.dsse import read_envelope
from sluice.core.trust.tree_heads import (
    HeadKeys,
    HeadRefused,
    HeadSeries,
    digest_head,
    open_head,
    sign_head,
)
from sluice.settings.reader import load_settings
from sluice_topics.access import HEAD_WRITER
from sluice_topics.audience import Audience
from sluice_topics.catalog import TREE_HEADS, VERDICTS
from sluice_topics.layout import TopicLayout
from tests.kafka.installation import delete_topics
from tests.kafka.laid_ledger import PARTITIONS, RECORDS, Ledger, genuine
from tests.unit.verifier.test_head_check import HEADS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sluice.core.registry.keys import SigningKey
    from sluice_topics.records.tree_heads import TreeHead

pytestmark = pytest.mark.kafka
EACH = RECORDS // PARTITIONS
VALUES = [head.value or b"" for head in HEADS]


class SignedLedger(Ledger):
    """A ledger with a head key, and the command set to both."""

    key: SigningKey
    environ: dict[str, str]

    def environment(self) -> dict[str, str]:
        """With the key, and a file that gets each head."""
        return super().environment() | self.environ

    def sign(self) -> tuple[int, str]:
        """Exit code and standard error of `sluice ledger sign-heads --once`."""
        return self.complain("ledger", "sign-heads", "--once")

    def make_signer(self, interval_s: float = 0.05) -> HeadSigner:
        """A signer in this process."""
        series = HeadSeries(HeadKeys([self.key.public]), Audience("", self.prefix))
        return HeadSigner(self.bootstrap_servers, series, [self.key], HeadLimits(interval_s, 1000))

    async def read_heads(self) -> list[TreeHead]:
        """The heads on the topic, each checked against the one before."""
        series = HeadSeries(HeadKeys([self.key.public]), Audience("", self.prefix))
        records = await read_heads(self.bootstrap_servers, self.prefix)
        return [series.take(record.value, record.timestamp_ms) for record in records]

    async def append(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Write committed records to a topic."""
        await self.append_to(self.prefix + topic, *values, partition=partition)

    async def append_to(self, name: str, *values: bytes, partition: int = 0) -> None:
        """The same, by the topic's real name."""
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers) as producer:
            for value in values:
                await producer.send_and_wait(name, value, b"k", partition=partition)


@pytest.fixture(autouse=True)
def _collect_fenced() -> Iterator[None]:
    """A fenced writer's futures are reported while its test runs, and not while a later one parses a file: a
    traceback that is formatted within `ast.parse` breaks that (CPython 3.11)."""
    yield
    gc.collect()


@pytest.fixture
def ledger(kafka: str, prefix: str, tmp_path: Path) -> SignedLedger:
    ledger = SignedLedger(kafka, prefix)
    key = make_private_key(tmp_path / "heads.pem")
    object.__setattr__(ledger, "key", key)
    environ = {
        "SLUICE_HEADS__SIGNING_KEY": str(tmp_path / "heads.pem"),
        "SLUICE_HEADS__COPY_FILE": str(tmp_path / "heads.jsonl"),
    }
    object.__setattr__(ledger, "environ", environ)
    return ledger


def continue_chain(count: int) -> list[bytes]:
    """Records that follow on the genuine chain of partition 0."""
    chain = Chain(0)
    for record in genuine():
        if record.partition == 0:
            chain.sequence += 1
            chain.head = "sha256:" + (record.value or b"").rpartition(b"sha256:")[2][:64].decode()
    return [chain.link(_write_verdict(1000 + number)) for number in range(count)]


def _write_verdict(offset: int) -> dict[str, Any]:
    source = {"topic": "gate.actions.proposed", "partition": 0, "offset": offset}
    body = {"schema": "sluice/verdict/v1", "verdict_id": f"verdict:gate.actions.proposed:0:{offset}"}
    return body | {"session_id": "k", "decided_at": "2026-01-01T00:00:00.000Z", "input": source}


def test_a_head_is_signed_over_what_is_committed_and_again_only_for_something_new(
    ledger: SignedLedger, tmp_path: Path
) -> None:
    asyncio.run(ledger.lay(genuine()))
    code, said = ledger.sign()
    assert (code, "head 1 signs 60 records" in said) == (0, True), said
    assert (ledger.sign())[0] == 0
    asyncio.run(ledger.append(VERDICTS, *continue_chain(2)))
    assert (ledger.sign())[0] == 0
    first, second = asyncio.run(ledger.read_heads())
    assert [part.size for part in first.partitions] == [EACH] * PARTITIONS
    assert [part.size for part in second.partitions] == [EACH + 2, *[EACH] * (PARTITIONS - 1)]
    values = [record.value for record in asyncio.run(read_heads(ledger.bootstrap_servers, ledger.prefix))]
    assert (tmp_path / "heads.jsonl").read_bytes().splitlines() == values


def test_nothing_is_signed_over_a_ledger_that_was_written_again(ledger: SignedLedger) -> None:
    """The topics are deleted and laid anew with another, consistent chain of which one partition is cut."""
    records = genuine()
    asyncio.run(ledger.lay(records))
    assert (ledger.sign())[0] == 0
    asyncio.run(ledger.append(VERDICTS, continue_chain(2)[1]))
    code, said = ledger.sign()
    assert (code, f"record {EACH + 1} is missing" in said) == (0, False)  # it may come from another topic yet
    asyncio.run(ledger.append(VERDICTS, continue_chain(1)[0].replace(b"verdict/v1", b"verdict/v2")))
    code, said = ledger.sign()
    assert code == 1
    assert f"record {EACH + 1} was altered" in said
    assert len(asyncio.run(ledger.read_heads())) == 1


async def test_a_kill_between_write_and_commit_leaves_one_head_of_a_size(ledger: SignedLedger) -> None:
    """The writer of a killed signer has an open transaction; the next one ends it before it reads."""
    await ledger.lay(genuine())
    killed = AIOKafkaProducer(
        bootstrap_servers=ledger.bootstrap_servers, transactional_id=ledger.prefix + HEAD_WRITER
    )
    await killed.start()
    await killed.begin_transaction()
    await killed.send_and_wait(ledger.prefix + TREE_HEADS, b"of the killed one", b"1", partition=0)
    try:
        assert await ledger.make_signer().run(once=True) is not None
        assert [(head.number, head.size) for head in await ledger.read_heads()] == [(1, RECORDS)]
    finally:
        await killed.stop()


async def test_heads_follow_a_ledger_that_grows_and_a_second_signer_ends_the_first(
    ledger: SignedLedger,
) -> None:
    await ledger.lay(genuine())
    first = ledger.make_signer()
    running = asyncio.create_task(first.run())
    for count, value in enumerate(continue_chain(2)):
        await _wait_for_size(ledger, running, RECORDS + count)
        await ledger.append(VERDICTS, value)
    await _wait_for_size(ledger, running, RECORDS + 2)
    second = ledger.make_signer()
    assert await second.run(once=True) is not None
    await ledger.append(VERDICTS, continue_chain(3)[2])
    with pytest.raises(HeadRefused, match="another head signer took over"):
        await asyncio.wait_for(running, 30)
    sizes = [head.size for head in await ledger.read_heads()]
    assert sizes == sorted(set(sizes))
    last = await asyncio.wait_for(ledger.make_signer().run(once=True), 30)
    assert last is not None
    assert last.size == RECORDS + 3


async def _wait_for_size(ledger: SignedLedger, running: asyncio.Task[TreeHead | None], size: int) -> None:
    for _ in range(300):
        assert not running.done()
        if any(head.size >= size for head in await ledger.read_heads()):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no head of {size} records")


def test_a_heads_topic_that_lost_heads_or_has_a_strangers_is_refused(
    ledger: SignedLedger, tmp_path: Path
) -> None:
    asyncio.run(ledger.lay(genuine()))
    assert (ledger.sign())[0] == 0
    copy = tmp_path / "heads.jsonl"
    copy.write_bytes(copy.read_bytes() * 2)
    code, said = ledger.sign()
    assert (code, "line 2 is head 1" in said) == (1, True), said
    copy.write_bytes(copy.read_bytes()[: len(copy.read_bytes()) // 2] + b'{"cut off')
    assert (ledger.sign())[0] == 0
    asyncio.run(ledger.append(TREE_HEADS, b"a stranger's"))
    code, said = ledger.sign()
    assert (code, "head 2 is no DSSE envelope" in said) == (1, True), said


def test_the_verifier_holds_the_ledger_against_heads_and_proofs_are_checked(
    ledger: SignedLedger, tmp_path: Path
) -> None:
    asyncio.run(ledger.lay(genuine()))
    assert (ledger.sign())[0] == 0
    asyncio.run(ledger.append(VERDICTS, *continue_chain(2)))
    assert (ledger.sign())[0] == 0
    key = ("--head-key", ledger.key.public.text)
    code, out = ledger.sluice("ledger", "verify", "--json", *key)
    report = json.loads(out)
    assert (code, report["findings"]) == (0, [])
    seen = {"count": 2, "last": 2, "size": RECORDS + 2, "signatures_checked": True, "witnessed": None}
    assert report["heads"] == seen
    wanted = json.loads(genuine()[7].value or b"")
    an_id = next(wanted[name] for name in ("verdict_id", "escalation_id", "dead_letter_id") if name in wanted)
    proof, growth = str(tmp_path / "proof.json"), str(tmp_path / "growth.json")
    assert (ledger.sluice("ledger", "prove", an_id, "--out", proof, *key))[0] == 0
    assert (ledger.sluice("ledger", "consistency", "1", "2", "--out", growth, *key))[0] == 0
    for file in (proof, growth):
        code, out = ledger.sluice("ledger", "check-proof", file, *key)
        assert (code, "It holds." in out) == (0, True), out
    assert (ledger.sluice("ledger", "prove", "verdict:x:0:999", *key))[0] == 1
    assert (ledger.sluice("ledger", "consistency", "1", "3", *key))[0] == 1


def test_a_tail_that_is_cut_off_and_a_partition_that_is_dropped_are_found(
    ledger: SignedLedger, kafka: str, tmp_path: Path
) -> None:
    """Whoever has all rights on the broker deletes the topics and lays them again; the heads were kept."""
    asyncio.run(ledger.lay(genuine()))
    assert (ledger.sign())[0] == 0
    asyncio.run(delete_topics(kafka, ledger.prefix))
    cut = [record for record in genuine() if record.partition != 2]
    asyncio.run(ledger.lay([record for record in cut if record.value != genuine()[RECORDS - 3].value]))
    key = ("--head-key", ledger.key.public.text)
    code, out = ledger.sluice("ledger", "verify", "--json", *key)
    assert [each["code"] for each in json.loads(out)["findings"]] == ["head_missing"]
    more = ("--heads", str(tmp_path / "heads.jsonl"))
    code, out = ledger.sluice("ledger", "verify", "--json", *key, *more)
    findings = {(each["code"], each["partition"]) for each in json.loads(out)["findings"]}
    assert (code, findings) == (1, {("head_missing", 0), ("truncated", 0), ("dropped", 2)})
    code, said = ledger.sign()
    assert (code, "the topic was cut off" in said) == (1, True), said


def test_a_second_cluster_gets_each_head_and_shows_what_the_first_lost(
    ledger: SignedLedger, kafka: str, tmp_path: Path
) -> None:
    """Another prefix stands for another cluster, whose broker is away at first."""
    second, prefix = tmp_path / "second.toml", ledger.prefix + "second-"
    ledger.environ["SLUICE_HEADS__SECOND_SETTINGS"] = str(second)
    ledger.environ["SLUICE_HEADS__SECOND_TIMEOUT_S"] = "3"
    asyncio.run(ledger.lay(genuine()))
    there = Ledger(kafka, prefix)
    assert there.sluice("topics", "create", "--only", TREE_HEADS)[0] == 0
    assert there.complain("topics", "create", "--only", "gate.nothing")[0] == 2
    second.write_text(
        f'[kafka]\nbootstrap_servers = "{kafka}"\ntopic_prefix = "{prefix}"\n', encoding="utf-8"
    )
    assert (ledger.sign())[0] == 0
    asyncio.run(ledger.append(VERDICTS, *continue_chain(2)))
    assert (ledger.sign())[0] == 0
    values = [record.value for record in asyncio.run(read_heads(kafka, ledger.prefix))]
    assert [record.value for record in asyncio.run(read_heads(kafka, prefix))] == values
    asyncio.run(delete_topics(kafka, ledger.prefix + "gate."))
    asyncio.run(ledger.lay([record for record in genuine() if record.partition != 2]))
    (tmp_path / "heads.jsonl").unlink()
    code, out = ledger.sluice("ledger", "verify", "--json", "--head-key", ledger.key.public.text)
    findings = {(each["code"], each["partition"]) for each in json.loads(out)["findings"]}
    assert code == 1
    assert findings == {("head_missing", 0), ("truncated", 0), ("dropped", 2)}
    code, said = ledger.sign()
    assert (code, "the topic was cut off" in said) == (1, True), said


def add_second_cluster(ledger: SignedLedger, tmp_path: Path) -> Ledger:
    """Another prefix stands for another cluster, whose topic is made."""
    there = Ledger(ledger.bootstrap_servers, ledger.prefix + "second-")
    path = tmp_path / "second.toml"
    kafka = f'[kafka]\nbootstrap_servers = "{there.bootstrap_servers}"\ntopic_prefix = "{there.prefix}"\n'
    path.write_text(kafka, encoding="utf-8")
    ledger.environ["SLUICE_HEADS__SECOND_SETTINGS"] = str(path)
    assert there.sluice("topics", "create", "--only", TREE_HEADS)[0] == 0
    return there


def read_values(ledger: Ledger) -> list[bytes]:
    """What lies on the topic of heads."""
    records = asyncio.run(read_heads(ledger.bootstrap_servers, ledger.prefix))
    return [record.value or b"" for record in records]


def test_what_strangers_write_on_the_second_cluster_stops_no_head(
    ledger: SignedLedger, tmp_path: Path
) -> None:
    """One open transaction, garbage, an empty record, and the next head, signed by a stranger."""
    there = add_second_cluster(ledger, tmp_path)
    asyncio.run(ledger.lay(genuine()))
    assert ledger.sign()[0] == 0
    (first,) = read_values(ledger)
    stranger = make_private_key(tmp_path / "stranger.pem")
    head = open_head(first, 1)[1]
    later = head.model_copy(update={"number": 2, "previous": digest_head(open_head(first, 1)[0])})
    strange = [b"garbage", b"", b"{}", sign_head(later, [stranger]).encode()]

    async def write_strange() -> AIOKafkaProducer:
        strangers = {"bootstrap_servers": there.bootstrap_servers, "transactional_id": there.prefix + "x"}
        producer = AIOKafkaProducer(**strangers)
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(there.prefix + TREE_HEADS, b"open", partition=0)
        await ledger.append_to(there.prefix + TREE_HEADS, *strange)
        await ledger.append(VERDICTS, *continue_chain(1))
        return producer

    with asyncio.Runner() as runner:
        producer = runner.run(write_strange())
        code, complaint = ledger.sign()
        runner.run(producer.stop())
    assert (code, "head 2 signs" in complaint) == (0, True), complaint
    assert ledger.sign()[0] == 0
    assert len(read_values(ledger)) == 2
    assert [value for value in read_values(there) if value not in strange] == read_values(ledger)


def test_a_second_cluster_that_lost_its_heads_gets_them_again(ledger: SignedLedger, tmp_path: Path) -> None:
    there = add_second_cluster(ledger, tmp_path)
    asyncio.run(ledger.lay(genuine()))
    assert ledger.sign()[0] == 0
    asyncio.run(delete_topics(there.bootstrap_servers, there.prefix))
    asyncio.run(ledger.append(VERDICTS, *continue_chain(1)))
    assert ledger.sign()[0] == 0
    assert there.sluice("topics", "create", "--only", TREE_HEADS)[0] == 0
    assert ledger.sign()[0] == 0
    assert read_values(there) == read_values(ledger)


def make_copies(ledger: SignedLedger, prefix: str, timeout_s: float = 20) -> HeadCluster:
    trusted = HeadKeys([ledger.key.public]), Audience("", ledger.prefix)
    return HeadCluster(ledger.bootstrap_servers, prefix, trusted, timeout_s)


async def test_a_second_cluster_that_was_away_gets_its_heads_later(
    ledger: SignedLedger, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = ledger.prefix + "second-"
    layout = TopicLayout(prefix, prefix, 1, only=frozenset({TREE_HEADS}))
    await create(kafka, layout, 1)
    await ledger.lay(genuine())
    assert await ledger.make_signer().run(once=True) is not None
    values = [record.value or b"" for record in await read_heads(kafka, ledger.prefix)]
    envelope, head = open_head(values[0], 1)
    away, copies = make_copies(ledger, prefix + "away-", 1), make_copies(ledger, prefix)
    for each in (away, copies):
        each.take(1, digest_head(envelope), values[0])
        await each.require_no_later(1)
    await away.deliver()
    for _ in range(3):
        await copies.deliver()
    assert [record.value for record in await read_heads(kafka, prefix)] == values
    lost_answer = make_copies(ledger, prefix)
    lost_answer.take(1, digest_head(envelope), values[0])
    with monkeypatch.context() as patch:
        patch.setattr(AIOKafkaProducer, "start", _fail_to_start)
        await lost_answer.deliver()
    assert [record.value for record in await read_heads(kafka, prefix)] == values
    with pytest.raises(
        HeadRefused, match=r"the topic ends with head 0, and .* has head 1: the topic was cut"
    ):
        await make_copies(ledger, prefix).require_no_later(0)
    other = sign_head(head.model_copy(update={"signed_at": "2026-01-01T00:00:00.000Z"}), [ledger.key])
    forked = make_copies(ledger, prefix)
    forked.take(1, digest_head(other), other.encode())
    with pytest.raises(HeadRefused, match="head 1 is another than that on"):
        await forked.deliver()


async def _fail_to_start(_: AIOKafkaProducer) -> None:
    raise KafkaConnectionError("on purpose")


async def test_of_a_second_cluster_only_what_is_new_is_read_for_a_new_head(
    ledger: SignedLedger, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = ledger.prefix + "second-"
    await create(kafka, TopicLayout(prefix, prefix, 1, only=frozenset({TREE_HEADS})), 1)
    await ledger.append_to(prefix + TREE_HEADS, *[b"garbage"] * 200)
    read: list[bytes] = []

    def note(value: bytes) -> object:
        read.append(value)
        return read_envelope(value)

    monkeypatch.setattr(kafka_head_copies, "read_envelope", note)
    copies = make_copies(ledger, prefix)
    counts = []
    for number, value in enumerate(VALUES, start=1):
        copies.take(number, digest_head(open_head(value, number)[0]), value)
        await copies.deliver()
        counts.append(len(read))
    assert counts == [200, 201, 202]
    assert [record.value for record in await read_heads(kafka, prefix)][200:] == VALUES


def test_the_signer_shows_how_old_its_newest_head_is_and_what_it_does_not_state(ledger: SignedLedger) -> None:
    asyncio.run(ledger.lay(genuine()))
    environ = {**ledger.environment(), "SLUICE_HEADS__METRICS_ADDRESS": "127.0.0.1:0"}
    observed = observe_signer(load_settings(environment=environ))
    assert observed is not None
    observed.listener.start()
    try:
        address = f"http://127.0.0.1:{observed.listener.port}"
        assert httpx2.get(f"{address}/readyz").json()["waits_for"] == ["broker: it is not connected"]
        series = HeadSeries(HeadKeys([ledger.key.public]), Audience("", ledger.prefix))
        limits = HeadLimits(0.05, 1000)
        signer = HeadSigner(ledger.bootstrap_servers, series, [ledger.key], limits, observer=observed.metrics)
        head = asyncio.run(signer.run(once=True))
        assert head is not None
        assert httpx2.get(f"{address}/readyz").status_code == 200
        shown = httpx2.get(f"{address}/metrics").text
    finally:
        observed.listener.stop()
    numbers = dict(line.split(" ") for line in shown.splitlines() if line.startswith("sluice_"))
    assert float(numbers["sluice_heads_signed_total"]) == 1
    assert float(numbers["sluice_unsigned_records"]) == 0
    assert float(numbers["sluice_head_timestamp_seconds"]) == read_milliseconds(head.signed_at) / 1000
