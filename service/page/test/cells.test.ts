import assert from "node:assert/strict";
import { test } from "node:test";
import { cell, isNumber, type Value } from "../src/cells";

const CASES: readonly (readonly [Value, string, string | null])[] = [
  [null, "BIGINT", null],
  ["", "VARCHAR(3)", ""],
  [true, "BOOLEAN", "TRUE"],
  ["9007199254740993", "BIGINT", "9007199254740993"],
  ["1.50", "DECIMAL(10, 2)", "1.50"],
  [2, "DOUBLE", "2.0"],
  [0.5, "DOUBLE", "0.5"],
  [1e22, "DOUBLE", "1e+22"],
  ["NaN", "DOUBLE", "NaN"],
  [1_767_260_369_520, "TIMESTAMP", "2026-01-01 09:39:29.520"],
  [0, "TIMESTAMP WITH TIME ZONE", "1970-01-01 00:00:00.000+00:00"],
  [1e18, "TIMESTAMP", "1000000000000000000 ms"],
  [-62_135_596_800_000, "TIMESTAMP", "0001-01-01 00:00:00.000"],
  [20_454, "DATE", "2026-01-01"],
  [34_769_000, "TIME", "09:39:29"],
  [34_769_520, "TIME", "09:39:29.520"],
  [-90_061_001, "INTERVAL DAY TO SECOND", "-1 01:01:01.001"],
  [-14, "INTERVAL YEAR TO MONTH", "-1-2"],
  [['a"b', null], "VARCHAR(9) ARRAY", '["a\\"b", NULL]'],
  [[1, 2], "DATE ARRAY", "[1970-01-02, 1970-01-03]"],
];

for (const [value, type, text] of CASES) {
  test(`${String(value)} as ${type}`, () => assert.equal(cell(value, type), text));
}

test("only numbers stand at the right", () => {
  const types = ["BIGINT", "DECIMAL(10, 2)", "DOUBLE", "VARCHAR(3)", "TIMESTAMP", "BIGINT ARRAY"];
  assert.deepEqual(types.filter(isNumber), ["BIGINT", "DECIMAL(10, 2)", "DOUBLE"]);
});
