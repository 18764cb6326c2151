import { path, to } from "../address";
import { clock, connection, heardAt, name, newest, pendingErrors, phase } from "../live";
import { type Theme, theme, zone } from "../preferences";
import { clockTime, count, moment, NOTHING, span } from "../text";

const VIEWS: Readonly<Record<string, string>> = { "": "Overview", errors: "Errors", sql: "SQL", positions: "Positions" };
const NEXT_THEME: Readonly<Record<Theme, Theme>> = { system: "dark", dark: "light", light: "system" };

/** The line at the top: what runs, how far it got, and how old what is shown is. */
export function Head() {
  const isLost = connection.value.kind === "lost";
  const word = isLost ? "connection lost" : (phase.value?.phase ?? "connecting");
  return (
    <header>
      <a class="name" href={to([])}>
        {name.value ?? "Rowtide"}
      </a>
      <span class={`phase ${isLost ? "lost" : word}`} role="status">
        {word}
      </span>
      <dl class={isLost ? "old" : ""}>
        <Rowtime />
        <LastCommit />
        <div>
          <dt>errors pending</dt>
          <dd class={pendingErrors.value ? "bad" : ""}>
            <a href={to(["errors"], { pending: "true" })}>{count(pendingErrors.value)}</a>
          </dd>
        </div>
      </dl>
      <nav aria-label="Views">
        {Object.entries(VIEWS).map(([view, word]) => (
          <a key={view} href={to(view === "" ? [] : [view])} aria-current={(path.value[0] ?? "") === view ? "page" : undefined}>
            {word}
          </a>
        ))}
      </nav>
      <span class="switches">
        <button
          type="button"
          title="Show times in UTC or in the time zone of this browser"
          onClick={() => (zone.value = zone.value === "UTC" ? "local" : "UTC")}
        >
          Times: {zone.value}
        </button>
        <button
          type="button"
          title="Colours: by the system, dark or light"
          onClick={() => (theme.value = NEXT_THEME[theme.value])}
        >
          Colours: {theme.value}
        </button>
      </span>
    </header>
  );
}

function Rowtime() {
  const at = newest.value?.at;
  const ms = at?.rowtime ? Date.parse(at.rowtime) : null;
  return (
    <div>
      <dt>rowtime</dt>
      <dd title={moment(ms, zone.value)}>{clockTime(ms, clock.value, zone.value)}</dd>
    </div>
  );
}

/** The age of the last commit. The clocks of the service and this machine may differ: an age is never negative. */
function LastCommit() {
  const time = newest.value?.at.time;
  const age = time ? span(clock.value - Date.parse(time)) : null;
  return (
    <div>
      <dt>last commit</dt>
      <dd>{age === null ? NOTHING : `${age} ago`}</dd>
      {connection.value.kind === "lost" && <dd class="bad">numbers are {span(clock.value - heardAt.value)} old</dd>}
    </div>
  );
}
