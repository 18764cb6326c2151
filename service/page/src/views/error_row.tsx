import { to } from "../address";
import { address, type ErrorRow, Refusal } from "../api";
import { hexOf, type Marked, MOST_BYTES, partOf, placeIn, textOf } from "../bytes";
import { errorsSeen, mayOperate, name as pipeline } from "../live";
import { zone } from "../preferences";
import { count, moment, NOTHING, span } from "../text";
import { Refused, useAnswer } from "./answer";
import { messageOf } from "./errors";
import { Command, Resubmit } from "./resubmit";

/** One error row: where it comes from, why it was refused, its bytes with the place of the fault, and its row. */
export function ErrorRowView({ number }: { readonly number: string }) {
  const url = pipeline.value === null ? null : address("pipelines", pipeline.value, "errors", number);
  const row = useAnswer<ErrorRow>(url, errorsSeen.value);
  return (
    <>
      <p>
        <a href={to(["errors"])}>← All error rows</a>
      </p>
      {row instanceof Refusal && <Refused refusal={row} />}
      {row !== null && !(row instanceof Refusal) && <Shown row={row} />}
    </>
  );
}

function Shown({ row }: { readonly row: ErrorRow }) {
  const place = placeIn(row.detail);
  return (
    <>
      <h2>
        Error row {row.number} <small>{row.kind.toLowerCase()}</small>
      </h2>
      <p>
        <a href={to(["relations", row.relation])}>{row.relation}</a>: <strong>{row.reason}</strong> {row.detail}
      </p>
      <Facts row={row} />
      {mayOperate.value && (
        <Resubmit key={row.number} chosen={{ number: row.number }} word="Resubmit…" isOffered={row.resubmission === null} />
      )}
      {row.raw_base64 !== null && <Bytes title="Message" base64={row.raw_base64} place={place} />}
      {row.key_base64 !== null && <Bytes title="Key" base64={row.key_base64} place={null} />}
      {row.headers !== null && <Headers headers={row.headers} />}
      {row.row !== null && (
        <section>
          <h3>Row as far as it was decoded</h3>
          <pre tabIndex={0} role="region" aria-label="Row">
            {JSON.stringify(row.row, null, 2)}
          </pre>
        </section>
      )}
      {row.resubmission === null && !mayOperate.value && <Command chosen={{ number: row.number }} />}
    </>
  );
}

function Facts({ row }: { readonly row: ErrorRow }) {
  const again = row.resubmission;
  const facts: [string, string][] = [
    ["message", messageOf(row) || NOTHING],
    ["message time", shown(row.message_time)],
    ["rowtime", shown(row.rowtime)],
    ["bound", shown(row.bound)],
    ["late by", row.late_by_ms === null ? NOTHING : span(row.late_by_ms)],
    ["committed", shown(row.committed_at)],
    ["epoch", count(row.epoch)],
    ["resubmitted", again === null ? "no" : `as ${again.number}, ${shown(again.at)}`],
  ];
  return (
    <dl class="facts">
      {facts.map(([word, value]) => (
        <div key={word}>
          <dt>{word}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function shown(time: string | null): string {
  return moment(time === null ? null : Date.parse(time), zone.value);
}

interface Content {
  readonly title: string;
  readonly base64: string;
  readonly place: number | null;
}

function Bytes({ title, base64, place }: Content) {
  const part = partOf(base64, place);
  const isPart = part.bytes.length < part.length;
  return (
    <section>
      <h3>
        {title} <small>{count(part.length)} bytes</small>
      </h3>
      {isPart && (
        <p>
          {count(MOST_BYTES)} bytes are shown, from byte {count(part.from)} on.
        </p>
      )}
      <pre class="text" tabIndex={0} role="region" aria-label={`${title} as text`}>
        <Mark of={textOf(part)} />
      </pre>
      <pre tabIndex={0} role="region" aria-label={`${title} in hexadecimal`}>
        {hexOf(part).map((line) => (
          <div key={line.offset}>
            <span class="offset">{line.offset} </span>
            <Mark of={line.bytes} />
          </div>
        ))}
      </pre>
    </section>
  );
}

function Mark({ of: [before, at, after] }: { readonly of: Marked }) {
  return (
    <>
      {before}
      {at !== "" && <mark>{at}</mark>}
      {after}
    </>
  );
}

function Headers({ headers }: { readonly headers: NonNullable<ErrorRow["headers"]> }) {
  return (
    <section>
      <h3>Headers</h3>
      <dl class="facts">
        {headers.map(([name, value], at) => (
          <div key={at}>
            <dt>{name}</dt>
            <dd>{value === null ? NOTHING : <Mark of={textOf(partOf(value, null))} />}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
