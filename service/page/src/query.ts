// Runs a query on the pipeline, and passes on what comes. A query ends with its reader.

import { address, answered, ask, Refusal, send, type StartedQuery } from "./api";
import { type Answer, NOTHING_YET, split, taken } from "./lines";

/** How often what has come is shown, in milliseconds: the page stays usable while a fast stream comes. */
const SHOWN_EACH_MS = 250;

/** A query: its columns, what has come, and whether it is over. `isFirst`: it was read once, and its first rows are kept. */
export interface QueryState {
  readonly started: StartedQuery;
  readonly answer: Answer;
  readonly isFirst: boolean;
  readonly isOver: boolean;
}

/** Run a query until it ends or `stop` aborts it; throws a Refusal. `show` is called with each new state. */
export async function runQuery(
  pipeline: string,
  sql: string,
  once: boolean,
  stop: AbortSignal,
  show: (state: QueryState) => void,
): Promise<void> {
  const queries = ["pipelines", pipeline, "queries"] as const;
  const started = await send<StartedQuery>(address(...queries), { sql, once });
  const query = address(...queries, started.id);
  if (stop.aborted) {
    await ask(query, { method: "DELETE" });
    return;
  }
  // A stream has no contents: it follows.
  let state: QueryState = { started, answer: NOTHING_YET, isFirst: once && started.changes, isOver: false };
  let shownAt = 0;
  const put = (change: Partial<QueryState>, isDue: boolean): void => {
    state = { ...state, ...change };
    if (!isDue && Date.now() - shownAt < SHOWN_EACH_MS) return;
    shownAt = Date.now();
    show(state);
  };
  put({}, true);
  try {
    const { body } = await answered(address(...queries, started.id, "rows"), { signal: stop });
    let rest = "";
    // The service sends an empty line each second, so what came last is shown soon.
    for await (const text of textsOf(body)) {
      const [lines, left] = split(rest + text);
      rest = left;
      put({ answer: taken(state.answer, lines, state.isFirst) }, false);
    }
  } catch (error) {
    if (error instanceof Refusal && error.status !== 0) throw error;
    // It is stopped, or the connection is lost: the last line says which.
  }
  put({ isOver: true }, true);
  if (!stop.aborted && state.answer.ended === null && state.answer.failed === null) {
    throw new Refusal(0, "the connection to the service is lost, and the query with it", "Run it again.");
  }
}

async function* textsOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<string> {
  if (body === null) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield decoder.decode(value, { stream: true });
  }
}
