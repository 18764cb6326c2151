// The bytes of a message as people read them: as text and in hexadecimal, with one place marked. Pure functions.

/** The most bytes that are shown: those around the place that is marked. */
export const MOST_BYTES = 2_048;
const LINE = 16;
/** What cannot be seen, or turns the direction of text. */
const UNSEEN = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** What is before, at and after the marked place. */
export type Marked = readonly [before: string, at: string, after: string];

/** A part of a message of `length` bytes, which begins at `from`. `place` is the marked byte of the part. */
export interface Part {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly length: number;
  readonly place: number | null;
}

/** Return the part that is shown of a message in base64: all, or what is around the byte `place`. */
export function partOf(base64: string, place: number | null): Part {
  const all = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
  const known = place !== null && place < all.length ? place : null;
  const from = Math.max(0, Math.min((known ?? 0) - MOST_BYTES / 2, all.length - MOST_BYTES));
  return {
    bytes: all.subarray(from, from + MOST_BYTES),
    from,
    length: all.length,
    place: known === null ? null : known - from,
  };
}

/** Return the byte that the detail of a reason names; null: it names none. */
export function placeIn(detail: string): number | null {
  const found = /(?:\(|\bat )byte (\d+)/.exec(detail);
  return found === null ? null : Number(found[1]);
}

/** Return bytes as text; what is not UTF-8, or cannot be seen, is shown as such. */
export function textOf({ bytes, place }: Part): Marked {
  if (place === null) return [printable(bytes), "", ""];
  const end = place + lengthOfCharacter(bytes[place] ?? 0);
  return [printable(bytes.subarray(0, place)), printable(bytes.subarray(place, end)), printable(bytes.subarray(end))];
}

/** Return lines of 16 bytes: the offset of the first, and the bytes. */
export function hexOf({ bytes, from, place }: Part): { readonly offset: string; readonly bytes: Marked }[] {
  const lines = [];
  for (let at = 0; at < bytes.length; at += LINE) {
    const line = [...bytes.subarray(at, at + LINE)].map((each) => each.toString(16).padStart(2, "0"));
    const marked = place !== null && place >= at && place < at + LINE ? place - at : line.length;
    const before = line.slice(0, marked).map((each) => `${each} `);
    const after = line.slice(marked + 1).map((each) => ` ${each}`);
    lines.push({
      offset: (from + at).toString(16).padStart(8, "0"),
      bytes: [before.join(""), line[marked] ?? "", after.join("")] as const,
    });
  }
  return lines;
}

function printable(bytes: Uint8Array): string {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  return text.replace(UNSEEN, (each) => (each === "\n" ? each : `\\u{${(each.codePointAt(0) ?? 0).toString(16)}}`));
}

/** Return how many bytes of UTF-8 a character has that begins with this one. */
function lengthOfCharacter(first: number): number {
  if (first >= 0xf0) return 4;
  if (first >= 0xe0) return 3;
  return first >= 0xc0 ? 2 : 1;
}
