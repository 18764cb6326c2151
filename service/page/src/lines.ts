// The answer of a query as its lines come, and the place of a fault in its text. Pure functions.

import type { Place } from "./api";
import type { Value } from "./cells";

/** The most rows that are shown. */
export const MOST_ROWS = 500;
/** Why a query ends that reads once: the service says it in these words. */
const ALL = "these were all rows";
const ROW = '{"op"';

export interface Row {
  /** Counts the rows of the answer from 0. */
  readonly number: number;
  readonly op: "+" | "-";
  /** In milliseconds; null: the row has none. */
  readonly rowtime: number | null;
  readonly values: readonly Value[];
}

interface Kept {
  readonly number: number;
  readonly line: string;
}

/** What has come. Rows stay lines until they are shown: of a fast stream most never are. */
export interface Answer {
  readonly kept: readonly Kept[];
  readonly came: number;
  readonly rejected: number;
  readonly lastRejected: string | null;
  /** Why the service has ended it; null: it has not. */
  readonly ended: string | null;
  readonly failed: { readonly message: string; readonly hint: string | null } | null;
}

export const NOTHING_YET: Answer = { kept: [], came: 0, rejected: 0, lastRejected: null, ended: null, failed: null };

/** Return the answer after further lines. It keeps the first rows of one that is read once, the last ones of another. */
export function taken(answer: Answer, lines: readonly string[], isFirst: boolean): Answer {
  let { came, rejected, lastRejected, ended, failed } = answer;
  const kept = [...answer.kept];
  for (const line of lines) {
    if (line.startsWith(ROW)) {
      if (!isFirst || came < MOST_ROWS) kept.push({ number: came, line });
      came += 1;
    } else if (line !== "") {
      const said = JSON.parse(line) as { error?: string; hint?: string | null; failed?: boolean; ended?: string };
      if (said.failed) failed = { message: said.error ?? "", hint: said.hint ?? null };
      else if (said.error !== undefined) [rejected, lastRejected] = [rejected + 1, said.error];
      else if (said.ended !== undefined) ended = said.ended;
    }
  }
  return { kept: kept.slice(isFirst ? 0 : -MOST_ROWS), came, rejected, lastRejected, ended, failed };
}

/** Return the rows that are shown: the newest first, if the answer was not read once. */
export function rowsOf(answer: Answer, isFirst: boolean): readonly Row[] {
  const rows = answer.kept.map(({ number, line }) => {
    const { op, rowtime, row } = parsed(line) as { op: "+" | "-"; rowtime: number | null; row: readonly Value[] };
    return { number, op, rowtime, values: row };
  });
  return isFirst ? rows : rows.reverse();
}

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|-?Infinity|NaN/g;

/** Return a line's value. Integers that a number here cannot hold, NaN and infinity, which JSON lacks, are text. */
export function parsed(line: string): unknown {
  return JSON.parse(line.replace(TOKEN, (found) => (isExact(found) ? found : `"${found}"`)));
}

function isExact(token: string): boolean {
  if (token.startsWith('"')) return true;
  return /^-?\d+$/.test(token) ? Number.isSafeInteger(Number(token)) : Number.isFinite(Number(token));
}

/** Split text into its whole lines and the rest, which follows in the next text. */
export function split(text: string): [lines: readonly string[], rest: string] {
  const lines = text.split("\n");
  return [lines.slice(0, -1), lines.at(-1) ?? ""];
}

/** Return what is said of an answer: how many rows came, and how it ended. */
export function described(answer: Answer, isFirst: boolean, isOver: boolean, count: (value: number) => string): string {
  const rows = answer.came === 1 ? "1 row" : `${count(answer.came)} rows`;
  const shown = answer.came > MOST_ROWS ? `, of which the ${isFirst ? "first" : "newest"} ${count(MOST_ROWS)} are shown` : "";
  if (answer.failed !== null) return `${rows} came${shown}, and then the query failed.`;
  if (answer.ended === ALL) return `${answer.came === 0 ? "There are no rows" : `All rows: ${count(answer.came)}${shown}`}.`;
  if (answer.ended !== null) return `${rows} came${shown}. The query has ended: ${answer.ended}.`;
  if (isOver) return `${rows} came${shown}, until it was stopped.`;
  return answer.came === 0 ? "No row has come yet." : `${rows} came so far${shown}.`;
}

/** Return the line of a place, in three parts: before it, the place, and after it; null: the text has no such line. */
export function marked(text: string, place: Place): [before: string, at: string, after: string] | null {
  const line = text.split("\n")[place.line - 1];
  if (line === undefined) return null;
  const letters = Array.from(line);
  const from = place.column - 1;
  const to = from + Math.max(1, place.length);
  return [letters.slice(0, from).join(""), letters.slice(from, to).join("") || " ", letters.slice(to).join("")];
}

/** Return where a place begins and ends in the text. */
export function rangeOf(text: string, place: Place): [from: number, to: number] {
  const begin = text.split("\n").slice(0, place.line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  const [before = "", at = ""] = marked(text, place) ?? [];
  return [begin + before.length, begin + before.length + at.length];
}
