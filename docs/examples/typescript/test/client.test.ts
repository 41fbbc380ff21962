// The client against a gateway that fails in every way: no tool runs that was not allowed, and none runs twice.

import assert from "node:assert/strict";
import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, beforeEach, test } from "node:test";
import { canonicalize, encodeMessage, NotJson, SluiceClient, type Json, type JsonObject } from "../src/index.js";

interface Asked {
  method: string;
  url: string;
  key: string | undefined;
  text: string;
  body: Record<string, unknown>;
}
type Answering = (asked: Asked, response: ServerResponse) => void;

const VECTORS = process.env.RFC8785_VECTORS ?? "../../../tests/unit/core/data/rfc8785.jsonl";
const INPUT = { topic: "gate.actions.proposed", partition: 1, offset: 2, timestamp: 3, digest: `sha256:${"0".repeat(64)}` };
const seen: Asked[] = [];
let answering: Answering[] = [];
let ran: JsonObject[] = [];

const server = createServer((request: IncomingMessage, response: ServerResponse) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const text = Buffer.concat(chunks).toString();
    const asked: Asked = {
      method: request.method ?? "",
      url: request.url ?? "",
      key: request.headers["idempotency-key"] as string | undefined,
      text,
      body: text === "" ? {} : (JSON.parse(text) as Record<string, unknown>),
    };
    seen.push(asked);
    (answering.shift() ?? send(200, {}))(asked, response);
  });
});
await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
after(() => server.close());
beforeEach(() => {
  seen.length = 0;
  answering = [];
  ran = [];
});

const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const client = new SluiceClient({ url, apiKey: "k", agent: "a", session: "s", deadlineMs: 1000 });
const tool = { name: "t", run: (given: JsonObject) => (ran.push(given), "done") };

function send(status: number, body: unknown): Answering {
  return (_, response) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
}

function decide(verdict: string, status = 200, changed: object = {}): Answering {
  return (asked, response) =>
    send(status, {
      verdict_id: "verdict:gate.actions.proposed:1:2",
      action_id: asked.body.action_id ?? seen[0]?.body.action_id,
      agent_id: "a",
      session_id: "s",
      verdict,
      blockReason: "because",
      rows_reserved: 7,
      input: INPUT,
      ...changed,
    })(asked, response);
}

test("the canonical form is RFC 8785's", () => {
  const lines = readFileSync(VECTORS, "utf8").trim().split("\n");
  let compared = 0;
  for (const line of lines) {
    const { input, label } = JSON.parse(line) as { input: { json_b64?: string; canonical_b64?: string }; label: string };
    if (label !== "canonicalizes" || !input.json_b64 || !input.canonical_b64) continue;
    const value = JSON.parse(Buffer.from(input.json_b64, "base64").toString()) as Json;
    assert.equal(canonicalize(value), Buffer.from(input.canonical_b64, "base64").toString());
    compared += 1;
  }
  assert.ok(compared >= 5, `${compared} vectors`);
});

test("what JSON does not keep is refused before anything is sent", async () => {
  const cycle: JsonObject = {};
  cycle.self = cycle;
  const wrong: unknown[] = [undefined, NaN, 1n, new Date(), new Map(), () => 1, "\ud800", [, 1], { [Symbol()]: 1 }, cycle];
  for (const value of wrong)
    await assert.rejects(client.guard(tool)({ value } as unknown as JsonObject), NotJson, String(typeof value));
  assert.deepEqual([seen, ran], [[], []]);
});

test("an allowed tool runs once with the parameters that were judged, and its outcome is reported", async () => {
  const given = { b: [1, { c: "x" }], a: -0 };
  answering = [
    (asked, response) => {
      given.b.push(2); // while the gate decides
      decide("allowed")(asked, response);
    },
  ];
  assert.equal(await client.guard(tool)(given), "done");
  assert.deepEqual(ran, [{ a: 0, b: [1, { c: "x" }] }]);
  assert.ok(seen[0]?.text.includes('"parameters":{"a":0,"b":[1,{"c":"x"}]}'));
  const { action_id } = seen[0]?.body ?? {};
  assert.deepEqual([seen[0]?.key, seen[1]?.key], [action_id, `outcome-${String(action_id)}`]);
  assert.deepEqual(seen[1]?.body, { action_id, session_id: "s", rows_affected: 7, reported_by: "a" });
});

test("a permit is for one run", async () => {
  answering = [decide("allowed")];
  const permit = await client.permit("t", {});
  const both = await Promise.allSettled([permit.run(tool), permit.run(tool)]);
  assert.deepEqual([both.map(({ status }) => status), ran.length], [["fulfilled", "rejected"], 1]);
});

test("a repeat is the same request under the same key", async () => {
  answering = [send(503, {}), (_, response) => response.destroy(), send(504, {}), decide("allowed")];
  await client.guard(tool)({ n: 1 });
  const [first, ...others] = seen.slice(0, 4);
  for (const other of others) assert.deepEqual([other.key, other.text], [first?.key, first?.text]);
  assert.equal(ran.length, 1);
});

const FAULTS: [string, string, Answering][] = [
  ["denied", "ActionDenied", decide("denied", 422)],
  ["held", "ActionNeedsHuman", decide("needs_human", 202, { escalationId: "e" })],
  ["another action's", "AnswerUnreadable", decide("allowed", 200, { action_id: "other" })],
  ["another session's", "AnswerUnreadable", decide("allowed", 200, { session_id: "other" })],
  ["another agent's", "AnswerUnreadable", decide("allowed", 200, { agent_id: "other" })],
  ["allowed with an odd status", "AnswerUnreadable", decide("allowed", 202)],
  ["an unknown word", "AnswerUnreadable", decide("maybe")],
  ["no object", "AnswerUnreadable", send(200, null)],
  ["no verdict", "AnswerUnreadable", send(200, {})],
  ["no JSON", "AnswerUnreadable", (_, response) => response.end("<html>")],
  ["a wrong key", "RequestRefused", send(401, { error: { code: "no_key", message: "m", details: {} } })],
  ["a conflict", "RequestRefused", send(422, { error: { code: "idempotency_conflict", message: "m", details: {} } })],
];
for (const [what, name, answer] of FAULTS)
  test(`no tool runs after an answer that is ${what}`, async () => {
    answering = [answer];
    await assert.rejects(client.guard(tool)({}), { name });
    assert.deepEqual([ran, seen.length], [[], 1]);
  });

test("no tool runs where the gate does not answer, is away, or leads elsewhere", async () => {
  const hasty = new SluiceClient({ url, apiKey: "k", agent: "a", session: "s", deadlineMs: -4500 });
  const elsewhere: Answering = (_, response) => response.writeHead(307, { Location: `${url}/other` }).end();
  for (const one of [() => {}, elsewhere] as Answering[]) {
    answering = Array<Answering>(20).fill(one);
    await assert.rejects(hasty.guard(tool)({}), { name: "ActionNotDecided" });
  }
  assert.ok(seen.every((one) => one.url === "/v1/evaluate"));
  const away = new SluiceClient({ url: "http://127.0.0.1:1", apiKey: "k", agent: "a", session: "s", deadlineMs: -4500 });
  await assert.rejects(away.guard(tool)({}), { name: "ActionNotDecided" });
  assert.deepEqual(ran, []);
  server.closeAllConnections();
});

test("an approval lets the call run, with an approver's narrower parameters alone", async () => {
  const resolve: Answering = (asked, response) =>
    decide("allowed")(asked, {
      writeHead: () => ({
        end: (text: string) =>
          send(200, { escalation_id: "e", status: "approved", parameters: { n: 1 }, resolved: JSON.parse(text) })(
            asked,
            response,
          ),
      }),
    } as unknown as ServerResponse);
  answering = [
    decide("needs_human", 202, { escalationId: "e" }),
    send(202, { escalation_id: "e", status: "pending" }),
    resolve,
  ];
  await client.guard(tool, { approvalMs: 5000 })({ n: 100 });
  assert.deepEqual(ran, [{ n: 1 }]);
});

for (const status of ["denied", "expired"])
  test(`an approval that is ${status} runs nothing`, async () => {
    answering = [
      decide("needs_human", 202, { escalationId: "e" }),
      send(200, { escalation_id: "e", status, reason: "no", resolved: null }),
    ];
    await assert.rejects(client.guard(tool, { approvalMs: 5000 })({}), { name: "ApprovalRefused", status });
    assert.deepEqual(ran, []);
  });

test("an error of the tool is reported by its name and thrown", async () => {
  answering = [decide("allowed")];
  const failing = { name: "t", run: () => Promise.reject(new RangeError("secret")) };
  await assert.rejects(client.guard(failing)({}), RangeError);
  assert.equal(seen[1]?.body.error, "RangeError");
  assert.ok(!seen[1]?.text.includes("secret"));
});

test("an outcome that cannot be reported is told, and the result is there", async () => {
  const told: string[] = [];
  const careful = new SluiceClient({
    ...{ url, apiKey: "k", agent: "a", session: "s" },
    onUnreported: (_, actionId) => told.push(actionId),
  });
  answering = [decide("allowed", 200, { rows_reserved: "9007199254740993" })];
  assert.equal(await careful.guard(tool)({}), "done");
  assert.deepEqual([told, seen.length], [[seen[0]?.body.action_id], 1]);
});

test("a signed outcome names the action, for one installation", async () => {
  const { privateKey } = generateKeyPairSync("ed25519");
  const sign = { reportedBy: "p", key: privateKey, installation: "i", topicPrefix: "x." };
  answering = [decide("allowed")];
  await new SluiceClient({ url, apiKey: "k", agent: "a", session: "s", sign }).guard(tool)({});
  const { signature, ...record } = seen[1]?.body ?? {};
  assert.deepEqual([record.reported_by, record.input, record.action_digest], ["p", INPUT, INPUT.digest]);
  const message = encodeMessage("SluiceRecordV1", "i", "x.", canonicalize(record));
  assert.ok(verify(null, message, createPublicKey(privateKey), Buffer.from(String(signature), "base64")));
});
