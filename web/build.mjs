// node build.mjs [FOLDER]: bundles src/ into FOLDER (dist). The same sources and lockfile give the same bytes: no time,
// no path and no name of the machine goes in.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = process.argv[2] ?? `${here}dist`;

const common = {
  absWorkingDir: here,
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2020", "chrome90", "firefox90", "safari16"],
  charset: "utf8",
  legalComments: "none",
};

// What a bundle is made of, and the licences that must go with it.
async function licences(names) {
  const parts = names.map(async (name) => {
    const folder = `${here}node_modules/${name}`;
    const { version } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
    return `${name} ${version}\n\n${(await readFile(`${folder}/LICENSE`, "utf8")).trim()}\n`;
  });
  return (await Promise.all(parts)).join(`\n${"-".repeat(80)}\n\n`);
}

// The live page: a file each.
async function livePage() {
  await build({ ...common, entryPoints: { page: "src/main.js" } });
  await build({ ...common, entryPoints: { page: "src/page.css" } });
  for (const file of ["index.html", "icon.svg"]) await copyFile(`${here}src/${file}`, `${out}/${file}`);
  await writeFile(`${out}/licences.txt`, await licences(["preact", "htm", "uplot"]));
}

// The reports: one file with everything in it. Its policy lets this script and this style run, and nothing else; the
// marks @@TITLE@@, @@SUMMARY@@ and @@DOCUMENT@@ are left to src/audit/report.cc.
async function report() {
  const bundle = async (file) => {
    const { outputFiles } = await build({ ...common, entryPoints: [file], write: false });
    return outputFiles[0].text.trim();
  };
  const script = await bundle("src/report/main.js");
  const style = await bundle("src/report/report.css");
  if (/<\/script|<!--|<\/style|@@[A-Z]/i.test(script + style)) throw new Error("the bundle would end its own element");
  const allowed = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const parts = {
    POLICY: `default-src 'none'; script-src ${allowed(script)}; style-src ${allowed(style)}; base-uri 'none'; form-action 'none'`,
    STYLE: style,
    SCRIPT: script,
    LICENCES: (await licences(["preact", "htm"])).trim(),
  };
  const template = await readFile(`${here}src/report/report.html`, "utf8");
  await writeFile(`${out}/report/report.html`, template.replace(/@@([A-Z]+)@@/g, (mark, name) => parts[name] ?? mark));
}

await mkdir(`${out}/report`, { recursive: true });
await livePage();
await report();
