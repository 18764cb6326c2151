import { to } from "../address";
import { causes } from "../live";
import { count } from "../text";

/** What keeps rows back: for each cause why, when the rows come out, and what can be changed. */
export function Causes() {
  if (causes.value.length === 0) return null;
  return (
    <section class="state warn" aria-labelledby="causes">
      <h2 id="causes">
        <span aria-hidden="true">⚠ </span>Rows wait
      </h2>
      <ul>
        {causes.value.map((each) => (
          <li key={`${each.cause} ${each.relation} ${each.topic} ${each.partition}`}>
            {each.why} <strong>{count(each.rows)} rows</strong> wait in{" "}
            {each.holds.map((name, at) => (
              <>
                {at > 0 && ", "}
                <a href={to(["relations", name])}>{name}</a>
              </>
            ))}
            . {each.released} <em>What to do:</em> {each.change}
          </li>
        ))}
      </ul>
    </section>
  );
}
