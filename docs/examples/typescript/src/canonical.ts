// The RFC 8785 form of a JSON value: what is judged, what is signed, and what the tool then gets.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

/** A value that JSON would change or drop, with its place. */
export class NotJson extends TypeError {
  override name = "NotJson";
}

/** The RFC 8785 form. Throws NotJson for what JSON does not keep: undefined, NaN, dates, classes, cycles. */
export function canonicalize(value: unknown, place = "$", within: readonly unknown[] = []): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new NotJson(`${place} is ${value}`);
    return JSON.stringify(value); // ECMAScript's form of a number is RFC 8785's
  }
  if (typeof value === "string") {
    if (!isWellFormed(value)) throw new NotJson(`${place} has half of a surrogate pair`);
    return JSON.stringify(value);
  }
  if (typeof value !== "object") throw new NotJson(`${place} is ${typeof value}`);
  if (within.includes(value)) throw new NotJson(`${place} holds itself`);
  const inside = [...within, value];
  if (Array.isArray(value)) {
    if (Object.keys(value).length !== value.length) throw new NotJson(`${place} has holes, or names`);
    return `[${value.map((item, index) => canonicalize(item, `${place}[${index}]`, inside)).join(",")}]`;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) throw new NotJson(`${place} is no plain object`);
  if (Object.getOwnPropertySymbols(value).length > 0) throw new NotJson(`${place} has a symbol as a name`);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)); // by UTF-16 units, as RFC 8785 says
  const written = members.map(
    ([name, member]) => `${canonicalize(name, `${place}.${name}`)}:${canonicalize(member, `${place}.${name}`, inside)}`,
  );
  return `{${written.join(",")}}`;
}

function isWellFormed(text: string): boolean {
  return !/[\uD800-\uDFFF]/u.test(text); // with the flag u only halves match
}
