import { useEffect, useState } from "preact/hooks";
import { filter, filtered, filters, to } from "../address";
import { address, type ErrorRow, type ErrorRows, Refusal } from "../api";
import { partOf, placeIn, textOf } from "../bytes";
import { errors, errorsSeen, mayOperate, name as pipeline, relations } from "../live";
import { Refused, useAnswer } from "./answer";
import { Command, Resubmit } from "./resubmit";

const PAGE_ROWS = 100;
const EXCERPT = 60;
const KINDS = ["LATE", "REJECTED"];

/** The rows that were late or rejected, with filters, and how they are resubmitted. */
export function ErrorsView() {
  const wanted = {
    kind: filters.value.get("kind") ?? "",
    relation: filters.value.get("relation") ?? "",
    reason: filters.value.get("reason") ?? "",
    pending: filters.value.get("pending") ?? "",
  };
  const after = filters.value.get("after") ?? "";
  const url = pipeline.value === null ? null : address("pipelines", pipeline.value, "errors");
  for (const [key, value] of Object.entries({ ...wanted, after, limit: String(PAGE_ROWS) })) {
    if (value !== "") url?.searchParams.set(key, value);
  }
  const found = useAnswer<ErrorRows>(url, errorsSeen.value);
  const hasRows = found !== null && !(found instanceof Refusal) && found.errors.length > 0;
  return (
    <>
      <p>
        <a href={to([])}>← All relations</a>
      </p>
      <div class="tools">
        <h2>Error rows</h2>
        <Choice word="Kind" of="kind" value={wanted.kind} values={KINDS} />
        <Choice word="Relation" of="relation" value={wanted.relation} values={withErrors()} />
        <Reason value={wanted.reason} />
        <label>
          <input
            type="checkbox"
            checked={wanted.pending === "true"}
            onChange={(event) => filter({ pending: event.currentTarget.checked ? "true" : "", after: "" })}
          />{" "}
          pending only
        </label>
      </div>
      {mayOperate.value && (
        <Resubmit key={JSON.stringify(wanted)} chosen={wanted} word="Resubmit all that match…" isOffered={hasRows} />
      )}
      {found instanceof Refusal && <Refused refusal={found} />}
      {found !== null && !(found instanceof Refusal) && (
        <>
          <ErrorTable rows={found.errors} />
          <nav aria-label="Pages of error rows">
            {after !== "" && <a href={filtered({ after: "" })}>First rows</a>}{" "}
            {found.next !== null && <a href={filtered({ after: found.next })}>Next rows</a>}
          </nav>
        </>
      )}
      {hasRows && !mayOperate.value && <Command chosen={wanted} />}
    </>
  );
}

/** Return the relations that have error rows: those that are pending, and those that this pipeline has counted. */
function withErrors(): string[] {
  const counted = relations.value.filter((each) => each.late + each.rejected > 0).map((each) => each.name);
  return [...new Set([...counted, ...Object.keys(errors.value?.pending ?? {})])].sort();
}

/** The filter of reasons. What is typed stays until it is taken, also if new error rows are shown meanwhile. */
function Reason({ value }: { readonly value: string }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const take = () => {
    const reason = typed.trim().toUpperCase();
    setTyped(reason);
    filter({ reason, after: "" });
  };
  return (
    <label>
      Reason{" "}
      <input
        value={typed}
        placeholder="such as DECODE"
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={take}
      />
    </label>
  );
}

interface ChoiceOf {
  readonly word: string;
  readonly of: string;
  readonly value: string;
  readonly values: readonly string[];
}

function Choice({ word, of, value, values }: ChoiceOf) {
  const all = values.includes(value) || value === "" ? values : [value, ...values];
  return (
    <label>
      {word}{" "}
      <select value={value} onChange={(event) => filter({ [of]: event.currentTarget.value, after: "" })}>
        <option value="">all</option>
        {all.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  );
}

function ErrorTable({ rows }: { readonly rows: readonly ErrorRow[] }) {
  if (rows.length === 0) return <p>No error row matches.</p>;
  return (
    <section class="scroll" tabIndex={0} aria-label="Table of error rows">
      <table>
        <thead>
          <tr>
            {["number", "kind", "relation", "message", "reason", "content", "resubmitted"].map((each) => (
              <th key={each} scope="col">
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((each) => (
            <tr key={each.number}>
              <th scope="row">
                <a href={to(["errors", String(each.number)])} aria-label={`Error row ${each.number}`}>
                  {each.number}
                </a>
              </th>
              <td>{each.kind}</td>
              <td>
                <a href={to(["relations", each.relation])}>{each.relation}</a>
              </td>
              <td>{messageOf(each)}</td>
              <td>{[each.reason, each.detail].filter(Boolean).join(": ")}</td>
              <td>
                <code>{excerpt(each)}</code>
              </td>
              <td>{each.resubmission === null ? "pending" : `as ${each.resubmission.number}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Return where a row's message is in the log. */
export function messageOf(row: ErrorRow): string {
  return row.topic === null ? "" : `${row.topic}[${row.partition}]@${row.offset}`;
}

/** Return what the message begins with, or has at the place of its fault. */
function excerpt(row: ErrorRow): string {
  if (row.raw_base64 === null) return "";
  const [before, at, after] = textOf(partOf(row.raw_base64, placeIn(row.detail)));
  const from = Math.max(0, before.length - EXCERPT / 2);
  const shown = `${before.slice(from)}${at}${after}`;
  return `${from > 0 ? "…" : ""}${shown.slice(0, EXCERPT)}${shown.length > EXCERPT ? "…" : ""}`.replace(/\s+/g, " ");
}
