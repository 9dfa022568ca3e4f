// Headless Chromium, and what every test of the page asks of it: no console error, no request to another origin.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const AXE = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
const TIMEOUT = 60_000; // ms; a busy machine is slow, and a failed test may take its time
const PLACES = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export function launch() {
  const executablePath = PLACES.find((path) => path && existsSync(path));
  assert.ok(executablePath, "no chromium was found: ./dev setup installs it, or name one in CHROMIUM");
  return chromium.launch({ executablePath, args: ["--no-sandbox"] });
}

/**
 * A page of its own at `origin`. `ignore`: console errors that a test causes on purpose. Call `finish` at its end.
 */
export async function open(
  browser,
  origin,
  { scheme = "light", width = 1280, height = 900, hash = "", ignore } = {},
) {
  const context = await browser.newContext({
    colorScheme: scheme,
    viewport: { width, height },
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(TIMEOUT);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !ignore?.test(message.text())) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(`${error.stack}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(origin) && !url.startsWith("data:")) faults.push(`a request to ${url}`);
  });
  await page.goto(`${origin}/${hash}`);
  const finish = async () => {
    await context.close();
    assert.deepEqual(faults, []);
  };
  return { page, context, finish };
}

/** What axe finds wrong in the page as it stands: rules of WCAG 2.2 A and AA, and best practices. */
export async function violations(page) {
  // Through the debugger's protocol, which the page's own policy does not bind.
  await page.evaluate(AXE);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  assert.ok(result.passes.length > 10, "axe ran hardly any rule");
  return result.violations.map(
    ({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("; ")}`,
  );
}
