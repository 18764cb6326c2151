// What is known of the running pipeline, kept by one stream of events. Views read the signals.

import { batch, computed, effect, signal } from "@preact/signals";
import {
  address,
  ask,
  type Cause,
  type Causes,
  type Errors,
  type Graph,
  type Phase,
  type Pipelines,
  type Progress,
  Refusal,
  type Session,
} from "./api";
import { kept, RATE_MS, relationsNow } from "./model";

/** The state of the connection to the service. `lost` keeps the last numbers, and says since when they are old. */
export type Connection =
  | { readonly kind: "connecting" }
  | { readonly kind: "live" }
  | { readonly kind: "lost"; readonly why: string }
  | { readonly kind: "refused"; readonly refusal: Refusal };

const RETRY_MS = 2_000;
/** After this time without an event ask whether the service still answers: a broken connection can look like a quiet one. */
const SILENT_MS = 20_000;

export const connection = signal<Connection>({ kind: "connecting" });
export const name = signal<string | null>(null);
export const version = signal<string | null>(null);
const rights = signal<readonly string[]>([]);
export const mayOperate = computed(() => rights.value.includes("operate"));
export const phase = signal<Phase | null>(null);
export const graph = signal<Graph | null>(null);
export const history = signal<readonly Progress[]>([]);
export const errors = signal<Errors | null>(null);
/** How often rows were resubmitted by this page. */
export const resubmissions = signal(0);
/** Changes when error rows that are shown may have changed. */
export const errorsSeen = computed(() => [errors.value, resubmissions.value] as const);
export const causes = signal<readonly Cause[]>([]);
/** When the last event came, and the time now: by the clock of this machine. */
export const heardAt = signal(Date.now());
export const clock = signal(Date.now());

const progressAt = signal(Date.now());
/** Whether the pipeline has not committed for a while, as far as is known: what is lost is old, not quiet. */
const isQuiet = computed(() => connection.value.kind === "live" && clock.value - progressAt.value > RATE_MS);

export const newest = computed(() => history.value.at(-1) ?? null);
export const pendingErrors = computed(() =>
  errors.value === null ? null : Object.values(errors.value.pending).reduce((sum, each) => sum + each, 0),
);

let shown: ReturnType<typeof relationsNow> = [];
/** The numbers of all relations: the last ones stay until the graph of newer ones is here. */
export const relations = computed(() => {
  if (graph.value !== null) shown = relationsNow(graph.value, history.value, isQuiet.value) ?? shown;
  return shown ?? [];
});

let source: EventSource | null = null;
let retry: ReturnType<typeof setTimeout> | undefined;
let probedAt = 0;
let heardEpoch = "";

/** Connect, stay connected while the page is visible, and let the clock run. */
export function start(): void {
  setInterval(() => {
    clock.value = Date.now();
    const silentSince = Math.max(heardAt.value, probedAt);
    if (connection.value.kind === "live" && clock.value - silentSince > SILENT_MS) void probe();
  }, 1000);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : connect()));
  connect();
}

/** Return the name of the pipeline, once it is known. */
export function nameOnceKnown(): Promise<string> {
  return new Promise((resolve) => {
    const end = effect(() => {
      if (name.value === null) return;
      resolve(name.value);
      queueMicrotask(() => end());
    });
  });
}

/** Connect again, now: after a log-in, or when asked to. */
export function connect(): void {
  close();
  void opened();
}

function close(): void {
  clearTimeout(retry);
  source?.close();
  source = null;
}

async function opened(): Promise<void> {
  try {
    const found = (await ask<Pipelines>(address("pipelines"))).pipelines[0];
    if (found === undefined) throw new Refusal(404, "the service has no pipeline", null);
    rights.value = (await ask<Session>(address("session"))).rights;
    name.value = found.name;
    version.value = found.version;
    await loadGraph();
  } catch (error) {
    failed(error);
    return;
  }
  if (!document.hidden) listen(name.value);
}

function listen(pipeline: string): void {
  source?.close();
  const made = new EventSource(address("pipelines", pipeline, "events"));
  source = made;
  const on = <Data>(topic: string, take: (data: Data) => void): void =>
    made.addEventListener(topic, (event) => {
      const { data, lastEventId } = event as MessageEvent<string>;
      batch(() => {
        heard();
        ofEpoch(lastEventId.split(".", 1)[0] ?? "");
        take(JSON.parse(data) as Data);
      });
    });
  made.onopen = heard;
  made.onerror = () => {
    // The browser would try again by itself, but does not say why it failed.
    close();
    failed(new Refusal(0, "the connection to the service is lost", null));
  };
  on<{ digest: string }>("graph", ({ digest }) => digest === graph.value?.digest || void loadGraph().catch(failed));
  on<Phase>("phase", (data) => (phase.value = data));
  on<Progress>("progress", (data) => {
    history.value = kept(history.value, data);
    progressAt.value = Date.now();
    if (data.digest !== graph.value?.digest) void loadGraph().catch(failed);
  });
  on<Errors>("errors", (data) => (errors.value = data));
  on<Causes>("problem", (data) => (causes.value = data.causes));
}

/** Forget what kept rows back in a process that has ended: it need not keep them back in the next one. */
function ofEpoch(epoch: string): void {
  if (epoch !== heardEpoch) causes.value = [];
  heardEpoch = epoch;
}

function heard(): void {
  heardAt.value = clock.value = Date.now();
  connection.value = { kind: "live" };
}

async function loadGraph(): Promise<void> {
  const found = await ask<Graph>(address("pipelines", name.value ?? "", "graph"));
  graph.value = found;
}

async function probe(): Promise<void> {
  probedAt = Date.now();
  try {
    await ask(address("pipelines"));
  } catch (error) {
    close();
    failed(error);
  }
}

function failed(error: unknown): void {
  if (!(error instanceof Refusal)) throw error;
  const mayPass = error.status === 0 || error.status >= 429;
  batch(() => {
    clock.value = Date.now();
    connection.value = mayPass ? { kind: "lost", why: error.message } : { kind: "refused", refusal: error };
  });
  clearTimeout(retry);
  if (mayPass && !document.hidden) retry = setTimeout(() => void opened(), RETRY_MS);
}
