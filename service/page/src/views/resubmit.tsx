import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { address, Refusal, type Resubmissions, send } from "../api";
import { name as pipeline, resubmissions } from "../live";
import { type Chosen, grouped, listedNumbers, requested, resubmission } from "../model";
import { zone } from "../preferences";
import { count, moment } from "../text";
import { Refused } from "./answer";

type Step =
  | { readonly kind: "offered" }
  | { readonly kind: "asked" }
  | { readonly kind: "answered"; readonly answer: Resubmissions; readonly next: number | null }
  | { readonly kind: "refused"; readonly refusal: Refusal };

const FIRST: Step = { kind: "offered" };
/** The most lines of one answer: rows of which the same is said share one. */
const MOST_LINES = 20;

interface ResubmitOf {
  readonly chosen: Chosen;
  /** What the button says that begins. */
  readonly word: string;
  readonly isOffered: boolean;
}

/** Resubmits error rows: a dry run says what would happen, and exactly that is done once it is confirmed. */
export function Resubmit({ chosen, word, isOffered }: ResubmitOf) {
  const [step, setStep] = useState<Step>(FIRST);
  const panel = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    // The button that had the focus is gone.
    if (step !== FIRST) (panel.current ?? button.current ?? document.getElementById("main"))?.focus();
  }, [step]);
  const ask = (body: object, rest: number | null = null) => {
    setStep({ kind: "asked" });
    send<Resubmissions>(address("pipelines", pipeline.value ?? "", "errors", "resubmissions"), body).then(
      (answer) => {
        if (!answer.dry_run) resubmissions.value += 1;
        setStep({ kind: "answered", answer, next: answer.next ?? rest });
      },
      (error: unknown) => {
        if (!(error instanceof Refusal)) throw error;
        setStep({ kind: "refused", refusal: error });
      },
    );
  };
  const look = (after = 0) => ask({ ...requested(chosen), after, dry_run: true });
  if (step.kind === "offered") {
    return isOffered ? (
      <p>
        <button type="button" ref={button} onClick={() => look()}>
          {word}
        </button>
      </p>
    ) : null;
  }
  const { answer, next } = step.kind === "answered" ? step : { answer: null, next: null };
  const toConfirm = answer?.dry_run && answer.taken.length > 0 ? answer : null;
  return (
    <div class="state" role="group" aria-label="Resubmission" tabIndex={-1} ref={panel}>
      {step.kind === "asked" && <p>The service is asked…</p>}
      {step.kind === "refused" && <Refused refusal={step.refusal} />}
      {answer !== null && <Outcome answer={answer} />}
      {next !== null && <p>More rows match. They come after these.</p>}
      <p class="buttons">
        {toConfirm !== null && (
          <button type="button" onClick={() => ask({ numbers: toConfirm.taken }, next)}>
            Resubmit {rows(toConfirm.taken.length)}
          </button>
        )}
        {next !== null && toConfirm === null && (
          <button type="button" onClick={() => look(next)}>
            Next rows…
          </button>
        )}
        {step.kind !== "asked" && (
          <button type="button" onClick={() => setStep({ kind: "offered" })}>
            {toConfirm === null ? "Close" : "Cancel"}
          </button>
        )}
      </p>
    </div>
  );
}

function Outcome({ answer }: { readonly answer: Resubmissions }) {
  const of = answer.relations.map((each) => `${count(each.rows)} of ${each.relation}`).join(", ");
  const counts = grouped(answer.counts, ({ rowtime, windows }) => {
    const ends = windows.map((each) => `, in the window of ${each.relation} that ends at ${shown(each.ends)} or later`);
    return `at ${shown(rowtime)} or later${ends.join("")}`;
  });
  const stay = grouped(answer.refused, (each) => each.why);
  const lines = [
    ...counts.map(({ numbers, said }) => `${listedNumbers(numbers)} will count ${said}.`),
    ...stay.map(({ numbers, said }) => `${listedNumbers(numbers)} cannot be resubmitted: ${said}.`),
  ];
  return (
    <>
      <p>
        <strong>
          {rows(answer.taken.length)} {answer.dry_run ? "would be resubmitted" : "resubmitted"}
          {of && `: ${of}`}.
        </strong>{" "}
        {answer.dry_run && answer.taken.length > 0 && `After this the pipeline may have ${count(answer.left)} more resubmissions.`}
        {!answer.dry_run && answer.taken.length > 0 && "The pipeline reads them within seconds; what fails again is a new error row."}
      </p>
      {lines.length > 0 && (
        <ul>
          {lines.slice(0, MOST_LINES).map((line) => (
            <li key={line}>{line}</li>
          ))}
          {lines.length > MOST_LINES && <li>{count(lines.length - MOST_LINES)} more lines are not shown.</li>}
        </ul>
      )}
    </>
  );
}

function rows(number: number): string {
  if (number === 0) return "No row";
  return number === 1 ? "1 row" : `${count(number)} rows`;
}

function shown(time: string | null): string {
  return moment(time === null ? null : Date.parse(time), zone.value);
}

/** Says which command resubmits rows: for a caller without the right. */
export function Command({ chosen }: { readonly chosen: Chosen }) {
  return (
    <section aria-labelledby="resubmit">
      <h3 id="resubmit">Resubmit</h3>
      <p>
        The pipeline reads the messages again, each once. This shows which rows that would be, and in which windows they would count;
        without <code>--dry-run</code> they are resubmitted.
      </p>
      <pre tabIndex={0} role="region" aria-label="Command">
        {resubmission(chosen)}
      </pre>
    </section>
  );
}
