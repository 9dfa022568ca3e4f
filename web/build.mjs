// node build.mjs [FOLDER]: bundles src/ into FOLDER (dist). The same sources and lockfile give the same bytes: no time,
// no path and no name of the machine goes in.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = process.argv[2] ?? `${here}dist`;

await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.js" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2020", "chrome90", "firefox90", "safari16"],
  charset: "utf8",
  legalComments: "none",
});
await build({
  absWorkingDir: here,
  entryPoints: { page: "src/page.css" },
  outdir: out,
  bundle: true,
  minify: true,
  target: ["chrome90", "firefox90", "safari16"],
});
for (const file of ["index.html", "icon.svg"]) await copyFile(`${here}src/${file}`, `${out}/${file}`);

// What the bundle is made of, and the licences that must go with it.
const parts = ["preact", "htm", "uplot"].map(async (name) => {
  const folder = `${here}node_modules/${name}`;
  const { version } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
  return `${name} ${version}\n\n${(await readFile(`${folder}/LICENSE`, "utf8")).trim()}\n`;
});
await writeFile(`${out}/licences.txt`, (await Promise.all(parts)).join(`\n${"-".repeat(80)}\n\n`));
