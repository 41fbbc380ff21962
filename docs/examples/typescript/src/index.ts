// A tool runs only if the gate allows this very call, with exactly the arguments that were judged.

import { randomUUID, type KeyObject } from "node:crypto";
import { canonicalize, type JsonObject } from "./canonical.js";
import type {
  ActionRequest,
  ErrorDetail,
  EscalationResponse,
  EvaluationResponse,
  OutcomeRequest,
} from "./gateway_types.js";
import {
  ActionDenied,
  ActionNeedsHuman,
  ActionNotDecided,
  AnswerUnreadable,
  ApprovalRefused,
  PermitUsed,
  RequestRefused,
} from "./refusals.js";
import { readKey, signRecord, type OutcomeSigner } from "./signing.js";

export * from "./canonical.js";
export * from "./refusals.js";
export * from "./signing.js";
export type * from "./gateway_types.js";

/** `sign`: the enforcement point that signs outcomes; without it they are reported unsigned. */
export interface ClientOptions {
  url: string;
  apiKey: string;
  agent: string;
  /** The session of calls that name none. */
  session?: string;
  sign?: OutcomeSigner;
  /** How long a call waits for its decision, in ms: 60 000. */
  deadlineMs?: number;
  /** Hears of an outcome that could not be reported; else it is a warning of the process. */
  onUnreported?: (error: unknown, actionId: string) => void;
}

/** `more`: further fields of the action, such as `reasoning` or `rows_affected`. */
export interface CallOptions {
  session?: string;
  deadlineMs?: number;
  more?: Omit<ActionRequest, "action_id" | "agentId" | "sessionId" | "toolName" | "parameters" | "mode" | "deadline_ms">;
}

/** `approvalMs`: how long a call that needs a person waits for one; without it, it is refused. */
export interface GuardOptions extends CallOptions {
  approvalMs?: number;
}

/** A tool. `rows`: the rows that it touched, from its result; without it those that the gate reserved. */
export interface Tool<P extends JsonObject, R> {
  name: string;
  run: (parameters: P) => R | Promise<R>;
  rows?: (result: R) => number;
}

/** A call that waits for a person, as plain JSON that can be kept. `parameters`: the canonical text judged. */
export interface WaitingCall {
  escalationId: string;
  verdictId: string;
  actionId: string;
  session: string;
  toolName: string;
  parameters: string;
}

type Rows = (() => number) | null;
type Call = Omit<WaitingCall, "escalationId" | "verdictId">;
interface Answer {
  status: number;
  body: unknown;
}

const RETRIED = new Set([408, 425, 429, 500, 502, 503, 504]);
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
const ANSWER_MS = 5_000; // an answer may come so long after the deadline that the gateway was given
const LONGEST_WAIT_S = 30;
const REPORT_MS = 30_000;

/** Leave to run one call once. */
export class Permit {
  #used = false;
  readonly #settle: (rows: Rows, error: string | null) => Promise<void>;

  constructor(
    readonly verdict: EvaluationResponse,
    private readonly judged: string,
    settle: (rows: Rows, error: string | null) => Promise<void>,
  ) {
    this.#settle = settle;
  }

  /** A copy of the parameters that were judged, or that an approver put in their place. */
  get parameters(): JsonObject {
    return JSON.parse(this.judged) as JsonObject;
  }

  /** Run the tool, and report what it did. Throws PermitUsed the second time, and what the tool throws. */
  async run<P extends JsonObject, R>(tool: Pick<Tool<P, R>, "run" | "rows">): Promise<R> {
    if (this.#used) throw new PermitUsed("a permit is for one run");
    this.#used = true;
    let result: R;
    try {
      result = await tool.run(this.parameters as P);
    } catch (error) {
      await this.#settle(null, error instanceof Error ? error.name : typeof error); // no message: it may hold content
      throw error;
    }
    await this.#settle(tool.rows === undefined ? null : () => tool.rows!(result), null);
    return result;
  }
}

/** One agent's way to the gate. Every fault before the tool runs is thrown, and the tool does not run. */
export class SluiceClient {
  readonly #options: ClientOptions;
  readonly #key: KeyObject | null;

  constructor(options: ClientOptions) {
    if (options.url === "" || options.apiKey === "" || options.agent === "")
      throw new TypeError("url, apiKey and agent must be given");
    this.#options = options;
    this.#key = options.sign === undefined ? null : readKey(options.sign.key);
    if (options.sign?.installation === "") throw new TypeError("a signature is for one installation: name it");
  }

  /** The tool behind the gate. Throws a Refusal where it must not run. */
  guard<P extends JsonObject, R>(tool: Tool<P, R>, options: GuardOptions = {}): (parameters: P) => Promise<R> {
    return async (parameters) => {
      let permit: Permit;
      try {
        permit = await this.permit(tool.name, parameters, options);
      } catch (error) {
        if (!(error instanceof ActionNeedsHuman) || options.approvalMs === undefined) throw error;
        permit = await this.awaitApproval(error.call, options.approvalMs);
      }
      return permit.run(tool);
    };
  }

  /** Ask the gate about one call. Throws a Refusal unless it is allowed, and NotJson for other parameters. */
  async permit(toolName: string, parameters: JsonObject, options: CallOptions = {}): Promise<Permit> {
    const session = options.session ?? this.#options.session;
    if (session === undefined) throw new TypeError("the action has no session");
    const deadlineMs = options.deadlineMs ?? this.#options.deadlineMs ?? 60_000;
    const call: Call = { actionId: randomUUID(), session, toolName, parameters: canonicalize(parameters) };
    const asked: ActionRequest = {
      ...options.more,
      action_id: call.actionId,
      agentId: this.#options.agent,
      sessionId: session,
      toolName,
      parameters: JSON.parse(call.parameters) as JsonObject, // a copy: the caller may change its own
      mode: "high_stakes",
      deadline_ms: deadlineMs,
    };
    const { status, body } = await this.#post("/v1/evaluate", canonicalize(asked), call.actionId, deadlineMs);
    const verdict = this.#readVerdict(body, call);
    if (verdict.verdict === "denied") throw new ActionDenied(verdict);
    if (verdict.verdict === "needs_human") {
      if (typeof verdict.escalationId !== "string") throw new ActionDenied(verdict);
      throw new ActionNeedsHuman(verdict, {
        ...call,
        escalationId: verdict.escalationId,
        verdictId: verdict.verdict_id,
      });
    }
    if (status !== 200) throw new AnswerUnreadable(`the status ${status} with the verdict ${verdict.verdict}`);
    return this.#makePermit(verdict, call, call.parameters);
  }

  /** Wait until a person let a call run. The permit has the approver's parameters, where those are narrower. */
  async awaitApproval(call: WaitingCall, timeoutMs: number): Promise<Permit> {
    const end = Date.now() + timeoutMs;
    const path = `/v1/escalations/${encodeURIComponent(call.escalationId)}`;
    for (;;) {
      const left = end - Date.now();
      if (left <= 0) throw new ActionNotDecided(`nobody answered ${call.escalationId} in time`);
      const wait = Math.min(Math.ceil(left / 1000), LONGEST_WAIT_S);
      const { body } = await this.#send("GET", `${path}?wait=${wait}`, null, null, left, wait * 1000 + ANSWER_MS);
      const found = body as Partial<EscalationResponse>;
      if (found.escalation_id !== call.escalationId) throw new AnswerUnreadable("it is about another escalation");
      if (found.status === "pending") {
        await pause(Math.min(FIRST_PAUSE_MS, left));
        continue;
      }
      if (found.status === "denied" || found.status === "expired")
        throw new ApprovalRefused(call.escalationId, found.status, found.reason ?? null);
      if (found.status !== "approved") throw new AnswerUnreadable(`an escalation is ${String(found.status)}`);
      const verdict = this.#readVerdict(found.resolved, call);
      if (verdict.verdict !== "allowed") throw new ActionDenied(verdict);
      const narrowed = found.parameters ?? null;
      return this.#makePermit(verdict, call, narrowed === null ? call.parameters : canonicalize(narrowed));
    }
  }

  #makePermit(verdict: EvaluationResponse, call: Call, parameters: string): Permit {
    return new Permit(verdict, parameters, async (rows, error) => {
      try {
        await this.#report(verdict, call, rows, error);
      } catch (fault) {
        if (this.#options.onUnreported === undefined)
          process.emitWarning(`the outcome of ${call.actionId} was not reported: ${String(fault)}`, "SluiceUnreported");
        else this.#options.onUnreported(fault, call.actionId);
      }
    });
  }

  async #report(verdict: EvaluationResponse, call: Call, rows: Rows, error: string | null): Promise<void> {
    const affected = rows?.() ?? verdict.rows_reserved;
    // A reservation beyond 2^53 is a text, which no number says: it stands, as without an outcome.
    if (!Number.isSafeInteger(affected) || Number(affected) < 0) throw new TypeError(`${affected} is no count of rows`);
    const { sign } = this.#options;
    const outcome: OutcomeRequest & { session_id: string } = {
      action_id: call.actionId,
      session_id: call.session,
      rows_affected: Number(affected),
      reported_by: sign?.reportedBy ?? this.#options.agent,
      ...(error === null ? {} : { error }),
    };
    if (sign !== undefined && this.#key !== null) {
      if (verdict.input === null || verdict.input === undefined) throw new TypeError("the verdict names no input");
      outcome.action_digest = verdict.input.digest;
      outcome.input = verdict.input;
      outcome.signature = signRecord(outcome as unknown as JsonObject, this.#key, sign);
    }
    await this.#post("/v1/outcomes", canonicalize(outcome), `outcome-${call.actionId}`, REPORT_MS);
  }

  #readVerdict(body: unknown, call: Call): EvaluationResponse {
    const found = body as Partial<EvaluationResponse> | null | undefined;
    const words: unknown[] = ["allowed", "denied", "needs_human"];
    if (typeof found !== "object" || found === null || !words.includes(found.verdict))
      throw new AnswerUnreadable("it is no verdict");
    const same =
      found.action_id === call.actionId && found.session_id === call.session && found.agent_id === this.#options.agent;
    if (found.verdict === "allowed" && !same) throw new AnswerUnreadable("it is the verdict on another action");
    return found as EvaluationResponse;
  }

  #post(path: string, body: string, key: string, deadlineMs: number): Promise<Answer> {
    return this.#send("POST", path, body, key, deadlineMs);
  }

  /** The same request until it is answered: under its key it is decided once, however often it comes. */
  async #send(
    method: string,
    path: string,
    body: string | null,
    key: string | null,
    waitMs: number,
    attemptMs = waitMs + ANSWER_MS,
  ): Promise<Answer> {
    const end = Date.now() + waitMs + ANSWER_MS;
    const headers: Record<string, string> = { "X-Mnemom-Api-Key": this.#options.apiKey };
    if (key !== null) headers["Idempotency-Key"] = key;
    if (body !== null) headers["Content-Type"] = "application/json";
    let fault = "the gateway does not answer";
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const left = end - Date.now();
      if (left <= 0) throw new ActionNotDecided(`${path}: ${fault}`);
      let ownPauseMs = pauseMs;
      try {
        const response = await fetch(this.#options.url.replace(/\/$/, "") + path, {
          method,
          headers,
          body,
          redirect: "error", // the API key goes nowhere else
          signal: AbortSignal.timeout(Math.min(left, attemptMs)),
        });
        const text = await response.text();
        if (!RETRIED.has(response.status)) return read(response.status, text);
        fault = `${response.status} ${text.slice(0, 200)}`;
        ownPauseMs = Math.max(pauseMs, 1000 * Number(response.headers.get("Retry-After") ?? 0) || 0);
      } catch (error) {
        if (!(error instanceof TypeError) && !(error instanceof DOMException)) throw error;
        fault = error.cause instanceof Error ? error.cause.message : error.message;
      }
      await pause(Math.max(0, Math.min(ownPauseMs, end - Date.now())));
    }
  }
}

/** An answer that is about what was asked. Throws RequestRefused for an error without a verdict. */
function read(status: number, text: string): Answer {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new AnswerUnreadable(`${status} with a body that is no JSON`);
  }
  if (typeof body !== "object" || body === null) throw new AnswerUnreadable(`${status} with a body that is no object`);
  if ([200, 202].includes(status) || (status === 422 && "verdict" in body)) return { status, body };
  const error = (body as { error?: Partial<ErrorDetail> }).error;
  throw new RequestRefused(status, {
    code: error?.code ?? "unknown",
    message: error?.message ?? "no message",
    details: error?.details ?? {},
  });
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
