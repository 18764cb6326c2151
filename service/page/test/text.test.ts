import assert from "node:assert/strict";
import { test } from "node:test";
import { END_OF_TIME_MS } from "../src/model";
import { clockTime, count, moment, NOTHING, rate, span } from "../src/text";

const AT = Date.parse("2026-01-01T09:39:29.520Z");

test("numbers are grouped, and what is not known is not zero", () => {
  assert.deepEqual([count(12_431), count(0), count(null)], ["12,431", "0", NOTHING]);
  assert.deepEqual([rate(1_998.4), rate(0.25), rate(9.96), rate(null)], ["1,998", "0.3", "10", NOTHING]);
});

test("a length of time is in its largest unit", () => {
  const spans = [-5, 400, 30_000, 300_000, 10_800_000, 400_000_000, 900_000_000_000].map(span);
  assert.deepEqual(spans, ["0 s", "0.4 s", "30 s", "5 min", "3 h", "5 d", "10,417 d"]);
});

test("a time has its date unless it is that of the other one", () => {
  assert.equal(moment(AT, "UTC"), "2026-01-01 09:39:29.520");
  assert.equal(clockTime(AT, AT + 1_000, "UTC"), "09:39:29.520");
  assert.equal(clockTime(AT, AT + 86_400_000, "UTC"), "2026-01-01 09:39:29.520");
  assert.equal(moment(END_OF_TIME_MS, "UTC"), "complete");
  assert.equal(moment(null, "UTC"), NOTHING);
});

test("a local time is that of the machine", () => {
  const here = new Date(AT);
  assert.equal(moment(AT, "local").slice(11, 13), String(here.getHours()).padStart(2, "0"));
});
