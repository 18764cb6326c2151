import { computed } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { filtered, to } from "../address";
import { causes, clock, graph, relations } from "../live";
import { type Layout, layoutOf, type Point } from "../layout";
import { type Drawn, drawn, edgeName, edgesOf, MOST_NODES, type Now } from "../model";
import { zone } from "../preferences";
import { clockTime, count, rate } from "../text";

const WIDTH = 216;
const HEIGHT = 84;
/** Below this width the graph goes from top to bottom, as in page.css. */
const NARROW = matchMedia("(max-width: 700px)");

const byName = computed(() => new Map(relations.value.map((each) => [each.name, each])));
const held = computed(() => {
  const found = new Set<string>();
  if (graph.value !== null) for (const each of causes.value) for (const edge of edgesOf(graph.value, each)) found.add(edge);
  return found;
});

/** The relations as a graph. Numbers change; places do not, as long as the process runs. */
export function GraphView({ around }: { readonly around: string | null }) {
  const plan = graph.value;
  const isNarrow = useIsNarrow();
  const [shown, setShown] = useState<{ readonly part: Drawn; readonly layout: Layout } | null>(null);
  useEffect(() => {
    if (plan === null) return;
    let isCurrent = true;
    const part = drawn(plan, around);
    const direction = isNarrow ? "TB" : "LR";
    void layoutOf({ names: part.names, edges: part.edges, direction, width: WIDTH, height: HEIGHT }).then((layout) => {
      if (isCurrent) setShown({ part, layout });
    });
    return () => {
      isCurrent = false;
    };
  }, [plan?.digest, around, isNarrow]);
  return (
    <section aria-labelledby="graph">
      <h2 id="graph">
        Graph{around !== null && ` around ${around}`}
        {shown !== null && shown.part.left > 0 && <Left left={shown.part.left} around={around} />}
      </h2>
      {shown === null ? (
        <p>The graph is laid out.</p>
      ) : (
        <section class="graph" tabIndex={0} aria-label="Graph of relations; the table below has the same numbers">
          <div class="canvas" style={sized(shown.layout.width, shown.layout.height)}>
            <Edges {...shown} />
            {shown.part.names.map((name) => (
              <NodeBox key={name} name={name} at={shown.layout.nodes[name] ?? { x: 0, y: 0 }} />
            ))}
          </div>
        </section>
      )}
    </section>
  );
}

function Left({ left, around }: { readonly left: number; readonly around: string | null }) {
  return (
    <small>
      {around === null
        ? ` the first ${MOST_NODES} relations; ${count(left)} more are in the table, where “around” draws their part`
        : ` what is at most two steps away; ${count(left)} more relations. `}
      {around !== null && <a href={filtered({ around: "" })}>Draw all</a>}
    </small>
  );
}

function useIsNarrow(): boolean {
  const [isNarrow, setIsNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const changed = () => setIsNarrow(NARROW.matches);
    NARROW.addEventListener("change", changed);
    return () => NARROW.removeEventListener("change", changed);
  }, []);
  return isNarrow;
}

function Edges({ part, layout }: { readonly part: Drawn; readonly layout: Layout }) {
  const marked = part.edges.map((edge) => held.value.has(edgeName(edge)));
  return (
    <>
      <svg width={layout.width} height={layout.height} aria-hidden="true">
        <defs>
          <Arrow id="arrow" />
          <Arrow id="arrow-held" />
        </defs>
        {part.edges.map((edge, at) => (
          <path
            key={edgeName(edge)}
            d={curve(layout.edges[at] ?? [])}
            class={marked[at] ? "edge held" : "edge"}
            marker-end={`url(#${marked[at] ? "arrow-held" : "arrow"})`}
          />
        ))}
      </svg>
      {part.edges.map((edge, at) => {
        const points = layout.edges[at] ?? [];
        const middle = points[Math.floor(points.length / 2)] ?? { x: 0, y: 0 };
        return <EdgeBound key={edgeName(edge)} from={edge.from} isHeld={marked[at] ?? false} at={middle} />;
      })}
    </>
  );
}

function Arrow({ id }: { readonly id: string }) {
  return (
    <marker id={id} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="10" markerHeight="10" markerUnits="userSpaceOnUse" orient="auto">
      <path d="M0 0L8 4L0 8z" class={id} />
    </marker>
  );
}

/** The bound that an edge carries, and a mark if it keeps others back. */
function EdgeBound({ from, isHeld, at }: { readonly from: string; readonly isHeld: boolean; readonly at: Point }) {
  const bound = byName.value.get(from)?.boundMs ?? null;
  if (bound === null && !isHeld) return null;
  const text = clockTime(bound, clock.value, zone.value).replace(/\.\d+$/, "");
  return (
    <span class={isHeld ? "bound held" : "bound"} style={{ left: `${at.x}px`, top: `${at.y}px` }}>
      {isHeld && <span role="img" aria-label="keeps others back: ">⚠ </span>}
      {text.split(" ").at(-1)}
    </span>
  );
}

function sized(width: number, height: number) {
  return { width: `${width}px`, height: `${height}px` };
}

function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  const last = rest.pop() ?? first;
  // Quadratic curves through the middles of the bends: what dagre gives is a line with corners.
  let path = `M${first.x} ${first.y}`;
  rest.forEach((point, at) => {
    const next = rest[at + 1];
    const end = next === undefined ? last : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    path += `Q${point.x} ${point.y} ${end.x} ${end.y}`;
  });
  return rest.length > 0 ? path : `${path}L${last.x} ${last.y}`;
}

function NodeBox({ name, at }: { readonly name: string; readonly at: Point }) {
  const now = byName.value.get(name);
  const place = { left: `${at.x - WIDTH / 2}px`, top: `${at.y - HEIGHT / 2}px`, ...sized(WIDTH, HEIGHT) };
  return (
    <a class={`node ${now?.isComputed ? "" : "unread"}`} href={to(["relations", name])} style={place} title={name}>
      <strong>{name}</strong>
      <small>{now?.kind}</small>
      {now === undefined || !now.isComputed ? (
        <small>no started pump reads it</small>
      ) : (
        <>
          <span class="rate">{rate(now.outPerS)} rows/s</span>
          <span class="marks">
            {marks(now).map(([word, value, isBad]) => (
              <span key={word} class={isBad ? "bad" : ""}>
                {word} {value}
              </span>
            ))}
          </span>
        </>
      )}
    </a>
  );
}

/** Return what is worth a look in a node: its lag or what it has written, and the counts that are not zero. */
function marks(now: Now): [word: string, value: string, isBad: boolean][] {
  const found: [string, string, boolean][] = [];
  const isWritten = now.kind.startsWith("foreign") && now.partitions === 0;
  if (now.lag !== null) found.push(["lag", count(now.lag), false]);
  if (isWritten) found.push(["written", count(now.rowsOut), false]);
  if (now.held > 0) found.push(["held", count(now.held), false]);
  if (now.late > 0) found.push(["late", count(now.late), true]);
  if (now.rejected > 0) found.push([isWritten ? "refused" : "rejected", count(now.rejected), true]);
  if (found.length === 0) found.push(["rows", count(now.rowsOut), false]);
  return found;
}
