import { useEffect, useRef, useState } from "preact/hooks";
import { filter, filters } from "../address";
import { address, Refusal, type Relations } from "../api";
import { cell, isNumber, timeText } from "../cells";
import { described, marked, rangeOf, rowsOf } from "../lines";
import { name as pipeline, nameOnceKnown } from "../live";
import { type QueryState, runQuery } from "../query";
import { count, NOTHING } from "../text";
import { Refused, useAnswer } from "./answer";
import { Table } from "./table";

/** A query on the running pipeline: its text, its rows as they come or those of now, and the place of its fault. */
export function SqlView() {
  const [text, setText] = useState(filters.value.get("q") ?? "");
  const [asked, setAsked] = useState("");
  const [shown, setShown] = useState<QueryState | "asked" | null>(null);
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const running = useRef<AbortController | null>(null);
  const editor = useRef<HTMLTextAreaElement>(null);
  // It ends with its reader.
  useEffect(() => () => running.current?.abort(), []);
  // Another text comes with another address: a relation's, or one that was sent.
  useEffect(() => setText(filters.value.get("q") ?? ""), [filters.value.get("q")]);

  const run = async (once: boolean) => {
    running.current?.abort();
    const stop = new AbortController();
    running.current = stop;
    const current = <Value,>(set: (value: Value) => void) => (value: Value) => running.current === stop && set(value);
    filter({ q: text });
    setAsked(text);
    setShown("asked");
    setRefusal(null);
    try {
      await runQuery(await nameOnceKnown(), text, once, stop.signal, current(setShown));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      current(setRefusal)(error);
      if (running.current === stop && error.place !== null) {
        editor.current?.focus();
        editor.current?.setSelectionRange(...rangeOf(text, error.place));
      }
    }
    if (running.current === stop) running.current = null;
    setShown((last) => (last === "asked" ? null : last));
  };
  const state = shown === "asked" ? null : shown;
  const isRunning = shown === "asked" || (state !== null && !state.isOver);
  return (
    <>
      <h2>SQL</h2>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(true);
        }}
      >
        <label>
          Query
          <textarea
            ref={editor}
            class="sql"
            rows={5}
            spellcheck={false}
            autocapitalize="off"
            value={text}
            aria-invalid={refusal !== null}
            aria-describedby="sql-keys"
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void run(!event.shiftKey);
            }}
          />
        </label>
        <p id="sql-keys">
          <small>Ctrl+Enter reads once, Ctrl+Shift+Enter follows. A query changes nothing, and ends when this view is left.</small>
        </p>
        <p class="buttons">
          <button type="submit" disabled={text.trim() === ""} title="The rows that a query on tables has now">
            Read once
          </button>
          <button type="button" disabled={text.trim() === ""} title="Rows as they come" onClick={() => void run(false)}>
            Follow
          </button>
          <button type="button" disabled={!isRunning} onClick={() => running.current?.abort()}>
            Stop
          </button>
          <Start take={(query) => setText(query)} />
        </p>
      </form>
      {refusal !== null && <Fault refusal={refusal} text={asked} />}
      <p role="status" aria-live={isRunning ? "off" : "polite"}>{shown === "asked" ? "The query starts." : state !== null && said(state)}</p>
      {state !== null && <Result state={state} />}
    </>
  );
}

/** Offers a query of each relation, so that nobody begins with an empty field. */
function Start({ take }: { readonly take: (query: string) => void }) {
  const found = useAnswer<Relations>(pipeline.value === null ? null : address("pipelines", pipeline.value, "relations"));
  if (found === null || found instanceof Refusal) return null;
  const relations = found.relations.filter((each) => each.query !== null);
  return (
    <label>
      Start from{" "}
      <select
        value=""
        onChange={(event) => {
          const { value } = event.currentTarget;
          if (value !== "") take(value);
          event.currentTarget.value = "";
        }}
      >
        <option value="">a relation</option>
        {relations.map((each) => (
          <option key={each.name} value={each.query ?? ""}>
            {each.name} ({each.kind})
          </option>
        ))}
      </select>
    </label>
  );
}

/** Why a query is refused, with its line and the place in it. */
function Fault({ refusal, text }: { readonly refusal: Refusal; readonly text: string }) {
  const { place } = refusal;
  const line = place === null ? null : marked(text, place);
  return (
    <section role="alert" aria-label="Fault of the query">
      <Refused refusal={refusal} />
      {place !== null && line !== null && (
        <pre class="text" tabIndex={0} role="region" aria-label="Line of the fault">
          <span class="offset">
            {place.line}:{place.column}{" "}
          </span>
          {line[0]}
          <mark>{line[1]}</mark>
          {line[2]}
        </pre>
      )}
    </section>
  );
}

function said(state: QueryState): string {
  return described(state.answer, state.isFirst, state.isOver, count);
}

function Result({ state }: { readonly state: QueryState }) {
  const { answer, isFirst, started } = state;
  const { columns, changes } = started;
  const rows = rowsOf(answer, isFirst);
  const hasTimes = rows.some((each) => each.rowtime !== null);
  const hasChanges = changes && !isFirst;
  return (
    <>
      {answer.failed !== null && (
        <p class="bad">
          {answer.failed.message}. {answer.failed.hint}
        </p>
      )}
      {answer.rejected > 0 && (
        <p class="bad">
          {count(answer.rejected)} rejected by the query, the last one: {answer.lastRejected}
        </p>
      )}
      {rows.length > 0 && (
        <Table
          label="Rows"
          isLong
          columns={[
            { name: "row", isNumber: true },
            ...(hasChanges ? [{ name: "change", isNumber: false }] : []),
            ...(hasTimes ? [{ name: "rowtime", isNumber: false }] : []),
            ...columns.map(({ name, type }) => ({ name, isNumber: isNumber(type), hint: type })),
          ]}
          rows={rows.map(({ number, op, rowtime, values }) => ({
            key: number,
            isGone: op === "-",
            cells: [
              count(number + 1),
              ...(hasChanges ? [op === "+" ? "+ comes" : "- goes"] : []),
              ...(hasTimes ? [rowtime === null ? NOTHING : timeText(rowtime)] : []),
              ...columns.map(({ type }, at) => cell(values[at] ?? null, type) ?? <span class="null">NULL</span>),
            ],
          }))}
        />
      )}
    </>
  );
}
