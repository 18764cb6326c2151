// Values of rows as SQL writes them, by the names of their types: as `rowtide sql` shows them. Pure functions.

/** A value of a row. An integer that a number here cannot hold is text. */
export type Value = string | number | boolean | null | readonly Value[];

const DAY_MS = 86_400_000;
const ARRAY = " ARRAY";

/** Return whether values of a type are numbers, which stand at the right. */
export function isNumber(type: string): boolean {
  return /^(TINYINT|SMALLINT|INTEGER|BIGINT|REAL|DOUBLE|DECIMAL)/.test(type) && !type.endsWith(ARRAY);
}

/** Return a value as text; null for NULL, which is no text. */
export function cell(value: Value, type: string): string | null {
  if (value === null) return null;
  if (Array.isArray(value)) return `[${value.map((each: Value) => element(each, type.slice(0, -ARRAY.length))).join(", ")}]`;
  if (typeof value !== "number") return typeof value === "boolean" ? String(value).toUpperCase() : String(value);
  if (type === "TIMESTAMP") return timeText(value);
  if (type === "TIMESTAMP WITH TIME ZONE") return `${timeText(value)}+00:00`;
  if (type === "DATE") return timeText(value * DAY_MS).slice(0, -13);
  if (type === "TIME") return ofDay(value);
  if (type === "DOUBLE" || type === "REAL") return Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toFixed(1) : String(value);
  if (type.startsWith("INTERVAL")) return /YEAR|MONTH/.test(type) ? months(value) : days(value);
  return String(value);
}

function element(value: Value, type: string): string {
  const text = cell(value, type);
  if (text === null) return "NULL";
  return /^(CHAR|VARCHAR)/.test(type) ? JSON.stringify(text) : text;
}

/** Return a time (ms, UTC) with its milliseconds; outside of the years that a calendar here has, as milliseconds. */
export function timeText(ms: number): string {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime()) || at.getUTCFullYear() < 1 || at.getUTCFullYear() > 9999) return `${ms} ms`;
  return at.toISOString().slice(0, -1).replace("T", " ");
}

function ofDay(ms: number): string {
  const text = new Date(ms).toISOString().slice(11, -1);
  return text.endsWith(".000") ? text.slice(0, -4) : text;
}

function days(ms: number): string {
  const size = Math.abs(ms);
  return `${ms < 0 ? "-" : ""}${Math.floor(size / DAY_MS)} ${ofDay(size % DAY_MS)}`;
}

function months(value: number): string {
  const size = Math.abs(value);
  return `${value < 0 ? "-" : ""}${Math.floor(size / 12)}-${size % 12}`;
}
