// What the view of positions says of partitions, commits and decisions. Pure functions.

import type { Commit, Commits, Decision, Position } from "./api";
import { count } from "./text";

export const TABS = ["partitions", "commits", "snapshots", "decisions"] as const;
export type Tab = (typeof TABS)[number];

/** Return the tab with a name; the first one if there is none. */
export function tabOf(name: string | null): Tab {
  return TABS.find((each) => each === name) ?? "partitions";
}

const ORIGINS: Readonly<Record<NonNullable<Position["bound_from"]>, string>> = {
  row: "its rows",
  bound: "a bound record",
  idle: "idle_timeout",
  decision: "a decision",
};

/** Return what has given the bound of a partition, in words; null: it is not known, or there is none. */
export function originOf(position: Position): string | null {
  return position.bound_from === null ? null : ORIGINS[position.bound_from];
}

/** Return a partition as the log of a service names it: `orders[2]`. */
export function partitionOf(topic: string | null, partition: number): string {
  return `${topic ?? ""}[${partition}]`;
}

/** Return the rows of a commit: those of its tables, the largest first; of many the first ones. */
export function rowsOf(commit: Commit, most = 3): string {
  const written = Object.entries(commit.rows).sort(([one, rows], [other, others]) => others - rows || one.localeCompare(other));
  const left = written.length - most;
  const said = written.slice(0, most).map(([table, rows]) => `${table} ${count(rows)}`);
  return [...said, ...(left > 0 ? [`${count(left)} more`] : [])].join(", ");
}

/** Return how many commits are not in the list, and why; null: none. `begun` is when this process began, in words. */
export function missing({ not_shown }: Pick<Commits, "not_shown">, begun: string | null): string | null {
  if (not_shown === 0) return null;
  const which = `${count(not_shown)} earlier ${not_shown === 1 ? "commit is" : "commits are"} not shown`;
  if (begun === null) return `${which}: this process does not run the pipeline yet.`;
  return `${which}: this process has run the pipeline since ${begun}, and keeps the last ones of its own.`;
}

const DECIDED: Readonly<Record<string, string>> = {
  IDLE: "was silent and took this bound",
  APPEND_TIME: "was quiet and took the time of the broker",
  JOIN: "joined",
  SKIP: "the message is skipped",
  CUT: "a backfill ended here",
  RESET: "history is over: its time jumped",
};

/** Return what was decided. A kind of a later version stays as it is. */
export function decided(decision: Decision): string {
  if (decision.kind === "JOIN" && decision.resubmission !== null) return `resubmission ${decision.resubmission} joined`;
  return DECIDED[decision.kind] ?? decision.kind;
}
