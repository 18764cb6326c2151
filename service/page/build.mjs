// Builds the page into service/rowtide/web/page/assets, or to the folder that --into names; --test runs the tests.
//
// The same sources give the same bytes: names have the hash of their content, and nothing has the time or a path of
// the machine. tests/integration/page/test_page_bundle.py builds again and compares.
import { createHash } from "node:crypto";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const { values: options } = parseArgs({
  options: {
    into: { type: "string", default: join(here, "../rowtide/web/page/assets") },
    test: { type: "boolean", default: false },
  },
});
const COMMON = { absWorkingDir: here, bundle: true, legalComments: "none", target: "es2022", write: false, logLevel: "warning" };

async function bundled(entry, more) {
  const built = await build({ ...COMMON, minify: true, metafile: true, entryPoints: [entry], ...more });
  return { text: built.outputFiles[0].contents, inputs: Object.keys(built.metafile.inputs) };
}

function named(stem, suffix, content) {
  return `${stem}-${createHash("sha256").update(content).digest("hex").slice(0, 12)}.${suffix}`;
}

/** Return the licences of the packages that are in the bundle, by their names and versions. */
function notices(inputs) {
  const folders = new Set(inputs.map((path) => path.match(/^node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0]).filter(Boolean));
  const parts = [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(here, folder, "package.json"), "utf8"));
    const file = readdirSync(join(here, folder)).find((each) => /^licen[cs]e/i.test(each));
    if (file === undefined) throw new Error(`${name} has no file with its licence`);
    return `${name} ${version} (${license})\n\n${readFileSync(join(here, folder, file), "utf8").trim()}\n`;
  });
  return `The page contains these packages.\n\n${parts.join("\n----\n\n")}`;
}

async function page() {
  const worker = await bundled("src/layout.worker.ts", { format: "iife" });
  const workerName = named("layout", "js", worker.text);
  const script = await bundled("src/main.tsx", {
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { LAYOUT_WORKER: JSON.stringify(workerName) },
  });
  const style = await bundled("src/page.css", {});
  const files = new Map([[workerName, worker.text]]);
  let index = readFileSync(join(here, "src/index.html"), "utf8");
  for (const [stem, suffix, content] of [["page", "js", script.text], ["page", "css", style.text]]) {
    const name = named(stem, suffix, content);
    files.set(name, content);
    index = index.replace(`${stem}.${suffix}`, name);
  }
  files.set("index.html", index);
  files.set("notices.txt", notices([...worker.inputs, ...script.inputs]));
  rmSync(options.into, { recursive: true, force: true });
  mkdirSync(options.into, { recursive: true });
  for (const [name, content] of files) writeFileSync(join(options.into, name), content);
}

async function test() {
  const folder = mkdtempSync(join(tmpdir(), "rowtide-page-"));
  const entryPoints = readdirSync(join(here, "test")).map((name) => join("test", name));
  await build({ ...COMMON, write: true, platform: "node", format: "esm", outExtension: { ".js": ".mjs" }, entryPoints, outdir: folder });
  const ran = spawnSync(process.execPath, ["--test", ...readdirSync(folder).map((name) => join(folder, name))], { stdio: "inherit" });
  rmSync(folder, { recursive: true });
  process.exitCode = ran.status ?? 1;
}

await (options.test ? test() : page());
