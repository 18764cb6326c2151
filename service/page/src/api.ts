// The answers of the HTTP API that the page uses, and how they are asked for: docs/reference/http-api.md.

import type { Value as RowValue } from "./cells";

/** The commit that numbers are of. */
export interface At {
  readonly epoch: number | null;
  readonly commit: number | null;
  readonly rowtime: string | null;
  readonly time: string | null;
}

export interface Operator {
  readonly step: number;
  readonly operator: string;
  readonly detail: string;
  readonly keeps: string | null;
  readonly partition: number | null;
}

/**
 * A relation or pump in the graph. Its rows come in at the steps `first` and out at `last`; without `first` they are those
 * of another relation, and without `last` it is not computed: no started pump reads it.
 */
export interface GraphNode {
  readonly id: string;
  readonly relation: string;
  readonly kind: string;
  readonly first: readonly number[];
  readonly last: readonly number[];
  readonly operators: readonly Operator[];
}

export interface Edge {
  readonly from: string;
  readonly to: string;
}

export interface Graph {
  readonly digest: string;
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly Edge[];
}

export interface Phase {
  readonly phase: string;
  readonly since: string | null;
  readonly waits_for: string | null;
  readonly role: string | null;
  readonly epoch: number | null;
}

type Value = string | number | null;

/** The counts of one commit: a row for each step, and one for each partition. */
export interface Progress {
  readonly at: At;
  readonly digest: string;
  readonly columns: readonly string[];
  readonly steps: readonly (readonly Value[])[];
  readonly partition_columns: readonly string[];
  readonly partitions: readonly (readonly Value[])[];
}

export interface Errors {
  readonly pending: Readonly<Record<string, number>>;
  readonly newest: number | null;
}

/** Why rows wait. `path` has the steps from the partition that keeps them back to the step that holds them. */
export interface Cause {
  readonly cause: string;
  readonly relation: string;
  readonly topic: string | null;
  readonly partition: number | null;
  readonly has: string | null;
  readonly needs: string | null;
  readonly why: string;
  readonly released: string;
  readonly change: string;
  readonly path: readonly number[];
  readonly rows: number;
  readonly holds: readonly string[];
}

export interface Causes {
  readonly causes: readonly Cause[];
}

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly nullable: boolean;
  readonly key: boolean;
}

export interface Relation {
  readonly name: string;
  readonly kind: string;
  readonly columns: readonly Column[];
  readonly sql: string | null;
  /** SQL text that reads all rows; a pump has none. */
  readonly query: string | null;
  readonly place: { readonly line: number; readonly column: number } | null;
  readonly reads: readonly string[];
  readonly read_by: readonly string[];
}

/** A row that was late or rejected. `row` is as far as it was decoded; `headers` have values in base64. */
export interface ErrorRow {
  readonly number: number;
  readonly kind: string;
  readonly relation: string;
  readonly reason: string;
  readonly detail: string;
  readonly topic: string | null;
  readonly partition: number | null;
  readonly offset: number | null;
  readonly message_time: string | null;
  readonly rowtime: string | null;
  readonly bound: string | null;
  readonly late_by_ms: number | null;
  readonly row: unknown;
  readonly raw_base64: string | null;
  readonly key_base64: string | null;
  readonly headers: readonly (readonly [name: string, value: string | null])[] | null;
  readonly epoch: number;
  readonly committed_at: string | null;
  readonly resubmission: { readonly number: number; readonly at: string | null } | null;
}

/** Error rows, the oldest first. `next` is `after` of the rows that follow; null: these are the last. */
export interface ErrorRows {
  readonly errors: readonly ErrorRow[];
  readonly next: string | null;
}

/**
 * Error rows that are resubmitted, by number; after a dry run those that would be. `counts` are where late rows count at
 * the earliest. `next` is `after` of further rows that match; null: these are all.
 * `left` is how many resubmissions the pipeline may have after this.
 */
export interface Resubmissions {
  readonly dry_run: boolean;
  readonly taken: readonly number[];
  readonly relations: readonly { readonly relation: string; readonly rows: number }[];
  readonly counts: readonly Counting[];
  readonly refused: readonly { readonly number: number; readonly why: string }[];
  readonly next: number | null;
  readonly left: number;
}

export interface Counting {
  readonly number: number;
  readonly rowtime: string | null;
  readonly windows: readonly { readonly relation: string; readonly ends: string | null }[];
}

/** How far a partition is read. `bound_from` is what has given its bound. */
export interface Position {
  readonly relation: string;
  readonly topic: string;
  readonly partition: number;
  readonly next_offset: number;
  readonly start_offset: number;
  readonly end_offset: number | null;
  readonly lag: number | null;
  readonly bound: string | null;
  readonly bound_from: "row" | "bound" | "idle" | "decision" | null;
}

export interface Positions {
  readonly positions: readonly Position[];
}

/** A commit. `snapshot` is the size of the one that is complete with it. */
export interface Commit {
  readonly number: number;
  readonly epoch: number;
  readonly at: string | null;
  readonly seconds: number;
  readonly messages: number;
  readonly rows: Readonly<Record<string, number>>;
  readonly late: number;
  readonly rejected: number;
  readonly snapshot: number | null;
}

/** The last commits since this process began, the newest first. `not_shown` counts those before them. */
export interface Commits {
  readonly commits: readonly Commit[];
  readonly next: string | null;
  readonly begun: string | null;
  readonly not_shown: number;
}

export interface Snapshots {
  readonly snapshots: readonly {
    readonly number: number;
    readonly epoch: number;
    readonly commit: number;
    readonly bytes: number;
    readonly stored_at: string | null;
  }[];
}

/** A logged decision. Resubmitted rows have no partition of a topic, and the jump of a model none and no offset. */
export interface Decision {
  readonly number: number;
  readonly kind: string;
  readonly relation: string;
  readonly topic: string | null;
  readonly partition: number | null;
  readonly resubmission: number | null;
  readonly offset: number | null;
  readonly jumped_from: string | null;
  readonly bound: string | null;
  readonly reader: string | null;
  readonly epoch: number;
  readonly committed_at: string | null;
}

/** Decisions, the newest first. */
export interface Decisions {
  readonly decisions: readonly Decision[];
  readonly next: string | null;
}

export interface Relations {
  readonly relations: readonly Relation[];
}

/** The rows that a relation has given last, the newest last. `total` counts all `since` this process began to compute it. */
export interface LatestRows {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly LatestRow[];
  readonly total: number;
  readonly since: string | null;
}

/** `rowtime` is in milliseconds; null: the row has none. A BIGINT and a DECIMAL are text. */
export interface LatestRow {
  readonly op: "+" | "-";
  readonly rowtime: number | null;
  readonly row: readonly RowValue[];
}

/** A query that has started; `changes`: its rows are changes of a table. */
export interface StartedQuery {
  readonly id: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly changes: boolean;
}

/** Who calls, and with which rights. */
export interface Session {
  readonly caller: string;
  readonly rights: readonly string[];
}

export interface Pipelines {
  readonly pipelines: readonly { readonly name: string; readonly version: string }[];
}

/** A place in SQL text: line and column from 1, and how many characters. */
export interface Place {
  readonly line: number;
  readonly column: number;
  readonly length: number;
}

/** A refused request. `status` 0: no answer came. `place` is in the SQL text that was sent. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string | null,
    readonly place: Place | null = null,
  ) {
    super(message);
  }
}

const API = new URL("../api/v1/", document.baseURI);

/** Return the address of a path of the API; names in it are encoded. */
export function address(...path: readonly string[]): URL {
  return new URL(path.map(encodeURIComponent).join("/"), API);
}

/** Return a JSON answer; throws a Refusal. */
export async function ask<Answer>(url: URL, init: RequestInit = {}): Promise<Answer> {
  const answer = await answered(url, { ...init, headers: { Accept: "application/json", ...init.headers } });
  const text = await answer.text();
  return (text === "" ? null : JSON.parse(text)) as Answer;
}

/** Return the answer of a path whose body is read as it comes; throws a Refusal. */
export async function answered(url: URL, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch {
    throw new Refusal(0, "the service does not answer", null);
  }
  if (!answer.ok) throw refused(answer.status, await answer.text());
  return answer;
}

/** Send a JSON object, and return the answer; throws a Refusal. */
export function send<Answer>(url: URL, body: object): Promise<Answer> {
  const headers = { "Content-Type": "application/json" };
  return ask<Answer>(url, { method: "POST", headers, body: JSON.stringify(body) });
}

/** Send a token, for which the service sets a cookie that no script can read. */
export async function logIn(token: string): Promise<void> {
  await send(address("session"), { token });
}

function refused(status: number, text: string): Refusal {
  try {
    const { detail, error, hint, place } = JSON.parse(text) as {
      detail?: string;
      error?: string;
      hint?: string | null;
      place?: Place | null;
    };
    return new Refusal(status, detail ?? error ?? `the service answers ${status}`, hint ?? null, place ?? null);
  } catch {
    return new Refusal(status, `the service answers ${status}`, null);
  }
}
