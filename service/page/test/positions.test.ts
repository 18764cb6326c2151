import assert from "node:assert/strict";
import { test } from "node:test";
import type { Commit, Decision, Position } from "../src/api";
import { decided, missing, originOf, partitionOf, rowsOf, TABS, tabOf } from "../src/positions";

const POSITION: Position = {
  relation: "ORDERS",
  topic: "orders",
  partition: 2,
  next_offset: 9,
  start_offset: 0,
  end_offset: null,
  lag: null,
  bound: "2026-01-01T09:39:29.520Z",
  bound_from: "row",
};
const COMMIT: Commit = {
  number: 1_204,
  epoch: 3,
  at: null,
  seconds: 0.01,
  messages: 5,
  rows: {},
  late: 0,
  rejected: 0,
  snapshot: null,
};
const DECISION: Decision = {
  number: 4,
  kind: "IDLE",
  relation: "ORDERS",
  topic: "orders",
  partition: 2,
  resubmission: null,
  offset: 9,
  jumped_from: null,
  bound: null,
  reader: null,
  epoch: 3,
  committed_at: null,
};

test("an address names a tab, and any other shows the partitions", () => {
  assert.deepEqual(TABS.map(tabOf), [...TABS]);
  assert.deepEqual([null, "", "toString"].map(tabOf), ["partitions", "partitions", "partitions"]);
});

test("the origin of a bound is in words, and one that is not known is nothing", () => {
  const origins = (["row", "bound", "idle", "decision", null] as const).map((bound_from) => originOf({ ...POSITION, bound_from }));
  assert.deepEqual(origins, ["its rows", "a bound record", "idle_timeout", "a decision", null]);
  assert.deepEqual([partitionOf("orders", 2), partitionOf(null, 0)], ["orders[2]", "[0]"]);
});

test("a commit names its tables, the largest first, and counts the rest", () => {
  assert.equal(rowsOf(COMMIT), "");
  assert.equal(rowsOf({ ...COMMIT, rows: { B: 2, A: 2, C: 12_000 } }), "C 12,000, A 2, B 2");
  assert.equal(rowsOf({ ...COMMIT, rows: { A: 1, B: 2, C: 3, D: 4, E: 5 } }), "E 5, D 4, C 3, 2 more");
  assert.equal(rowsOf({ ...COMMIT, rows: { A: 1, B: 2 } }, 1), "B 2, 1 more");
});

test("commits that are not shown are counted, with the reason", () => {
  assert.equal(missing({ not_shown: 0 }, "09:40"), null);
  assert.equal(
    missing({ not_shown: 1_204 }, "2026-01-01 09:40:00.000"),
    "1,204 earlier commits are not shown: this process has run the pipeline since 2026-01-01 09:40:00.000, and keeps the last ones of its own.",
  );
  assert.equal(missing({ not_shown: 1 }, null), "1 earlier commit is not shown: this process does not run the pipeline yet.");
});

test("each kind of decision is said, also one that this page does not know", () => {
  const kinds = ["IDLE", "APPEND_TIME", "JOIN", "SKIP", "CUT", "RESET", "LATER"];
  const said = kinds.map((kind) => decided({ ...DECISION, kind }));
  assert.equal(new Set(said).size, kinds.length);
  assert.equal(said.at(-1), "LATER");
  assert.equal(decided({ ...DECISION, kind: "JOIN", partition: null, resubmission: 3 }), "resubmission 3 joined");
});
