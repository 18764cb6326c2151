// What the overview shows, computed from the graph and the progress of one commit. Pure functions.

import type { Cause, Edge, Graph, GraphNode, Progress } from "./api";

export type { Edge } from "./api";

/** The most nodes that are drawn at once: 150 are laid out in half a second, 1,000 in 20. */
export const MOST_NODES = 150;
/** The rowtime after which nothing follows: the bound of a complete table. */
export const END_OF_TIME_MS = 253_402_300_799_999;
/** A rate is of the commits of this time; without any it is zero. */
export const RATE_MS = 5_000;

/** The numbers of one relation at one commit; null: not known. Counts are since the pipeline began. */
export interface Now {
  readonly name: string;
  readonly kind: string;
  /** Whether a started pump reads it; else it is not computed and has no numbers. */
  readonly isComputed: boolean;
  readonly rowsIn: number | null;
  readonly rowsOut: number | null;
  readonly inPerS: number | null;
  readonly outPerS: number | null;
  readonly boundMs: number | null;
  /** How far its bound is behind the time of the commit. */
  readonly behindMs: number | null;
  readonly filtered: number;
  readonly held: number;
  readonly late: number;
  readonly rejected: number;
  /** Unread messages of its partitions; null: it has none, or their ends are not known. */
  readonly lag: number | null;
  readonly partitions: number;
}

interface StepCounts {
  readonly rowsIn: number;
  readonly rowsOut: number;
  readonly filtered: number;
  readonly late: number;
  readonly rejected: number;
  readonly held: number;
  readonly boundMs: number | null;
}

/**
 * Return the numbers of each relation in the order of the graph, or null if the progress is of another graph. Of a quiet
 * pipeline no commit has come for a while.
 */
export function relationsNow(graph: Graph, history: readonly Progress[], isQuiet = false): Now[] | null {
  const newest = history.at(-1);
  if (newest === undefined) return graph.nodes.map((node) => unknown(node));
  if (newest.digest !== graph.digest) return null;
  const steps = stepsOf(newest);
  const lags = lagsOf(newest);
  const before = earlier(history, newest);
  const seconds = before === undefined ? 0 : (timeOf(newest) - timeOf(before)) / 1000;
  const stepsBefore = before === undefined || seconds <= 0 ? null : stepsOf(before);
  return graph.nodes.map((node) => {
    if (!isComputed(node)) return unknown(node);
    const own = lags.get(node.relation) ?? [];
    const [rowsIn, rowsOut] = rowsOf(node, steps);
    const [inBefore, outBefore] = stepsBefore === null ? [rowsIn, rowsOut] : rowsOf(node, stepsBefore);
    const all = node.operators.map((each) => each.step);
    const boundMs = leastBound(node.last, steps);
    return {
      name: node.relation,
      kind: node.kind,
      isComputed: true,
      rowsIn,
      rowsOut,
      inPerS: isQuiet ? 0 : stepsBefore && (rowsIn - inBefore) / seconds,
      outPerS: isQuiet ? 0 : stepsBefore && (rowsOut - outBefore) / seconds,
      boundMs,
      behindMs: boundMs === null || boundMs >= END_OF_TIME_MS ? null : timeOf(newest) - boundMs,
      filtered: total(all, steps, "filtered"),
      held: total(all, steps, "held"),
      late: total(all, steps, "late"),
      rejected: total(all, steps, "rejected"),
      lag: sumOf(own),
      partitions: own.length,
    };
  });
}

function isComputed(node: GraphNode): boolean {
  return node.last.length > 0;
}

/** Return the rows in and out of a relation. Without first steps its rows are those of another relation. */
function rowsOf(node: GraphNode, steps: ReadonlyMap<number, StepCounts>): [rowsIn: number, rowsOut: number] {
  const rowsOut = total(node.last, steps, "rowsOut");
  return [node.first.length > 0 ? total(node.first, steps, "rowsIn") : rowsOut, rowsOut];
}

function unknown(node: GraphNode): Now {
  return {
    name: node.relation,
    kind: node.kind,
    isComputed: isComputed(node),
    rowsIn: null,
    rowsOut: null,
    inPerS: null,
    outPerS: null,
    boundMs: null,
    behindMs: null,
    filtered: 0,
    held: 0,
    late: 0,
    rejected: 0,
    lag: null,
    partitions: 0,
  };
}

/** Return the progresses from which rates are computed: the newest one and those of the seconds before it. */
export function kept(history: readonly Progress[], newest: Progress): Progress[] {
  const same = history.filter((each) => each.digest === newest.digest && each.at.epoch === newest.at.epoch);
  const since = timeOf(newest) - RATE_MS;
  return [...same.filter((each, at) => at === same.length - 1 || timeOf(each) >= since), newest];
}

function earlier(history: readonly Progress[], newest: Progress): Progress | undefined {
  const first = history[0];
  return first === newest || first?.digest !== newest.digest ? undefined : first;
}

function timeOf(progress: Progress): number {
  return progress.at.time === null ? Number.NaN : Date.parse(progress.at.time);
}

function stepsOf(progress: Progress): ReadonlyMap<number, StepCounts> {
  const at = positions(progress.columns);
  return new Map(
    progress.steps.map((row) => [
      Number(row[at("step")]),
      {
        rowsIn: Number(row[at("rows_in")]),
        rowsOut: Number(row[at("rows_out")]),
        filtered: Number(row[at("filtered")]),
        late: Number(row[at("late")]),
        rejected: Number(row[at("rejected")]),
        held: Number(row[at("held")]),
        boundMs: numberOrNull(row[at("bound_ms")]),
      },
    ]),
  );
}

/** Return the unread messages of each partition, by relation; null: its end is not known. */
function lagsOf(progress: Progress): ReadonlyMap<string, readonly (number | null)[]> {
  const at = positions(progress.partition_columns);
  const found = new Map<string, (number | null)[]>();
  for (const row of progress.partitions) {
    const relation = String(row[at("relation")]);
    const end = numberOrNull(row[at("end_offset")]);
    const lag = end === null ? null : Math.max(0, end - Number(row[at("next_offset")]));
    const lags = found.get(relation);
    if (lags === undefined) found.set(relation, [lag]);
    else lags.push(lag);
  }
  return found;
}

function positions(columns: readonly string[]): (name: string) => number {
  const found = new Map(columns.map((name, at) => [name, at]));
  return (name) => {
    const at = found.get(name);
    if (at === undefined) throw new Error(`the progress has no column "${name}"`);
    return at;
  };
}

type Count = Exclude<keyof StepCounts, "boundMs">;

function total(steps: readonly number[], counts: ReadonlyMap<number, StepCounts>, name: Count): number {
  return steps.reduce((sum, step) => sum + (counts.get(step)?.[name] ?? 0), 0);
}

/** Return the least bound, null if any step has none yet. */
function leastBound(steps: readonly number[], counts: ReadonlyMap<number, StepCounts>): number | null {
  const bounds = steps.map((step) => counts.get(step)?.boundMs ?? null);
  return bounds.length === 0 || bounds.includes(null) ? null : Math.min(...bounds.map(Number));
}

function sumOf(lags: readonly (number | null)[]): number | null {
  return lags.length === 0 || lags.includes(null) ? null : lags.reduce<number>((sum, each) => sum + (each ?? 0), 0);
}

function numberOrNull(value: string | number | null | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}

/** What is drawn of a graph, and how many relations are not. */
export interface Drawn {
  readonly names: readonly string[];
  readonly edges: readonly Edge[];
  readonly left: number;
}

/** Return the part that is drawn: what is two steps away from `around`, else all; at most `MOST_NODES` of them. */
export function drawn(graph: Graph, around: string | null): Drawn {
  const known = graph.nodes.some((node) => node.relation === around);
  const chosen = around !== null && known ? near(graph.edges, around) : graph.nodes.map((node) => node.relation);
  const names = chosen.slice(0, MOST_NODES);
  const shown = new Set(names);
  return {
    names,
    edges: graph.edges.filter((edge) => shown.has(edge.from) && shown.has(edge.to)),
    left: graph.nodes.length - names.length,
  };
}

/** Return a relation and those at most two steps away, the nearest first. */
function near(edges: readonly Edge[], around: string): string[] {
  const found = new Set([around]);
  for (let distance = 0; distance < 2; distance++) {
    const reached = [...found];
    for (const { from, to } of edges) {
      if (reached.includes(from)) found.add(to);
      if (reached.includes(to)) found.add(from);
    }
  }
  return [...found];
}

/** Return the name of an edge: no relation has a line break in its name. */
export function edgeName(edge: Edge): string {
  return `${edge.from}\n${edge.to}`;
}

/** Return the edges that the path of a cause takes, by name; the first is that of the relation that keeps back. */
export function edgesOf(graph: Graph, cause: Cause): ReadonlySet<string> {
  const relations = new Map(graph.nodes.flatMap((node) => node.operators.map((each) => [each.step, node.relation])));
  const passed = [cause.relation, ...cause.path.map((step) => relations.get(step))];
  const found = new Set<string>();
  passed.forEach((from, at) => {
    const to = passed[at + 1];
    if (from !== undefined && to !== undefined && from !== to) found.add(edgeName({ from, to }));
  });
  return found;
}

export const SORTS = ["name", "kind", "inPerS", "outPerS", "boundMs", "behindMs", "held", "late", "rejected"] as const;
export type Sort = (typeof SORTS)[number];

/** Return the relations whose name or kind has the searched text, in order; null for `sort`: that of the graph. */
export function listed(relations: readonly Now[], search: string, sort: Sort | null, isDown: boolean): Now[] {
  const wanted = search.trim().toLowerCase();
  const found = relations.filter((each) => `${each.name} ${each.kind}`.toLowerCase().includes(wanted));
  if (sort === null) return found;
  return found.sort((one, other) => compared(one[sort], other[sort], isDown));
}

/** Compare values; what is not known comes last in both directions. */
function compared(one: string | number | null, other: string | number | null, isDown: boolean): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  const order = typeof one === "number" ? one - Number(other) : one.localeCompare(String(other));
  return isDown ? -order : order;
}

/** What error rows are chosen by; what is empty does not restrict them. */
export interface Chosen {
  readonly number?: number;
  readonly kind?: string;
  readonly relation?: string;
  readonly reason?: string;
}

/** Return the command that says which of these error rows would be resubmitted. */
export function resubmission({ number, kind, relation, reason }: Chosen): string {
  const options = [
    number === undefined ? "" : String(number),
    kind ? `--kind ${word(kind.toLowerCase())}` : "",
    relation ? `--relation ${word(identifier(relation))}` : "",
    reason ? `--reason ${word(reason)}` : "",
  ].filter(Boolean);
  return ["rowtide errors resubmit PIPELINE.sql", ...(options.length > 0 ? options : ["--all"]), "--dry-run"].join(" ");
}

/** Return what the request for these error rows has: one by its number, or all that match and were not resubmitted. */
export function requested({ number, kind = "", relation = "", reason = "" }: Chosen): object {
  return number === undefined ? { kind, relation, reason, pending: true } : { numbers: [number] };
}

/** Error rows of which the same is said. */
export interface Said {
  readonly said: string;
  readonly numbers: readonly number[];
}

/** Return what is said of rows, each text once, in the order of the rows. */
export function grouped<Row extends { readonly number: number }>(rows: readonly Row[], of: (row: Row) => string): Said[] {
  const found = new Map<string, number[]>();
  for (const row of rows) {
    const said = of(row);
    const numbers = found.get(said);
    if (numbers === undefined) found.set(said, [row.number]);
    else numbers.push(row.number);
  }
  return [...found].map(([said, numbers]) => ({ said, numbers }));
}

/** Return numbers of rows as words, the first ones of many. */
export function listedNumbers(numbers: readonly number[], most = 8): string {
  if (numbers.length === 1) return `Row ${numbers[0]}`;
  const left = numbers.length - most;
  return `Rows ${numbers.slice(0, most).join(", ")}${left > 0 ? ` and ${left} more` : ""}`;
}

/** Return a name as SQL writes it. */
function identifier(name: string): string {
  return /^[A-Z_][A-Z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** Return a text as one word of a shell: filters come from the address, which anybody may have written. */
function word(text: string): string {
  return /^[\w.]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
