import { filters } from "../address";
import { connection, relations } from "../live";
import { Causes } from "./causes";
import { GraphView } from "./graph";
import { RelationTable } from "./relation_table";

export function Overview() {
  if (connection.value.kind === "refused" || relations.value.length === 0) return null;
  return (
    <>
      <Causes />
      <GraphView around={filters.value.get("around")} />
      <RelationTable />
    </>
  );
}
