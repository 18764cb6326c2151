import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { filtered, filters, to } from "../address";
import { address, type Commits, type Decision, type Decisions, type Positions, Refusal, type Snapshots } from "../api";
import { clock, connection, name as pipeline, newest } from "../live";
import { decided, missing, originOf, partitionOf, rowsOf, TABS, type Tab, tabOf } from "../positions";
import { zone } from "../preferences";
import { count, moment, NOTHING } from "../text";
import { Refused, useAnswer } from "./answer";
import { Table } from "./table";

/** The most partitions on a page of the table. */
const PARTITIONS = 100;
/** Snapshots and decisions are read from the database, and not with each commit. */
const READ_MS = 10_000;

/** How far the pipeline got: its partitions, its last commits, its snapshots and its decisions, a tab each. */
export function PositionsView() {
  const tab = tabOf(filters.value.get("tab"));
  return (
    <>
      <p>
        <a href={to([])}>← All relations</a>
      </p>
      <div class="tools">
        <h2>Positions</h2>
        <nav class="tabs" aria-label="Parts of this view">
          {TABS.map((each) => (
            <a key={each} href={to(["positions"], { tab: each })} aria-current={each === tab ? "page" : undefined}>
              {each}
            </a>
          ))}
        </nav>
      </div>
      {SHOWN[tab]()}
    </>
  );
}

const SHOWN: Readonly<Record<Tab, () => ComponentChildren>> = {
  partitions: () => <Partitions />,
  commits: () => <CommitList />,
  snapshots: () => <SnapshotList />,
  decisions: () => <DecisionList />,
};

/** Return the answer of a path of the pipeline. It is asked for again when `again` changes while the service answers. */
function useLive<Answer>(path: string, again: unknown): Answer | Refusal | null {
  const last = useRef(again);
  if (connection.value.kind === "live") last.current = again;
  const url = pipeline.value === null ? null : address("pipelines", pipeline.value, path);
  const after = filters.value.get("after");
  if (after !== null) url?.searchParams.set("after", after);
  return useAnswer<Answer>(url, last.current);
}

/** Return which commit the numbers of the page are of: another process may have committed none yet. */
function commitNow(): string {
  const at = newest.value?.at;
  return `${at?.epoch}.${at?.commit}`;
}

function Partitions() {
  const found = useLive<Positions>("positions", commitNow());
  if (found === null) return null;
  if (found instanceof Refusal) return <Refused refusal={found} />;
  if (found.positions.length === 0) return <p>The pipeline reads no partition yet.</p>;
  const pages = Math.ceil(found.positions.length / PARTITIONS);
  const page = Math.min(pages, Math.max(1, Number(filters.value.get("page")) || 1));
  return (
    <>
      <List
        of="partitions"
        titles={["partition", "relation", "next offset", "end", "lag", "bound", "bound from", "first offset"]}
        numbers={["next offset", "end", "lag", "first offset"]}
        rows={found.positions.slice((page - 1) * PARTITIONS, page * PARTITIONS).map((each) => [
          partitionOf(each.topic, each.partition),
          <a href={to(["relations", each.relation])}>{each.relation}</a>,
          count(each.next_offset),
          count(each.end_offset),
          count(each.lag),
          shown(each.bound),
          each.bound_from === "decision" || each.bound_from === "idle" ? (
            <a href={to(["positions"], { tab: "decisions" })}>{originOf(each)}</a>
          ) : (
            (originOf(each) ?? NOTHING)
          ),
          count(each.start_offset),
        ])}
      />
      {pages > 1 && (
        <nav aria-label="Pages of partitions">
          {page > 1 && <a href={filtered({ page: String(page - 1) })}>Previous</a>} page {page} of {pages}{" "}
          {page < pages && <a href={filtered({ page: String(page + 1) })}>Next</a>}
        </nav>
      )}
    </>
  );
}

function CommitList() {
  const found = useLive<Commits>("commits", commitNow());
  if (found === null) return null;
  if (found instanceof Refusal) return <Refused refusal={found} />;
  const left = found.next === null ? missing(found, found.begun === null ? null : shown(found.begun)) : null;
  return (
    <>
      {found.commits.length === 0 ? (
        <p>This process has not committed yet.</p>
      ) : (
        <List
          of="commits"
          titles={["commit", "committed", "seconds", "messages", "rows written", "late", "rejected", "snapshot", "epoch"]}
          numbers={["seconds", "messages", "late", "rejected", "snapshot", "epoch"]}
          rows={found.commits.map((each) => [
            count(each.number),
            shown(each.at),
            each.seconds.toFixed(3),
            count(each.messages),
            rowsOf(each) || "none",
            count(each.late),
            count(each.rejected),
            each.snapshot === null ? NOTHING : `${count(each.snapshot)} bytes`,
            count(each.epoch),
          ])}
        />
      )}
      {left !== null && <p>{left}</p>}
      <Pages of="commits" next={found.next} />
    </>
  );
}

function SnapshotList() {
  const found = useLive<Snapshots>("snapshots", Math.floor(clock.value / READ_MS));
  if (found === null) return null;
  if (found instanceof Refusal) return <Refused refusal={found} />;
  if (found.snapshots.length === 0) {
    return <p>No snapshot is stored yet. Until there is one, a start reads the log again from its beginning.</p>;
  }
  return (
    <List
      of="snapshots"
      titles={["snapshot", "stored", "commit", "bytes", "epoch"]}
      numbers={["commit", "bytes", "epoch"]}
      rows={found.snapshots.map((each) => [
        count(each.number),
        shown(each.stored_at),
        count(each.commit),
        count(each.bytes),
        count(each.epoch),
      ])}
    />
  );
}

function DecisionList() {
  const found = useLive<Decisions>("decisions", Math.floor(clock.value / READ_MS));
  if (found === null) return null;
  if (found instanceof Refusal) return <Refused refusal={found} />;
  if (found.decisions.length === 0) {
    return (
      <p>
        No decision is logged yet. Silent, quiet and new partitions make some, and so do skipped messages, resubmitted rows and
        backfills.
      </p>
    );
  }
  return (
    <>
      <List
        of="decisions"
        titles={["decision", "committed", "kind", "where", "what", "bound", "for", "epoch"]}
        numbers={["epoch"]}
        rows={found.decisions.map((each) => [
          count(each.number),
          shown(each.committed_at),
          each.kind,
          placeOf(each),
          decided(each),
          shown(each.bound),
          each.reader ?? "all readers",
          count(each.epoch),
        ])}
      />
      <Pages of="decisions" next={found.next} />
    </>
  );
}

/** Return where a decision took effect: before which message, or from which time on. */
function placeOf(decision: Decision): string {
  const { relation, topic, partition, offset } = decision;
  if (partition !== null) return `${partitionOf(topic ?? relation, partition)}@${offset}`;
  return decision.jumped_from === null ? relation : `${relation} from ${shown(decision.jumped_from)}`;
}

function shown(time: string | null): string {
  return moment(time === null ? null : Date.parse(time), zone.value);
}

interface Listed {
  readonly of: string;
  readonly titles: readonly string[];
  readonly numbers: readonly string[];
  readonly rows: readonly (readonly ComponentChildren[])[];
}

function List({ of, titles, numbers, rows }: Listed) {
  return (
    <Table
      label={`Table of ${of}`}
      columns={titles.map((name) => ({ name, isNumber: numbers.includes(name) }))}
      rows={rows.map((cells, key) => ({ key, cells }))}
    />
  );
}

function Pages({ of, next }: { readonly of: string; readonly next: string | null }) {
  return (
    <nav aria-label={`Pages of ${of}`}>
      {filters.value.has("after") && <a href={filtered({ after: "" })}>Newest {of}</a>}{" "}
      {next !== null && <a href={filtered({ after: next })}>Earlier {of}</a>}
    </nav>
  );
}
