import { filter, filtered, filters, to } from "../address";
import { clock, relations } from "../live";
import { listed, type Now, type Sort, SORTS } from "../model";
import { zone } from "../preferences";
import { clockTime, count, moment, NOTHING, rate, span } from "../text";

/** The most rows on a page of the table: a thousand relations change each second, and only what is seen is drawn. */
const PAGE_ROWS = 100;

const TITLES: Readonly<Record<Sort, string>> = {
  name: "relation",
  kind: "kind",
  inPerS: "in/s",
  outPerS: "out/s",
  boundMs: "bound",
  behindMs: "behind",
  held: "held",
  late: "late",
  rejected: "rejected",
};
const NUMBERS: ReadonlySet<Sort> = new Set(SORTS.slice(2));

/** All relations, with search and order: what the graph shows, for reading, and for screen readers. */
export function RelationTable() {
  const search = filters.value.get("search") ?? "";
  const sort = SORTS.find((each) => each === filters.value.get("sort")) ?? null;
  const isDown = filters.value.get("order") === "down";
  const all = listed(relations.value, search, sort, isDown);
  const pages = Math.max(1, Math.ceil(all.length / PAGE_ROWS));
  const page = Math.min(pages, Math.max(1, Number(filters.value.get("page")) || 1));
  const rows = all.slice((page - 1) * PAGE_ROWS, page * PAGE_ROWS);
  return (
    <section aria-labelledby="relations">
      <div class="tools">
        <h2 id="relations">Relations</h2>
        <label>
          Search{" "}
          <input
            type="search"
            value={search}
            onInput={(event) => filter({ search: event.currentTarget.value, page: "" })}
          />
        </label>
        <span role="status">
          {count(all.length)} of {count(relations.value.length)}
        </span>
        {pages > 1 && (
          <nav aria-label="Pages of the table">
            {page > 1 && <a href={filtered({ page: String(page - 1) })}>Previous</a>} page {page} of {pages}{" "}
            {page < pages && <a href={filtered({ page: String(page + 1) })}>Next</a>}
          </nav>
        )}
      </div>
      <section class="scroll" tabIndex={0} aria-label="Table of relations">
        <table>
          <thead>
            <tr>
              {SORTS.map((each) => (
                <Title key={each} of={each} isSorted={each === sort} isDown={isDown} />
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((each) => (
              <Row key={each.name} now={each} />
            ))}
          </tbody>
        </table>
      </section>
      {all.length === 0 && <p>No relation has “{search}” in its name or kind.</p>}
    </section>
  );
}

function Title({ of, isSorted, isDown }: { readonly of: Sort; readonly isSorted: boolean; readonly isDown: boolean }) {
  // Numbers are looked at from the largest, names from A.
  const turnsDown = isSorted ? !isDown : NUMBERS.has(of);
  return (
    <th
      scope="col"
      class={NUMBERS.has(of) ? "number" : ""}
      aria-sort={isSorted ? (isDown ? "descending" : "ascending") : "none"}
    >
      <button type="button" onClick={() => filter({ sort: of, order: turnsDown ? "down" : "", page: "" })}>
        {TITLES[of]}
        <span aria-hidden="true">{isSorted ? (isDown ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}

function Row({ now }: { readonly now: Now }) {
  return (
    <tr>
      <th scope="row">
        <a href={to(["relations", now.name])}>{now.name}</a>{" "}
        <a class="around" href={filtered({ around: now.name })} aria-label={`Draw the graph around ${now.name}`}>
          around
        </a>
      </th>
      <td>{now.isComputed ? now.kind : `${now.kind}, not read`}</td>
      <td class="number">{rate(now.inPerS)}</td>
      <td class="number">{rate(now.outPerS)}</td>
      <td class="number" title={moment(now.boundMs, zone.value)}>
        {clockTime(now.boundMs, clock.value, zone.value)}
      </td>
      <td class="number">{now.behindMs === null ? NOTHING : span(now.behindMs)}</td>
      <td class="number">{counted(now, now.held)}</td>
      <ErrorCount now={now} kind="LATE" value={now.late} />
      <ErrorCount now={now} kind="REJECTED" value={now.rejected} />
    </tr>
  );
}

/** A count of error rows, which leads to them. */
function ErrorCount({ now, kind, value }: { readonly now: Now; readonly kind: string; readonly value: number }) {
  if (value === 0) return <td class="number">{counted(now, value)}</td>;
  return (
    <td class="number bad">
      <a href={to(["errors"], { relation: now.name, kind })}>{count(value)}</a>
    </td>
  );
}

function counted(now: Now, value: number): string {
  return count(now.rowsIn === null ? null : value);
}
