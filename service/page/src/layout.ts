// Positions of nodes and edges, computed in a worker and kept: a plan never changes while its process runs.

import type { Edge } from "./model";

/** What the worker is asked: sizes in CSS pixels. */
export interface LayoutTask {
  readonly names: readonly string[];
  readonly edges: readonly Edge[];
  readonly direction: "LR" | "TB";
  readonly width: number;
  readonly height: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Centres of nodes by name; of each edge, in the order of the task, its points; the size of the whole. */
export interface Layout {
  readonly nodes: Readonly<Record<string, Point>>;
  readonly edges: readonly (readonly Point[])[];
  readonly width: number;
  readonly height: number;
}

declare const LAYOUT_WORKER: string;

const MOST_KEPT = 20;
const kept = new Map<string, Promise<Layout>>();
const waiting = new Map<number, (layout: Layout) => void>();
let worker: Worker | undefined;
let asked = 0;

/** Return the layout of a task; the same task is computed once. */
export function layoutOf(task: LayoutTask): Promise<Layout> {
  const key = JSON.stringify(task);
  let found = kept.get(key);
  if (found === undefined) {
    found = compute(task);
    kept.set(key, found);
    const oldest = kept.size > MOST_KEPT ? kept.keys().next().value : undefined;
    if (oldest !== undefined) kept.delete(oldest);
  }
  return found;
}

function compute(task: LayoutTask): Promise<Layout> {
  worker ??= started();
  const number = ++asked;
  return new Promise((resolve) => {
    waiting.set(number, resolve);
    worker?.postMessage({ number, task });
  });
}

function started(): Worker {
  const made = new Worker(trusted(new URL(LAYOUT_WORKER, document.baseURI).href));
  made.onmessage = (event: MessageEvent<{ number: number; layout: Layout }>) => {
    waiting.get(event.data.number)?.(event.data.layout);
    waiting.delete(event.data.number);
  };
  return made;
}

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string };
}

/** Return the address of the worker as the policy of the page wants it: only this one script may be loaded. */
function trusted(url: string): string {
  const types = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes;
  if (types === undefined) return url;
  const policy = types.createPolicy("rowtide", {
    createScriptURL(given) {
      if (given !== url) throw new TypeError("the page loads no other script");
      return given;
    },
  });
  return policy.createScriptURL(url);
}
