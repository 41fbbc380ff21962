// Why a tool did not run. Whatever is thrown before it runs, it did not run.

import type { ErrorDetail, EvaluationResponse } from "./gateway_types.js";
import type { WaitingCall } from "./index.js";

/** Every reason for which the client runs no tool. */
export class Refusal extends Error {
  override name = "Refusal";
}

/** The gate denied the call. */
export class ActionDenied extends Refusal {
  override name = "ActionDenied";
  constructor(readonly verdict: EvaluationResponse) {
    super(`denied: ${verdict.blockReason ?? "no reason given"}`);
  }
}

/** A person must agree first: `call` is what `awaitApproval` takes, now or after a restart. */
export class ActionNeedsHuman extends Refusal {
  override name = "ActionNeedsHuman";
  constructor(
    readonly verdict: EvaluationResponse,
    readonly call: WaitingCall,
  ) {
    super(`needs_human: ${verdict.blockReason ?? "no reason given"} (${call.escalationId})`);
  }
}

/** Nobody let the call run: an approver said no, or none answered in time. */
export class ApprovalRefused extends Refusal {
  override name = "ApprovalRefused";
  constructor(
    readonly escalationId: string,
    readonly status: "denied" | "expired",
    reason: string | null,
  ) {
    super(`${status}: ${reason ?? "no reason given"}`);
  }
}

/** There was no decision in time. It may still come, and the call was not and will not be run. */
export class ActionNotDecided extends Refusal {
  override name = "ActionNotDecided";
}

/** The gateway refused the request itself: a wrong key, or a body that is not what the route takes. */
export class RequestRefused extends Refusal {
  override name = "RequestRefused";
  constructor(
    readonly status: number,
    readonly error: ErrorDetail,
  ) {
    super(`${status} ${error.code}: ${error.message}`);
  }
}

/** What came is no answer to this call. */
export class AnswerUnreadable extends Refusal {
  override name = "AnswerUnreadable";
}

/** A permit is for one run. */
export class PermitUsed extends Refusal {
  override name = "PermitUsed";
}
