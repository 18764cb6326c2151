// Computes layouts: see layout.ts.

import { Graph, layout } from "@dagrejs/dagre";
import type { Layout, LayoutTask } from "./layout";

interface Asked {
  readonly number: number;
  readonly task: LayoutTask;
}

addEventListener("message", (event: MessageEvent<Asked>) => {
  postMessage({ number: event.data.number, layout: computed(event.data.task) });
});

function computed(task: LayoutTask): Layout {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: task.direction, nodesep: 28, ranksep: task.direction === "LR" ? 128 : 64, marginx: 8, marginy: 8 });
  for (const name of task.names) graph.setNode(name, { width: task.width, height: task.height });
  task.edges.forEach((edge, at) => graph.setEdge(edge.from, edge.to, {}, String(at)));
  layout(graph);
  const nodes: Record<string, { x: number; y: number }> = {};
  for (const name of task.names) {
    const { x, y } = graph.node(name);
    nodes[name] = { x: x ?? 0, y: y ?? 0 };
  }
  const edges = task.edges.map((edge, at) => graph.edge(edge.from, edge.to, String(at)).points ?? []);
  const { width = 0, height = 0 } = graph.graph();
  return { nodes, edges, width, height };
}
