// A tool that runs only if the gate allows this very call: the contract of docs/clients.md, with kafkajs.
//
// node guarded.js SERVERS PREFIX AGENT TOOL SESSION…: one call in each session; a line of JSON for each.
// AGENT_KEY names the PEM file of an agent that signs, SLUICE_POLICY__INSTALLATION the installation it signs for.

import { createHash, createPrivateKey, createPublicKey, randomBytes, randomUUID, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import kafkajs from "kafkajs";

const ACTIONS = "gate.actions.proposed";
const OUTCOMES = "gate.outcomes";
const ANSWERS = ["gate.verdicts", "gate.dead_letters"];
const DEADLINE_MS = 60_000;

export class Gate {
  #waiting = new Map(); // ce_id of an answer: who waits for it
  #early = new Map(); // by ce_id, answers that came before the coordinates of their input
  #placing = 0;

  constructor(servers, prefix, agent, key, installation) {
    this.prefix = prefix;
    this.agent = agent;
    this.key = key;
    this.installation = installation;
    const kafka = new kafkajs.Kafka({ brokers: servers.split(","), logLevel: kafkajs.logLevel.ERROR });
    this.admin = kafka.admin();
    // The default partitioner is Java's: murmur2 of the key.
    const createPartitioner = kafkajs.Partitioners.DefaultPartitioner;
    this.producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner });
    this.group = `${prefix}client-${randomUUID()}`;
    this.consumer = kafka.consumer({ groupId: this.group, maxWaitTimeInMs: 100 }); // read_committed by default
  }

  // Connect, and read the answers from where they end now: later, one could be missed.
  async start() {
    await Promise.all([this.admin.connect(), this.producer.connect(), this.consumer.connect()]);
    const topics = ANSWERS.map((name) => this.prefix + name);
    const ends = new Map();
    for (const topic of topics) ends.set(topic, await this.admin.fetchTopicOffsets(topic));
    const joined = new Promise((done) => this.consumer.on(this.consumer.events.GROUP_JOIN, done));
    await this.consumer.subscribe({ topics });
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, message }) => this.#take(topic, message),
    });
    await joined;
    for (const [topic, partitions] of ends)
      for (const { partition, high } of partitions) this.consumer.seek({ topic, partition, offset: high });
  }

  async close() {
    await this.consumer.disconnect();
    await this.admin.deleteGroups([this.group]);
    await Promise.all([this.producer.disconnect(), this.admin.disconnect()]);
  }

  // Run the tool if the gate allows it, and report what it did. Throws where it must not run.
  async guarded(session, toolName, parameters, run) {
    const action = {
      action_id: randomUUID(),
      agent_id: this.agent,
      session_id: session,
      toolName,
      parameters,
      mode: "high_stakes",
      deadline_ms: DEADLINE_MS,
    };
    const verdict = await this.#decided(session, action);
    if (verdict.verdict !== "allowed") throw new Error(`${verdict.verdict}: ${verdict.blockReason}`);
    const outcome = {
      action_id: action.action_id,
      session_id: session,
      reported_by: this.agent,
      rows_affected: verdict.rows_reserved,
    };
    try {
      return await run(parameters);
    } catch (error) {
      outcome.error = error.name;
      throw error;
    } finally {
      await this.#publish(OUTCOMES, session, outcome);
    }
  }

  async #decided(session, action) {
    this.#placing += 1;
    let ids;
    let answer;
    try {
      const { partition, baseOffset, digest } = await this.#publish(ACTIONS, session, action);
      const place = `${ACTIONS}:${partition}:${baseOffset}`;
      ids = [`verdict:${place}`, `dead_letter:${place}`];
      answer = this.#expect(ids, (record) => answers(record, action, { place, digest }));
    } finally {
      this.#placing -= 1;
      if (this.#placing === 0) this.#early.clear();
    }
    let timer;
    const late = new Promise((_, fail) => {
      timer = setTimeout(() => fail(new Error("not decided in time")), DEADLINE_MS);
    });
    try {
      const { topic, record } = await Promise.race([answer, late]);
      if (topic.endsWith("gate.dead_letters")) throw new Error(`${record.code} at ${record.path}`);
      return record;
    } finally {
      clearTimeout(timer);
      for (const id of ids) this.#waiting.delete(id);
    }
  }

  async #publish(topic, session, record) {
    const value = JSON.stringify(record);
    const name = this.prefix + topic;
    const headers = this.key
      ? { "sluice-signature": signature(this.key, this.installation, name, session, value) }
      : {};
    const messages = [{ key: session, value, headers }];
    const [place] = await this.producer.send({ topic: name, acks: -1, messages });
    return { ...place, digest: `sha256:${createHash("sha256").update(value).digest("hex")}` };
  }

  // The first record under one of the ids that answers; a stranger's, which does not, is passed over.
  #expect(ids, isAnswer) {
    return new Promise((found) => {
      const take = (answer) => isAnswer(answer.record) && found(answer);
      for (const id of ids) {
        this.#waiting.set(id, take);
        for (const answer of this.#early.get(id) ?? []) take(answer);
      }
    });
  }

  #take(topic, message) {
    const id = String(message.headers.ce_id);
    let record;
    try {
      record = JSON.parse(message.value);
    } catch {
      return; // no worker writes that
    }
    const answer = { topic, record };
    this.#waiting.get(id)?.(answer);
    if (this.#placing > 0) this.#early.set(id, [...(this.#early.get(id) ?? []), answer]);
  }
}

// Whether a record is the answer to this very input. A dead letter cannot say what it could not read.
function answers(record, action, { place, digest }) {
  const { topic, partition, offset, digest: seen } = record?.input ?? {};
  const names = ["action_id", "agent_id", "session_id"];
  const same = names.every((name) => (record[name] ?? action[name]) === action[name]);
  return `${topic}:${partition}:${offset}` === place && seen === digest && same;
}

// What an agent that signs puts beside each input. `topic` is the whole name.
function signature(key, installation, topic, session, value) {
  const publicKey = createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32);
  const keyId = createHash("sha256").update(publicKey).digest("hex");
  const time = String(Date.now());
  const nonce = randomBytes(16).toString("base64url");
  const parts = [installation, topic, session, keyId, time, nonce, value];
  const signed = ["SluiceInputV1", ...parts.map((part) => `${Buffer.byteLength(part)} ${part}`)].join(" ");
  return `v1 ${keyId} ${time} ${nonce} ${sign(null, Buffer.from(signed), key).toString("base64")}`;
}

const [servers, prefix, agent, tool, ...sessions] = process.argv.slice(2);
const file = process.env.AGENT_KEY;
const installation = process.env.SLUICE_POLICY__INSTALLATION ?? "";
const gate = new Gate(servers, prefix, agent, file && createPrivateKey(readFileSync(file)), installation);
await gate.start();
try {
  for (const session of sessions) {
    try {
      const result = await gate.guarded(session, tool, { table: "orders" }, async ({ table }) => `read ${table}`);
      console.log(JSON.stringify({ session, result }));
    } catch (error) {
      console.log(JSON.stringify({ session, refused: error.message }));
    }
  }
} finally {
  await gate.close();
}
