// Numbers and times as people read them.

import { END_OF_TIME_MS } from "./model";

export type Zone = "UTC" | "local";

const GROUPED = new Intl.NumberFormat("en-US");
const SMALL = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
/** What is shown where nothing is known. */
export const NOTHING = "—";

/** Return a count with its digits in groups. */
export function count(value: number | null): string {
  return value === null ? NOTHING : GROUPED.format(value);
}

/** Return a rate: whole numbers from ten on. */
export function rate(perSecond: number | null): string {
  if (perSecond === null) return NOTHING;
  return perSecond < 10 ? SMALL.format(perSecond) : GROUPED.format(Math.round(perSecond));
}

/** Return a length of time in its largest unit: "0.4 s", "30 s", "5 min". */
export function span(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${SMALL.format(seconds)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${GROUPED.format(Math.round(seconds / 86_400))} d`;
}

/** Return a time with its date. */
export function moment(ms: number | null, zone: Zone): string {
  if (ms === null) return NOTHING;
  if (ms >= END_OF_TIME_MS) return "complete";
  const at = new Date(zone === "UTC" ? ms : ms - new Date(ms).getTimezoneOffset() * 60_000);
  return at.toISOString().slice(0, -1).replace("T", " ");
}

/** Return a time without its date if that is the one of `other`. */
export function clockTime(ms: number | null, other: number | null, zone: Zone): string {
  const shown = moment(ms, zone);
  const date = other === null ? "" : moment(other, zone).slice(0, 11);
  return shown.startsWith(date) ? shown.slice(date.length) : shown;
}
