// Seed 002's TypeScript snippets, and a program that parses lines of its input with them: a verdict, a tab, and
// advisories or nothing.
declare const require: any;

type CheckpointVerdicts = {
  front: 'pass' | 'observed' | 'nudged' | 'enforced';
  autonomy: 'pass' | 'observed' | 'nudged' | 'enforced';
  integrity: 'pass' | 'observed' | 'nudged' | 'enforced';
  back: 'pass' | 'observed' | 'nudged' | 'enforced';
};

function parseMnemomVerdict(headerValue: string): CheckpointVerdicts {
  return Object.fromEntries(
    headerValue.split(';').map(s => s.trim().split('=')),
  ) as CheckpointVerdicts;
}

type MnemomAdvisory = {
  source: string;
  text: string;
  severity?: 'info' | 'warn' | 'critical';
  id?: string;
};

const lines: string[] = require('node:fs').readFileSync(0, 'utf8').split('\n');
for (const line of lines.filter(one => one !== '')) {
  const [verdict, advisoryHeader] = line.split('\t');
  const advisories: MnemomAdvisory[] = advisoryHeader ? JSON.parse(advisoryHeader) : [];
  console.log(JSON.stringify({ verdict: parseMnemomVerdict(verdict), advisories }));
}
