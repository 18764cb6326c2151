import { useState } from "preact/hooks";
import { to } from "../address";
import { address, ask, type Cause, Refusal, type Relation } from "../api";
import { name as pipeline, relations } from "../live";
import type { Now } from "../model";
import { zone } from "../preferences";
import { count, moment, NOTHING, rate, span } from "../text";
import { Refused, useAnswer } from "./answer";
import { LatestView } from "./latest";

/** One relation: its numbers, what it reads and is read by, its columns and statement, its last rows, and why it is silent. */
export function RelationView({ name }: { readonly name: string }) {
  const url = pipeline.value === null ? null : address("pipelines", pipeline.value, "relations", name);
  const relation = useAnswer<Relation>(url);
  const now = relations.value.find((each) => each.name === name);
  return (
    <>
      <p>
        <a href={to([])}>← All relations</a> · <a href={to([], { around: name })}>Graph around it</a>
      </p>
      <h2>
        {name} <small>{now?.kind}</small>
      </h2>
      {now !== undefined && <Numbers now={now} />}
      {relation instanceof Refusal && <Refused refusal={relation} />}
      {relation !== null && !(relation instanceof Refusal) && <Described relation={relation} />}
      {relation !== null && !(relation instanceof Refusal) && relation.kind !== "pump" && <LatestView key={name} name={name} />}
      <WhyNot name={name} />
    </>
  );
}

function Numbers({ now }: { readonly now: Now }) {
  const facts: [string, string][] = [
    ["rows in", `${count(now.rowsIn)} (${rate(now.inPerS)}/s)`],
    ["rows out", `${count(now.rowsOut)} (${rate(now.outPerS)}/s)`],
    ["bound", moment(now.boundMs, zone.value)],
    ["behind", now.behindMs === null ? NOTHING : span(now.behindMs)],
    ["held", count(now.held)],
    ["late", count(now.late)],
    ["rejected", count(now.rejected)],
    ["filtered", count(now.filtered)],
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

function Described({ relation }: { readonly relation: Relation }) {
  return (
    <>
      {relation.query !== null && (
        <p>
          <a href={to(["sql"], { q: relation.query })}>Look at its rows</a>
        </p>
      )}
      <p>
        Reads <Names names={relation.reads} />. Read by <Names names={relation.read_by} />.
      </p>
      {relation.columns.length > 0 && (
        <section class="scroll" tabIndex={0} aria-label="Columns">
          <table>
            <thead>
              <tr>
                <th scope="col">column</th>
                <th scope="col">type</th>
                <th scope="col">nullable</th>
                <th scope="col">key</th>
              </tr>
            </thead>
            <tbody>
              {relation.columns.map((each) => (
                <tr key={each.name}>
                  <th scope="row">{each.name}</th>
                  <td>{each.type}</td>
                  <td>{each.nullable ? "yes" : "no"}</td>
                  <td>{each.key ? "yes" : "no"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {relation.sql !== null && (
        <>
          <h3>Statement{relation.place !== null && <small> line {relation.place.line} of the pipeline file</small>}</h3>
          <pre tabIndex={0} role="region" aria-label="Statement">{relation.sql}</pre>
        </>
      )}
    </>
  );
}

function Names({ names }: { readonly names: readonly string[] }) {
  if (names.length === 0) return <>nothing</>;
  return (
    <>
      {names.map((each, at) => (
        <>
          {at > 0 && ", "}
          <a href={to(["relations", each])}>{each}</a>
        </>
      ))}
    </>
  );
}

interface WhyNotAnswer {
  readonly causes: readonly Pick<Cause, "cause" | "relation" | "why" | "released" | "change">[];
}

/** Asks the service why no new row comes out; the question waits for the main loop, so a person asks it. */
function WhyNot({ name }: { readonly name: string }) {
  const [answer, setAnswer] = useState<WhyNotAnswer | Refusal | "asked" | null>(null);
  const asked = () => {
    setAnswer("asked");
    ask<WhyNotAnswer>(address("pipelines", pipeline.value ?? "", "relations", name, "why-not")).then(setAnswer, (error: unknown) => {
      if (!(error instanceof Refusal)) throw error;
      setAnswer(error);
    });
  };
  return (
    <section>
      <h3>Why are there no new rows?</h3>
      <button type="button" onClick={asked}>
        Ask
      </button>
      <div role="status">
        {answer === "asked" && <p>The service looks.</p>}
        {answer instanceof Refusal && <Refused refusal={answer} />}
        {answer !== null && answer !== "asked" && !(answer instanceof Refusal) && (
          <ol>
            {answer.causes.map((each, at) => (
              <li key={at}>
                <strong>{each.cause}</strong> {each.relation}: {each.why} {each.released} <em>{each.change}</em>
              </li>
            ))}
          </ol>
        )}
      </div>
    </section>
  );
}
