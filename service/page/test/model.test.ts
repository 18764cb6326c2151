import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cause, Graph, Progress } from "../src/api";
import {
  drawn,
  edgeName,
  edgesOf,
  END_OF_TIME_MS,
  grouped,
  kept,
  listed,
  listedNumbers,
  MOST_NODES,
  relationsNow,
  requested,
  resubmission,
} from "../src/model";

const GRAPH: Graph = {
  digest: "d1",
  nodes: [
    node("ORDERS", "foreign stream", [0], [0], [0]),
    node("IN_TIME", "view", [2, 3], [4], [2, 3, 4]),
    node("SAME", "view", [], [4], []),
    node("UNREAD", "view", [], [], []),
  ],
  edges: [
    { from: "ORDERS", to: "IN_TIME" },
    { from: "IN_TIME", to: "SAME" },
    { from: "IN_TIME", to: "UNREAD" },
  ],
};
const BOUND = Date.parse("2026-01-01T09:39:00Z");

function node(relation: string, kind: string, first: number[], last: number[], steps: number[]): Graph["nodes"][number] {
  const operators = steps.map((step) => ({ step, operator: "Sort", detail: "", keeps: null, partition: null }));
  return { id: relation, relation, kind, first, last, operators };
}

function progress(second: number, read: number, digest = "d1", epoch = 1): Progress {
  return {
    at: { epoch, commit: second, rowtime: null, time: `2026-01-01T10:00:${String(second).padStart(2, "0")}.000Z` },
    digest,
    columns: ["step", "rows_in", "rows_out", "filtered", "late", "rejected", "held", "bound_ms"],
    steps: [
      [0, read, read, 0, 0, 1, 0, BOUND + 30_000],
      [2, read / 2, read / 2, 0, 1, 0, 3, BOUND],
      [3, read / 2, read / 2, 0, 1, 0, 4, BOUND + 9],
      [4, read, read - 10, 2, 0, 0, 3, BOUND],
    ],
    partition_columns: ["relation", "topic", "partition", "next_offset", "end_offset", "bound_ms"],
    partitions: [
      ["ORDERS", "orders", 0, 90, 100, BOUND],
      ["ORDERS", "orders", 1, 100, 100, BOUND + 30_000],
    ],
  };
}

test("numbers of a relation are those of its first steps, its last steps and all its steps", () => {
  const [orders, inTime, same, unread] = relationsNow(GRAPH, [progress(1, 100), progress(3, 300)]) ?? [];
  assert.deepEqual([orders?.rowsIn, orders?.inPerS, orders?.lag, orders?.partitions], [300, 100, 10, 2]);
  assert.deepEqual([inTime?.rowsIn, inTime?.rowsOut, inTime?.outPerS], [300, 290, 100]);
  assert.deepEqual([inTime?.held, inTime?.late, inTime?.filtered, inTime?.rejected], [10, 2, 2, 0]);
  assert.deepEqual([inTime?.boundMs, inTime?.behindMs], [BOUND, 1_263_000]);
  assert.deepEqual([same?.rowsIn, same?.rowsOut, same?.held], [290, 290, 0]);
  assert.deepEqual([unread?.isComputed, unread?.rowsIn, unread?.boundMs], [false, null, null]);
});

test("without two progresses there is no rate, and without one no number", () => {
  assert.deepEqual(relationsNow(GRAPH, [progress(1, 100)])?.map((each) => each.inPerS), [null, null, null, null]);
  assert.deepEqual(relationsNow(GRAPH, [])?.map((each) => each.rowsIn), [null, null, null, null]);
});

test("the rate of a quiet pipeline is zero", () => {
  const rates = (relationsNow(GRAPH, [progress(1, 100), progress(3, 300)], true) ?? []).map((each) => each.outPerS);
  assert.deepEqual(rates, [0, 0, 0, null]);
});

test("numbers of another graph are not shown", () => {
  assert.equal(relationsNow(GRAPH, [progress(1, 100, "d2")]), null);
});

test("a bound of a complete table is behind nothing", () => {
  const complete = progress(1, 100);
  const steps = complete.steps.map((row) => [...row.slice(0, 7), END_OF_TIME_MS]);
  assert.deepEqual(relationsNow(GRAPH, [{ ...complete, steps }])?.map((each) => each.behindMs), [null, null, null, null]);
});

test("rates are of the last seconds, of one process and one graph", () => {
  let history: Progress[] = [];
  for (let second = 0; second < 60; second++) history = kept(history, progress(second, second * 10));
  assert.deepEqual(history.map((each) => each.at.commit), [54, 55, 56, 57, 58, 59]);
  assert.equal(kept(history, progress(59, 0, "d1", 2)).length, 1);
  assert.equal(kept(history, progress(59, 0, "d2")).length, 1);
  // A quiet pipeline commits rarely: the one before still counts.
  assert.deepEqual(kept([progress(1, 10)], progress(50, 20)).map((each) => each.at.commit), [1, 50]);
});

test("a large graph is drawn in part, around a relation what is two steps away", () => {
  const nodes = Array.from({ length: 400 }, (_, at) => node(`R${at}`, "view", [], [], []));
  const edges = nodes.slice(1).map((each, at) => ({ from: `R${at}`, to: each.relation }));
  const large = { digest: "x", nodes, edges };
  const all = drawn(large, null);
  assert.deepEqual([all.names.length, all.edges.length, all.left], [MOST_NODES, MOST_NODES - 1, 250]);
  const part = drawn(large, "R200");
  assert.deepEqual([...part.names].sort(), ["R198", "R199", "R200", "R201", "R202"]);
  assert.equal(part.names[0], "R200");
  assert.deepEqual([part.edges.length, part.left], [4, 395]);
  assert.equal(drawn(large, "none").names.length, MOST_NODES);
});

test("a cause marks the edges from the relation that keeps back to the one that holds", () => {
  const cause: Cause = {
    cause: "IDLE",
    relation: "ORDERS",
    topic: "orders",
    partition: 0,
    has: null,
    needs: null,
    why: "",
    released: "",
    change: "",
    path: [0, 2, 4],
    rows: 3,
    holds: ["IN_TIME"],
  };
  assert.deepEqual([...edgesOf(GRAPH, cause)], [edgeName({ from: "ORDERS", to: "IN_TIME" })]);
});

test("the table is searched and ordered, and what is not known comes last both ways", () => {
  const all = relationsNow(GRAPH, [progress(1, 100)]) ?? [];
  assert.deepEqual(listed(all, "", null, false).map((each) => each.name), ["ORDERS", "IN_TIME", "SAME", "UNREAD"]);
  assert.deepEqual(listed(all, " VIEW", "name", false).map((each) => each.name), ["IN_TIME", "SAME", "UNREAD"]);
  assert.deepEqual(listed(all, "", "boundMs", true).map((each) => each.name), ["ORDERS", "IN_TIME", "SAME", "UNREAD"]);
  assert.deepEqual(listed(all, "", "boundMs", false).map((each) => each.name), ["IN_TIME", "SAME", "ORDERS", "UNREAD"]);
});

test("the command that resubmits has the filters of the view", () => {
  const command = "rowtide errors resubmit PIPELINE.sql";
  assert.equal(resubmission({ number: 17 }), `${command} 17 --dry-run`);
  assert.equal(resubmission({}), `${command} --all --dry-run`);
  assert.equal(
    resubmission({ kind: "LATE", relation: "ORDERS", reason: "DECODE" }),
    `${command} --kind late --relation ORDERS --reason DECODE --dry-run`,
  );
  assert.equal(resubmission({ reason: "X; reboot" }), `${command} --reason 'X; reboot' --dry-run`);
  assert.equal(resubmission({ relation: `it's "x"` }), `${command} --relation '"it'\\''s ""x"""' --dry-run`);
});

test("a request names one row, or those that match and were not resubmitted", () => {
  assert.deepEqual(requested({ number: 17 }), { numbers: [17] });
  assert.deepEqual(requested({ kind: "LATE" }), { kind: "LATE", relation: "", reason: "", pending: true });
});

test("rows of which the same is said share a line, and many numbers are cut", () => {
  const rows = [5, 6, 7].map((number) => ({ number, why: number === 6 ? "b" : "a" }));
  assert.deepEqual(grouped(rows, (each) => each.why), [
    { said: "a", numbers: [5, 7] },
    { said: "b", numbers: [6] },
  ]);
  assert.equal(listedNumbers([6]), "Row 6");
  assert.equal(listedNumbers([5, 7]), "Rows 5, 7");
  assert.equal(listedNumbers([1, 2, 3, 4], 4), "Rows 1, 2, 3, 4");
  assert.equal(listedNumbers([1, 2, 3, 4, 5, 6], 4), "Rows 1, 2, 3, 4 and 2 more");
});
