// Headless Chromium, and what every test of the page asks of it: no console error, no request to another origin.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const AXE = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
export const TIMEOUT = 120_000; // ms; a busy machine is slow, and a failed test may take its time
const PLACES = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export function launch() {
  const executablePath = PLACES.find((path) => path && existsSync(path));
  assert.ok(executablePath, "no chromium was found: ./dev setup installs it, or name one in CHROMIUM");
  return chromium.launch({ executablePath, args: ["--no-sandbox"], timeout: TIMEOUT });
}

/** Waits until `condition()` or its promise is true. */
export async function until(condition) {
  const end = Date.now() + TIMEOUT;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `waited in vain: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
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

/** What both servers' tests do and look at in the playground. */
export const send = (page) => page.getByRole("button", { name: "Send" }).click();
export const tokens = (page) => page.getByRole("listbox", { name: /Tokens of the answer/ }).getByRole("option");
export const verdict = (page) => page.locator(".verdict");

/** Presses the button, and waits for its request: an older verdict is gone by then. */
export async function replay(page) {
  const sent = page.waitForRequest(/completions$/);
  await page.getByRole("button", { name: "Replay with this seed" }).click();
  await sent;
}

/** Lets `change` rewrite the events of all but the first `spared` answers: a server, or a proxy, that is not true. */
export async function tamper(page, change, spared = 1) {
  let answers = 0;
  await page.route("**/v1/chat/completions", async (route) => {
    const response = await route.fetch();
    let body = await response.text();
    answers += 1;
    let at = 0;
    const rewrite = (_, text) => {
      const event = JSON.parse(text);
      const brings = event.choices?.[0]?.logprobs?.content?.length > 0;
      change(event, brings ? at : null);
      if (brings) at += 1;
      return `data: ${JSON.stringify(event)}`;
    };
    if (answers > spared) body = body.replace(/^data: (\{.*\})$/gm, rewrite);
    await route.fulfill({ response, body });
  });
}

/** The next float32 away from zero: one bit more. */
export function nextFloat(value) {
  const bits = new Uint32Array(new Float32Array([value]).buffer);
  bits[0] += 1;
  return new Float32Array(bits.buffer)[0];
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
