import type { ComponentChildren } from "preact";
import { clock, connect, connection, graph, heardAt, newest, phase, relations } from "../live";
import { span } from "../text";

interface Message {
  readonly kind: "note" | "bad";
  readonly title: string;
  readonly text: ComponentChildren;
}

/** What a person has to know before any number, and what to do; nothing while all is well. */
export function State() {
  const message = refusedOrLost() ?? ofPhase() ?? withoutRows();
  return (
    <>
      {/* A screen reader says when the title changes, and not each second how long it has been so. */}
      <p role="status" class="hidden">
        {message?.title}
      </p>
      {message !== null && (
        <section class={`state ${message.kind}`}>
          <h2>{message.title}</h2>
          <p>{message.text}</p>
        </section>
      )}
    </>
  );
}

function refusedOrLost(): Message | null {
  const now = connection.value;
  if (now.kind === "connecting" && graph.value === null) return { kind: "note", title: "Connecting", text: "The page asks the service for its pipeline." };
  if (now.kind === "lost") {
    return {
      kind: "bad",
      title: "The connection is lost",
      text: (
        <>
          {newest.value === null ? `No numbers have come: ${now.why}. ` : `The numbers below are of ${ago()}: ${now.why}. `}
          The page tries again each 2 s. If the process has ended, start it again: it continues where it committed.
        </>
      ),
    };
  }
  if (now.kind === "refused") {
    const { message, hint, status } = now.refusal;
    return {
      kind: "bad",
      title: status === 403 ? "A right is missing" : "The service refuses",
      text: (
        <>
          {message}
          {hint !== null && `. ${hint}`} <button type="button" onClick={connect}>Try again</button>
        </>
      ),
    };
  }
  return null;
}

function ago(): string {
  return `${span(clock.value - heardAt.value)} ago`;
}

function ofPhase(): Message | null {
  const now = phase.value;
  const since = now?.since ? ` for ${span(clock.value - Date.parse(now.since))}` : "";
  switch (now?.phase) {
    case "starting":
      return { kind: "note", title: "Starting", text: `The process connects to its database and brokers${since}.` };
    case "recovering":
      return {
        kind: "note",
        title: "Recovering",
        text: `The process reads the messages since the last snapshot again${since}. Nothing is written until it has reached the committed positions.`,
      };
    case "following":
      return { kind: "note", title: "Following", text: "Another replica leads. This one keeps up and takes over if the leader ends." };
    case "waiting":
      return {
        kind: "bad",
        title: `Waiting for ${now.waits_for ?? "a dependency"}`,
        text: `The pipeline has waited${since}, tries again by itself and loses nothing. Check that what it waits for runs and can be reached from the service.`,
      };
    case "stopping":
      return { kind: "note", title: "Stopping", text: "The process finishes its commit and ends." };
    default:
      return null;
  }
}

function withoutRows(): Message | null {
  const sources = relations.value.filter((each) => each.partitions > 0);
  if (phase.value?.phase !== "running" || newest.value === null || sources.some((each) => each.rowsIn || each.rejected)) return null;
  if (sources.length === 0) {
    return relations.value.some((each) => each.rowsIn)
      ? null
      : { kind: "note", title: "No partitions yet", text: "No topic has a partition that the pipeline reads. Create the topic, and check its name in CREATE FOREIGN STREAM." };
  }
  const names = sources.map((each) => each.name).join(", ");
  return {
    kind: "note",
    title: "No data yet",
    text: `The pipeline runs, and no message has come for ${names}. Write messages to the topic. If it has some, check its name and the option starting_position in CREATE FOREIGN STREAM.`,
  };
}
