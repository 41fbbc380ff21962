// Written by `python -m sluice.gateway.typescript_types` from the gateway's OpenAPI document.

export interface ActionRequest {
  action_id?: string;
  agentId?: string;
  sessionId?: string;
  toolName?: string;
  parameters?: { [name: string]: unknown };
  traceId?: string | null;
  /** default: the agent's registered one */
  policy_bundle_id?: string | null;
  /** ENFORCE reads as high_stakes; SHADOW only where the tenant is in shadow */
  mode?: "standard" | "high_stakes" | "ENFORCE" | "SHADOW" | null;
  /** how long the caller waits, ms, from the broker's time of the record */
  deadline_ms?: number | null;
  tool_description?: string | null;
  /** read in addition to the registered type, else to that of the tool's name */
  action_type?: "DATABASE_READ" | "DATABASE_WRITE" | "FILE_READ" | "FILE_WRITE" | "FILE_DELETE" | "API_CALL" | "CODE_EXECUTION" | "MESSAGE" | "PAYMENT" | "DELEGATION" | "OTHER" | null;
  reversible?: boolean | null;
  /** the caller's estimate */
  rows_affected?: number | null;
  reasoning?: string | null;
  delegate_to?: string | null;
  acknowledged_flags?: Array<string> | null;
  governanceContext?: {
    rootAgentId?: string | null;
    originalIntentHash?: string | null;
    chainDepth?: number | null;
    parentAgentId?: string | null;
    parentTraceId?: string | null;
    /** the root's first, the one to this agent last */
    grants?: Array<{
      /** who grants */
      parent_agent_id: string;
      /** to whom */
      agent_id: string;
      /** in which session */
      session_id: string;
      /** delegations that may follow after this one */
      max_depth: number;
      /** for which tools; null: for all */
      tools?: Array<string> | null;
      /** it counts before this broker time */
      until: string;
      /** of the parent's key */
      key_id: string;
      /** Ed25519 over the RFC 8785 form of the grant without it, base64 */
      signature: string;
    }> | null;
  } | null;
  /** of the mandate under which the agent acts (docs/mandates.md) */
  mandate_digest?: string | null;
  /** compared with ours, never trusted */
  aggregateRowsAffected?: number | null;
  /** compared with ours, never trusted */
  aggregateActionCount?: number | null;
  proposed_action?: {
    action: string;
    value: { [name: string]: unknown };
  };
  /** the signed mandate that the action names, published before it */
  mandate?: {
    mandate_id: string;
    sessionId?: string;
    agentId?: string;
    issuer_id: string;
    /** hex SHA-256 of the public key */
    key_id: string;
    task?: string | null;
    /** SHA-256 of the task's text, UTF-8; absent: that of `task` */
    task_hash?: string | null;
    /** null: every tool */
    tools?: Array<{
      tool: string;
      condition?: string | null;
      count?: number | null;
    }> | null;
    /** addresses, accounts, paths that the task names */
    destinations?: Array<string>;
    /** it counts before this broker time */
    until: string;
    /** the digest of the mandate within which this one lies */
    parent?: string | null;
    template?: {
      id: string;
      values?: { [name: string]: unknown };
    } | null;
    /** Ed25519 over the RFC 8785 form of the mandate without it and `parents`, base64 */
    signature: string;
    /** the mandates above it, the root's first, the one that `parent` names last */
    parents?: Array<{
      mandate_id: string;
      session_id: string;
      agent_id: string;
      issuer_id: string;
      /** hex SHA-256 of the public key */
      key_id: string;
      task?: string | null;
      /** SHA-256 of the task's text, UTF-8; absent: that of `task` */
      task_hash?: string | null;
      /** null: every tool */
      tools?: Array<{
        tool: string;
        condition?: string | null;
        count?: number | null;
      }> | null;
      /** addresses, accounts, paths that the task names */
      destinations?: Array<string>;
      /** it counts before this broker time */
      until: string;
      /** the digest of the mandate within which this one lies */
      parent?: string | null;
      template?: {
        id: string;
        values?: { [name: string]: unknown };
      } | null;
      /** Ed25519 over the RFC 8785 form of the mandate without it and `parents`, base64 */
      signature: string;
    }> | null;
  } | null;
}

export interface OutcomeRequest {
  action_id: string;
  sessionId?: string;
  rows_affected: number;
  reported_by?: string;
  error?: string | null;
  /** of the action's raw bytes: `digest` in the verdict's `input` */
  action_digest?: string | null;
  /** of the action: the verdict's `input` as it stands */
  input?: {
    topic: string;
    partition: number;
    offset: number;
    /** broker's time of the input, ms since 1970 */
    timestamp: number;
    /** SHA-256 over the raw bytes of the input's value */
    digest: string;
  } | null;
  signature?: string | null;
  /** the values in what the tool returned; absent: nobody read it */
  values?: {
    /** of distinct values, 16 bytes each, base64 */
    fingerprints: Array<string>;
    /** whether the result may hold other values */
    truncated: boolean;
  } | null;
}

export interface EvaluationResponse {
  verdict_id: string;
  action_id: string | null;
  agent_id: string | null;
  session_id: string | null;
  traceId: string | null;
  verdict: "allowed" | "denied" | "needs_human";
  outcome: "ALLOW" | "BLOCK" | "ESCALATE";
  shadowOutcome: "ALLOW" | "BLOCK" | "ESCALATE" | null;
  mode: "standard" | "high_stakes";
  enforcement: "enforce" | "shadow";
  tier: "T1" | "T2" | "T3" | "T4" | null;
  blockReason: string | null;
  escalationId: string | null;
  /** the sum of the gates' times */
  evaluationMs: number;
  gateResults: Array<GateResult>;
  rule_results: Array<{ [name: string]: unknown }>;
  evidence_refs: Array<string>;
  rerun_hash: string;
  duplicate_of: string | null;
  obligations: Array<string>;
  rows_reserved: number | string;
  checkpoints: Checkpoints;
  advisories: Array<Advisory>;
  decided_at: string;
  /** where the action lies: what an enforcement point signs its outcome for */
  input?: InputCoordinates | null;
  /** parameters with a warning or without what may not leave (checkpoint back) */
  replacement?: { [name: string]: unknown } | null;
  error?: ErrorDetail | null;
}

export interface EscalationResponse {
  escalation_id: string;
  status: "pending" | "approved" | "denied" | "expired";
  reason?: string | null;
  parameters?: { [name: string]: unknown } | null;
  resolved?: EvaluationResponse | null;
  [name: string]: unknown;
}

export interface PendingResponse {
  verdict_id?: string | null;
  outcome_id?: string | null;
  status?: "pending";
}

export interface ErrorResponse {
  error: ErrorDetail;
}

export interface GateResult {
  gate: string;
  passed: boolean;
  failureReason?: string | null;
  durationMs: number;
  detail: { [name: string]: unknown };
}

export interface Checkpoints {
  front: "pass" | "observed" | "nudged" | "enforced";
  autonomy: "pass" | "observed" | "nudged" | "enforced";
  integrity: "pass" | "observed" | "nudged" | "enforced";
  back: "pass" | "observed" | "nudged" | "enforced";
}

export interface Advisory {
  source: string;
  text: string;
  severity?: "info" | "warn" | "critical" | null;
  id?: string | null;
}

export interface InputCoordinates {
  topic: string;
  partition: number;
  offset: number;
  /** broker's time of the input, ms since 1970 */
  timestamp: number;
  /** SHA-256 over the raw bytes of the input's value */
  digest: string;
}

export interface ErrorDetail {
  code: string;
  message: string;
  details: { [name: string]: unknown };
}
