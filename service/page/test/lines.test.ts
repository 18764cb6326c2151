import assert from "node:assert/strict";
import { test } from "node:test";
import { described, marked, MOST_ROWS, NOTHING_YET, parsed, rangeOf, rowsOf, split, taken } from "../src/lines";

const row = (number: number, op = "+") => JSON.stringify({ op, rowtime: number, row: [number, "x"] });
const said = (answer: typeof NOTHING_YET, isFirst: boolean, isOver = true) => described(answer, isFirst, isOver, String);

test("text comes in any cut, and lines are whole", () => {
  const text = `${row(0)}\n\n${row(1)}\n`;
  for (let cut = 0; cut <= text.length; cut += 1) {
    const [first, rest] = split(text.slice(0, cut));
    const [second, left] = split(rest + text.slice(cut));
    assert.deepEqual([...first, ...second], [row(0), "", row(1)]);
    assert.equal(left, "");
  }
});

test("the first rows of what is read once are kept, and the newest of what follows come first", () => {
  const lines = Array.from({ length: MOST_ROWS + 2 }, (_, at) => row(at));
  for (const each of [1, 7, lines.length]) {
    let [once, follows] = [NOTHING_YET, NOTHING_YET];
    for (let at = 0; at < lines.length; at += each) {
      once = taken(once, lines.slice(at, at + each), true);
      follows = taken(follows, lines.slice(at, at + each), false);
    }
    const [first, newest] = [rowsOf(once, true), rowsOf(follows, false)];
    assert.deepEqual([first.length, first[0]?.number, first.at(-1)?.number], [MOST_ROWS, 0, MOST_ROWS - 1]);
    assert.deepEqual([newest.length, newest[0]?.number, newest.at(-1)?.number], [MOST_ROWS, MOST_ROWS + 1, 2]);
    assert.equal(once.came, MOST_ROWS + 2);
    assert.match(said(follows, false, false), /502 rows came so far, of which the newest 500 are shown/);
  }
});

test("an integer keeps its digits, and what JSON has no word for is text", () => {
  assert.deepEqual(parsed('{"op": "+", "row": [9007199254740993, 0.12345678901234567890, 1e300, "NaN \\"Infinity", NaN, -Infinity]}'), {
    op: "+",
    row: ["9007199254740993", 0.12345678901234568, 1e300, 'NaN "Infinity', "NaN", "-Infinity"],
  });
});

test("a failed query never looks like an empty one", () => {
  const all = taken(NOTHING_YET, ['{"ended": "these were all rows"}'], true);
  assert.equal(said(all, true), "There are no rows.");
  const failed = taken(NOTHING_YET, ['{"error": "it took more than 30 s", "hint": null, "failed": true}'], true);
  assert.equal(said(failed, true), "0 rows came, and then the query failed.");
  assert.deepEqual(failed.failed, { message: "it took more than 30 s", hint: null });
  assert.equal(said(NOTHING_YET, false, false), "No row has come yet.");
  assert.equal(said(taken(NOTHING_YET, [row(1)], false), false), "1 row came, until it was stopped.");
  const ended = taken(NOTHING_YET, [row(1), '{"ended": "the partitions have changed"}'], false);
  assert.equal(said(ended, false), "1 row came. The query has ended: the partitions have changed.");
});

test("rejected rows are counted, and the last one is said", () => {
  const answer = taken(NOTHING_YET, ['{"error": "DIVISION: by zero"}', row(0), '{"error": "CAST: abc"}'], false);
  assert.deepEqual([answer.rejected, answer.lastRejected, answer.came], [2, "CAST: abc", 1]);
});

test("a place is marked by characters, and selected by what a text field counts", () => {
  const text = "SELECT '😀', nothing\nFROM orders";
  const place = { line: 1, column: 13, length: 7 };
  assert.deepEqual(marked(text, place), ["SELECT '😀', ", "nothing", ""]);
  assert.equal(text.slice(...rangeOf(text, place)), "nothing");
  assert.equal(text.slice(...rangeOf(text, { line: 2, column: 6, length: 6 })), "orders");
  assert.deepEqual(marked("SELECT", { line: 1, column: 7, length: 1 }), ["SELECT", " ", ""]);
  assert.equal(marked("SELECT", { line: 9, column: 1, length: 1 }), null);
});
