// The pages of results in headless Chromium, opened as files: EADEM_REPORTS names a folder that holds, for each document,
// NAME.json with its page NAME.html, hostile-NAME.html (every text replaced by markup) and bare-NAME.html (only the name).
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { launch, TIMEOUT, violations } from "./browser.mjs";

const FOLDER = process.env.EADEM_REPORTS;
const PAGES = {
  accept: { title: "Acceptance: smollm2-135m", sections: ["Matrix", "Negative control", "Time per cell", "Evidence"] },
  "accept-endpoint": { title: "Acceptance: tiny", sections: ["What failed", "Matrix", "What was not tested"] },
  gate: { title: "Drift gate: smollm2-135m", sections: ["What drifted", "Identity or bug", "Distance of logprobs"] },
  cost: { title: "Cost of the contract: smollm2-135m", sections: ["Increase of time under the contract", "In figures"] },
  "cost-since": {
    title: "Cost of the contract: smollm2-135m",
    sections: ["Increase of the contract's cost since then", "In figures"],
  },
  diff: { title: "Comparison", sections: ["Which level holds", "Distribution", "Quality"] },
  "near-tie": { title: "Near ties: smollm2-135m", sections: ["Margins and differences", "Risk per prompt"] },
};

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A tab; every request but that for the page which `show` names is a fault, and so is whatever the console says. */
async function open({ ignore, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 900 }, ...options });
  context.setDefaultTimeout(TIMEOUT);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => {
    if (!ignore?.test(message.text())) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(`${error.stack}`));
  page.on("dialog", (dialog) => faults.push(`a dialog: ${dialog.message()}`));
  const awaited = [];
  await page.route("**", (route) => {
    if (route.request().url() === awaited.pop()) return route.continue();
    faults.push(`a request for ${route.request().url()}`);
    return route.abort();
  });
  const show = async (name) => {
    awaited.push(pathToFileURL(`${FOLDER}/${name}.html`).href);
    await page.goto(awaited[0]);
    assert.equal(awaited.length, 0);
  };
  const finish = async () => {
    await context.close();
    assert.deepEqual(faults, []);
  };
  return { page, show, finish };
}

const document = async (name) => JSON.parse(await readFile(`${FOLDER}/${name}.json`, "utf8"));
const words = (name) => name.replaceAll("_", " ");
const verdictOf = (page) => page.getByRole("region", { name: "Verdict", exact: true });

async function tellsItsResult(page, name) {
  const { title, sections } = PAGES[name];
  const wanted = await document(name);
  assert.equal(await page.title(), title);
  assert.equal(await page.getByRole("heading", { level: 1 }).innerText(), title);
  const verdict = await verdictOf(page).innerText();
  assert.ok(verdict.toLowerCase().startsWith(words(wanted.verdict)), verdict);
  assert.ok(verdict.includes(wanted.summary), verdict);
  for (const [field, count] of Object.entries(wanted.counts ?? {})) {
    assert.ok(verdict.includes(`${words(field)}\n${count.toLocaleString("en-US")}`), `${field} ${count}: ${verdict}`);
  }
  for (const section of sections) await page.getByRole("heading", { level: 2, name: section }).waitFor();
  assert.ok((await page.getByRole("table").count()) >= 2);
  assert.ok((await page.getByRole("img").count()) >= 1, "no chart");
}

const ground = (page) => page.evaluate(() => getComputedStyle(globalThis.document.documentElement).backgroundColor);

async function suitsBothThemes(page) {
  const grounds = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    grounds.push(await ground(page));
    assert.deepEqual(await violations(page), []);
  }
  assert.notEqual(grounds[0], grounds[1]);
}

/** Paper is white in the dark theme too, and nothing on it is closed. */
async function prints(page) {
  await page.evaluate(() => {
    const closed = () => globalThis.document.querySelectorAll("details:not([open])").length;
    globalThis.seen = [closed()];
    for (const event of ["beforeprint", "afterprint"]) addEventListener(event, () => globalThis.seen.push(closed()));
  });
  const pdf = await page.pdf({ format: "A4" });
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  const [before, during, afterwards] = await page.evaluate(() => globalThis.seen);
  assert.equal(during, 0);
  assert.equal(afterwards, before);
  await page.emulateMedia({ media: "print" });
  assert.equal(await ground(page), "rgba(0, 0, 0, 0)");
  assert.equal(await page.getByRole("button").count(), 0);
  await page.emulateMedia({ media: "screen" });
}

async function fitsNarrowScreens(page) {
  await page.setViewportSize({ width: 360, height: 700 });
  const over = await page.evaluate(() => globalThis.document.documentElement.scrollWidth - innerWidth);
  assert.ok(over <= 0, `${over} pixels too wide`);
}

async function showsTextsAsTexts(page) {
  await verdictOf(page).waitFor();
  const found = await page.evaluate(() => ({
    scripts: globalThis.document.scripts.length,
    others: globalThis.document.querySelectorAll("img, iframe, b, style:not(head *), form, [onerror]").length,
    broken: globalThis.broken,
    text: globalThis.document.querySelector("main").innerText,
  }));
  assert.deepEqual([found.scripts, found.others, found.broken], [2, 0, undefined]);
  for (const piece of ["</script><script>broken=1</script>", "<img src=x onerror=broken=1>"]) {
    assert.ok(found.text.includes(piece), found.text);
  }
}

for (const name of Object.keys(PAGES)) {
  test(`${name}: verdict, counts and sections, in both themes, on paper, on a narrow screen`, async () => {
    const { page, show, finish } = await open();
    await show(name);
    await tellsItsResult(page, name);
    await suitsBothThemes(page);
    await prints(page);
    await fitsNarrowScreens(page);
    await finish();
  });

  test(`${name}: hostile texts are shown as texts, and missing fields are left out`, async () => {
    const { page, show, finish } = await open();
    await show(`hostile-${name}`);
    await showsTextsAsTexts(page);
    await show(`bare-${name}`);
    await verdictOf(page).waitFor();
    await finish();
  });
}

test("without scripts, every page tells title, verdict, summary and counts", async () => {
  const { page, show, finish } = await open({ javaScriptEnabled: false });
  for (const [name, { title }] of Object.entries(PAGES)) {
    const { verdict, summary, counts = {} } = await document(name);
    await show(name);
    const text = await page.locator("main").innerText();
    for (const piece of [title, verdict, summary, "Scripts are off"]) assert.ok(text.includes(piece), text);
    for (const [field, count] of Object.entries(counts)) assert.ok(text.includes(`${field}\t${count}`), text);
  }
  await finish();
});

test("the policy lets nothing else run or load", async () => {
  const { page, show, finish } = await open({ ignore: /Content Security Policy|violates/ });
  await show("accept");
  const loaded = await page.evaluate(async () => {
    const script = globalThis.document.createElement("script");
    script.textContent = "globalThis.broken = 1";
    globalThis.document.body.append(script);
    const fetched = await fetch("data:text/plain,x").then(
      () => true,
      () => false,
    );
    return [globalThis.broken, fetched];
  });
  assert.deepEqual(loaded, [undefined, false]);
  await finish();
});

test("a cell of the matrix leads to its evidence, by keyboard; the page gives its document back", async () => {
  const { page, show, finish } = await open();
  const wanted = await document("accept");
  await show("accept");
  const cell = wanted.cells.find(({ verdict }) => verdict === "pass").name;
  const evidence = page.locator("details", { has: page.getByRole("heading", { name: cell, exact: true }) });
  assert.equal(await evidence.evaluate((element) => element.open), false);
  await page.getByRole("link", { name: cell, exact: true }).focus();
  await page.keyboard.press("Enter");
  await evidence.getByRole("table").first().waitFor();
  assert.equal(await evidence.evaluate((element) => element.open), true);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Save the JSON" }).click(),
  ]);
  assert.equal(download.suggestedFilename(), "accept.json");
  assert.deepEqual(JSON.parse(await readFile(await download.path(), "utf8")), wanted);
  await finish();
});
