import type { ComponentChildren } from "preact";

export interface Column {
  readonly name: string;
  /** Numbers stand at the right. */
  readonly isNumber: boolean;
  /** What is said where the title is pointed at. */
  readonly hint?: string;
}

export interface TableRow {
  /** Distinguishes the row from the others of its table. */
  readonly key: number;
  /** The first one names the row, and stays. */
  readonly cells: readonly ComponentChildren[];
  readonly isGone?: boolean;
}

interface Shown {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly rows: readonly TableRow[];
  /** A long table scrolls below its titles, beside what is around it. */
  readonly isLong?: boolean;
}

/** A table that scrolls by itself: its first column stays. */
export function Table({ label, columns, rows, isLong = false }: Shown) {
  const kind = (at: number) => (columns[at]?.isNumber ? "number" : "");
  return (
    <section class={isLong ? "scroll rows" : "scroll"} tabIndex={0} aria-label={label}>
      <table class="kept">
        <thead>
          <tr>
            {columns.map(({ name, hint }, at) => (
              <th key={at} scope="col" class={kind(at)} title={hint}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, cells: [first, ...others], isGone }) => (
            <tr key={key} class={isGone ? "gone" : ""}>
              <th scope="row" class={kind(0)}>
                {first}
              </th>
              {others.map((each, at) => (
                <td key={at} class={kind(at + 1)}>
                  {each}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
