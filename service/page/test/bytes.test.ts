import assert from "node:assert/strict";
import { test } from "node:test";
import { hexOf, MOST_BYTES, partOf, placeIn, textOf } from "../src/bytes";

function base64(bytes: Iterable<number>): string {
  return btoa(String.fromCharCode(...bytes));
}

test("a reason names a byte, or none", () => {
  const details = ["JSON is malformed: invalid character (byte 30)", "$.user at byte 3: 6 bytes are announced, and 5 are left"];
  assert.deepEqual(details.map(placeIn), [30, 3]);
  for (const detail of ["", "6 bytes are left", "does not begin with the header of a registry: byte 7", "(character 4)"]) {
    assert.equal(placeIn(detail), null);
  }
});

test("the place is marked in the text and in the hexadecimal lines", () => {
  const part = partOf(base64(new TextEncoder().encode("{\"name\": \"Zoë\"}\n\u0007 end")), 12);
  assert.deepEqual(textOf(part), ['{"name": "Zo', "ë", '"}\n\\u{7} end']);
  assert.deepEqual(hexOf(part)[0]?.bytes, ["7b 22 6e 61 6d 65 22 3a 20 22 5a 6f ", "c3", " ab 22 7d"]);
  assert.deepEqual(hexOf(part)[1], { offset: "00000010", bytes: ["0a 07 20 65 6e 64 ", "", ""] });
});

test("bytes that are no text are shown, and what turns the direction of text is spelt", () => {
  assert.deepEqual(textOf(partOf(base64([0xff, 0x41]), null)), ["\ufffdA", "", ""]);
  assert.deepEqual(textOf(partOf(base64(new TextEncoder().encode("a\u202eb")), null)), ["a\\u{202e}b", "", ""]);
  assert.deepEqual(textOf(partOf(base64([0xef, 0xbb, 0xbf, 0x41]), null)), ["\\u{feff}A", "", ""]);
  assert.deepEqual(textOf(partOf("", 0)), ["", "", ""]);
});

test("of a large message the bytes around the place are shown, and a place behind its end is none", () => {
  const large = base64(Array.from({ length: 3 * MOST_BYTES }, (_, at) => at % 256));
  for (const place of [0, 1, MOST_BYTES, 3 * MOST_BYTES - 1]) {
    const part = partOf(large, place);
    assert.equal(part.bytes.length, MOST_BYTES);
    assert.equal(part.bytes[part.place ?? -1], place % 256);
    assert.equal(part.from + (part.place ?? -1), place);
  }
  assert.equal(partOf(large, 3 * MOST_BYTES).place, null);
});
