// Signatures of records for one installation: docs/signing-agents.md and docs/other-languages.md.

import { createPrivateKey, createPublicKey, sign, type KeyObject } from "node:crypto";
import { canonicalize, type JsonObject } from "./canonical.js";

/** The setting policy.installation, and the prefix of the installation's topics. */
export interface Audience {
  installation: string;
  topicPrefix?: string;
}

/** The enforcement point in whose name outcomes are signed. `key`: PKCS#8 PEM of an Ed25519 key. */
export interface OutcomeSigner extends Audience {
  reportedBy: string;
  key: string | Buffer | KeyObject;
}

/** The Ed25519 key in a PEM text. Throws for another key, and never shows the text. */
export function readKey(key: string | Buffer | KeyObject): KeyObject {
  let read: KeyObject;
  try {
    read = typeof key === "string" || Buffer.isBuffer(key) ? createPrivateKey(key) : key;
  } catch {
    throw new TypeError("the key is no PKCS#8 PEM text");
  }
  if (read.type !== "private" || read.asymmetricKeyType !== "ed25519") throw new TypeError("the key is no Ed25519 key");
  return read;
}

/** The 32 bytes of the public half. */
export function readPublicKey(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32);
}

/** The bytes that are signed: a domain, and each part with its length before it. */
export function encodeMessage(domain: string, ...parts: string[]): Buffer {
  return Buffer.from([domain, ...parts.map((part) => `${Buffer.byteLength(part)} ${part}`)].join(" "));
}

/** The signature of an outcome, a grant or a mandate (without `signature`), base64. */
export function signRecord(record: JsonObject, key: KeyObject, audience: Audience): string {
  if (audience.installation === "") throw new TypeError("a signature is for one installation, and none is named");
  const message = encodeMessage(
    "SluiceRecordV1",
    audience.installation,
    audience.topicPrefix ?? "",
    canonicalize(record),
  );
  return sign(null, message, key).toString("base64");
}
