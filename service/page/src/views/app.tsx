import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { path } from "../address";
import { connection, name } from "../live";
import { ErrorRowView } from "./error_row";
import { ErrorsView } from "./errors";
import { Head } from "./head";
import { LogIn } from "./log_in";
import { Overview } from "./overview";
import { PositionsView } from "./positions";
import { RelationView } from "./relation";
import { SqlView } from "./sql";
import { State } from "./state";

export function App() {
  const [view, item] = path.value;
  const [title, shown] = viewOf(view, item);
  useEffect(() => {
    document.title = [title, name.value, "Rowtide"].filter(Boolean).join(" · ");
  }, [title, name.value]);
  const isFirst = useRef(true);
  useEffect(() => {
    // A link has led to another view: what had the focus is gone.
    if (!isFirst.current) document.getElementById("main")?.focus();
    isFirst.current = false;
  }, [view, item]);
  const refusal = connection.value.kind === "refused" ? connection.value.refusal : null;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Head />
      <main id="main" tabIndex={-1} class={connection.value.kind === "lost" ? "old" : ""}>
        <h1 class="hidden">{title}</h1>
        {refusal?.status === 401 ? (
          <LogIn />
        ) : (
          <>
            <State />
            {shown}
          </>
        )}
      </main>
    </>
  );
}

/** Return the title of a view, and the view. */
function viewOf(view: string | undefined, item: string | undefined): [title: string, shown: JSX.Element] {
  if (view === "relations" && item !== undefined) return [item, <RelationView key={item} name={item} />];
  if (view === "errors" && item !== undefined) return [`Error row ${item}`, <ErrorRowView key={item} number={item} />];
  if (view === "errors") return ["Error rows", <ErrorsView />];
  if (view === "positions") return ["Positions", <PositionsView />];
  if (view === "sql") return ["SQL", <SqlView />];
  return ["Overview", <Overview />];
}

/** Move the focus: the part of the address after `#` is the view and cannot name a place. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
