import { useState } from "preact/hooks";
import { address, type LatestRows, Refusal } from "../api";
import { cell, isNumber, timeText } from "../cells";
import { name as pipeline } from "../live";
import { zone } from "../preferences";
import { count, moment, NOTHING } from "../text";
import { Refused, useAnswer } from "./answer";
import { Table } from "./table";

/** The rows that a relation has given last, the newest first. The question waits for the main loop, so a person repeats it. */
export function LatestView({ name }: { readonly name: string }) {
  const [asked, setAsked] = useState(0);
  const url = pipeline.value === null ? null : address("pipelines", pipeline.value, "relations", name, "rows", "latest");
  const found = useAnswer<LatestRows>(url, asked);
  return (
    <section>
      <h3>Last rows</h3>
      <button type="button" onClick={() => setAsked(asked + 1)}>
        Read again
      </button>
      <div role="status">
        {found instanceof Refusal && <Refused refusal={found} />}
        {found !== null && !(found instanceof Refusal) && <p>{said(found)}</p>}
      </div>
      {found !== null && !(found instanceof Refusal) && found.rows.length > 0 && <Rows found={found} />}
    </section>
  );
}

function said({ rows, total, since }: LatestRows): string {
  const began = `since ${moment(since === null ? null : Date.parse(since), zone.value)}, when this process began to compute it`;
  if (total === 0) return `It has given no row ${began}.`;
  const all = `${count(total)} ${total === 1 ? "row" : "rows"} ${began}`;
  return rows.length === total ? `${all}, the newest first.` : `The last ${count(rows.length)} of ${all}, the newest first.`;
}

function Rows({ found: { columns, rows } }: { readonly found: LatestRows }) {
  const hasChanges = rows.some((each) => each.op === "-");
  return (
    <Table
      label="Last rows"
      isLong
      columns={[
        { name: "rowtime", isNumber: false },
        ...(hasChanges ? [{ name: "change", isNumber: false }] : []),
        ...columns.map(({ name, type }) => ({ name, isNumber: isNumber(type), hint: type })),
      ]}
      rows={[...rows].reverse().map(({ op, rowtime, row }, key) => ({
        key,
        isGone: op === "-",
        cells: [
          rowtime === null ? NOTHING : timeText(rowtime),
          ...(hasChanges ? [op === "+" ? "+ comes" : "- goes"] : []),
          ...columns.map(({ type }, at) => cell(row[at] ?? null, type) ?? <span class="null">NULL</span>),
        ],
      }))}
    />
  );
}
