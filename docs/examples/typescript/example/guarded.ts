// A tool that runs only if the gate allows this very call.
//
// node guarded.js AGENT TOOL SESSION…: one call in each session; a line of JSON for each. SLUICE_URL and
// SLUICE_API_KEY name the gateway. POINT and POINT_KEY, the PEM file of an enforcement point, sign the outcomes for
// the installation SLUICE_POLICY__INSTALLATION and the topics' prefix PREFIX. APPROVAL_MS waits for a person.

import { readFileSync } from "node:fs";
import { SluiceClient, type OutcomeSigner } from "../src/index.js";

const [agent = "", tool = "", ...sessions] = process.argv.slice(2);
const env = process.env;
const sign: OutcomeSigner | null = env.POINT_KEY
  ? {
      reportedBy: env.POINT ?? "",
      key: readFileSync(env.POINT_KEY),
      installation: env.SLUICE_POLICY__INSTALLATION ?? "",
      topicPrefix: env.PREFIX ?? "",
    }
  : null;
const client = new SluiceClient({
  url: env.SLUICE_URL ?? "http://127.0.0.1:8085",
  apiKey: env.SLUICE_API_KEY ?? "",
  agent,
  ...(sign && { sign }),
});

for (const session of sessions) {
  const search = client.guard(
    { name: tool, run: ({ table }: { table: string }) => `read ${table}`, rows: () => 1 },
    { session, ...(env.APPROVAL_MS && { approvalMs: Number(env.APPROVAL_MS) }) },
  );
  try {
    console.log(JSON.stringify({ session, result: await search({ table: "orders" }) }));
  } catch (error) {
    console.log(JSON.stringify({ session, refused: (error as Error).message }));
  }
}
